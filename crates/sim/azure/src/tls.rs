//! Certificates of the embedded Azure: a CA and a server certificate. They are stored in a folder, so that clients still trust the CA after
//! a restart.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore, ServerConfig};

/// Long, because a state folder may be used again after years and the CA is trusted by tests only.
const YEARS: i16 = 10;

/// Names that every server certificate has.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// An error of loading or creating certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {problem}; delete the folder {} to create new certificates", path.display(), path.parent().unwrap_or(path).display())]
    Damaged { path: PathBuf, problem: String },
    #[error("`{name}` is not a valid server name: {problem}")]
    Name { name: String, problem: String },
}

/// Certificates for a listener.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The CA certificate in PEM, for clients to trust.
    pub ca_file: PathBuf,
    pub config: Arc<ServerConfig>,
}

impl Tls {
    /// Loads the certificates in `folder`, or creates them. `extra` names are added to the default ones.
    pub fn open(folder: &Path, extra: &[String], now: Timestamp) -> Result<Self, TlsError> {
        let files = Files::new(folder);
        let names: Vec<&str> = NAMES.into_iter().chain(extra.iter().map(String::as_str)).collect();
        if !files.any_exists() {
            fs::create_dir_all(folder).map_err(|source| TlsError::Io { path: folder.to_owned(), source })?;
            files.make_ca(now)?;
            files.make_server(&names, now)?;
        }
        let missing = files.check(&names, now)?;
        if missing {
            // The certificate lacks a name, so it is replaced. The CA that clients trust is kept.
            files.make_server(&names, now)?;
            files.check(&names, now)?;
        }
        Ok(Self { config: files.config()?, ca_file: files.ca })
    }
}

struct Files {
    ca: PathBuf,
    ca_key: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        let file = |name| folder.join(name);
        Self { ca: file("ca.pem"), ca_key: file("ca.key"), server: file("server.pem"), server_key: file("server.key") }
    }

    fn any_exists(&self) -> bool {
        [&self.ca, &self.ca_key, &self.server, &self.server_key].into_iter().any(|path| path.exists())
    }

    fn make_ca(&self, now: Timestamp) -> Result<(), TlsError> {
        let key = KeyPair::generate().map_err(|error| damaged(&self.ca_key, error))?;
        let certificate = ca_params(now).self_signed(&key).map_err(|error| damaged(&self.ca, error))?;
        write(&self.ca_key, &key.serialize_pem(), 0o600)?;
        write(&self.ca, &certificate.pem(), 0o644)
    }

    fn make_server(&self, names: &[&str], now: Timestamp) -> Result<(), TlsError> {
        let text = read(&self.ca_key)?;
        let ca_key = KeyPair::from_pem(&text).map_err(|_| damaged(&self.ca_key, "not a private key"))?;
        let issuer = Issuer::new(ca_params(now), ca_key);
        let key = KeyPair::generate().map_err(|error| damaged(&self.server_key, error))?;
        let certificate =
            server_params(names, now)?.signed_by(&key, &issuer).map_err(|error| damaged(&self.server, error))?;
        write(&self.server_key, &key.serialize_pem(), 0o600)?;
        write(&self.server, &certificate.pem(), 0o644)
    }

    /// Validates the certificates as a client would. Returns whether a name is missing.
    fn check(&self, names: &[&str], now: Timestamp) -> Result<bool, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.ca)?).map_err(|error| damaged(&self.ca, error))?;
        let provider = kiln_tls::provider();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| damaged(&self.ca, error))?;
        let server = certificate(&self.server)?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for name in names {
            let asked = ServerName::try_from(*name)
                .map_err(|error| TlsError::Name { name: (*name).to_owned(), problem: error.to_string() })?;
            match verifier.verify_server_cert(&server, &[], &asked, &[], at) {
                Ok(_) => {}
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => {
                    return Ok(true);
                }
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::Expired | CertificateError::ExpiredContext { .. },
                )) => {
                    return Err(damaged(&self.server, "the certificate has expired"));
                }
                Err(error) => return Err(damaged(&self.server, error)),
            }
        }
        Ok(false)
    }

    fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(read(&self.server_key)?.as_bytes())
            .map_err(|error| damaged(&self.server_key, format!("not a private key: {error}")))?;
        let versions = ServerConfig::builder_with_provider(kiln_tls::provider()).with_safe_default_protocol_versions();
        let versions = versions.map_err(|error| damaged(&self.server_key, error))?;
        let mut config = versions
            .with_no_client_auth()
            .with_single_cert(vec![certificate(&self.server)?, certificate(&self.ca)?], key)
            .map_err(|error| damaged(&self.server_key, error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> TlsError {
    TlsError::Damaged { path: path.to_owned(), problem: problem.to_string() }
}

fn read(path: &Path) -> Result<String, TlsError> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| damaged(path, "not a PEM file")),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(damaged(path, "the file is missing although the others exist"))
        }
        Err(source) => Err(TlsError::Io { path: path.to_owned(), source }),
    }
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(read(path)?.as_bytes())
        .map_err(|error| damaged(path, format!("not a certificate: {error}")))
}

/// Writes a file atomically. The mode is set at creation, so the key is never readable by others.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let io = |source| TlsError::Io { path: path.to_owned(), source };
    let new = path.with_extension("new");
    // Removes the leftover of a killed process, because `create_new` would not set the mode of an existing file.
    match fs::remove_file(&new) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(io(source)),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&new).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path)).map_err(io)
}

fn ca_params(now: Timestamp) -> CertificateParams {
    let mut params = dated(now);
    params.distinguished_name = named("kiln embedded Azure CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn server_params(names: &[&str], now: Timestamp) -> Result<CertificateParams, TlsError> {
    let mut params = dated(now);
    params.distinguished_name = named("kiln embedded Azure");
    // Strict clients require it, such as Python since 3.13.
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in names {
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().map_err(|error: rcgen::Error| TlsError::Name {
                name: (*name).to_owned(),
                problem: error.to_string(),
            })?),
        });
    }
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Valid since yesterday, because clocks of VMs may be slightly off.
fn dated(now: Timestamp) -> CertificateParams {
    let date = (now - jiff::SignedDuration::from_hours(24)).to_zoned(jiff::tz::TimeZone::UTC).date();
    let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
    let mut params = CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(date.year().into(), month, day);
    // The 29th of February does not exist in most years.
    params.not_after = rcgen::date_time_ymd((date.year() + YEARS).into(), month, day.min(28));
    params
}
