//! The certificates of the embedded Azure: its own CA, and one for the server. Kept in a folder, so that a client that trusts the CA
//! still does after a restart.

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

/// Long: the folder may rest for years, and whoever trusts this CA does so for a test.
const YEARS: i16 = 10;

/// Names that the server is always reached by.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What can be wrong with the certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A file does not hold what it should.
    #[error("{}: {problem}; delete the folder {} to have new certificates made", path.display(), path.parent().unwrap_or(path).display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A name that no certificate can have.
    #[error("`{name}` cannot be a name of the server: {problem}")]
    Name {
        name: String,
        /// Why not.
        problem: String,
    },
}

/// Certificates, ready to serve.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The CA's certificate, PEM: what clients have to trust.
    pub ca_file: PathBuf,
    /// For the listener.
    pub config: Arc<ServerConfig>,
}

impl Tls {
    /// The certificates in `folder`, made there when there are none. `extra` names are added to the usual ones of this machine.
    pub fn open(folder: &Path, extra: &[String], now: Timestamp) -> Result<Self, TlsError> {
        let files = Files::new(folder);
        let names: Vec<&str> = NAMES.into_iter().chain(extra.iter().map(String::as_str)).collect();
        if !files.any() {
            fs::create_dir_all(folder).map_err(|source| TlsError::Io { path: folder.to_owned(), source })?;
            files.make_ca(now)?;
            files.make_server(&names, now)?;
        }
        let missing = files.check(&names, now)?;
        if missing {
            // The folder is of a start with fewer names; the CA that clients trust stays.
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

    fn any(&self) -> bool {
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

    /// Looks at the certificates as a client will. Whether one of the names is missing.
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
            Err(damaged(path, "the file is missing beside the others"))
        }
        Err(source) => Err(TlsError::Io { path: path.to_owned(), source }),
    }
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(read(path)?.as_bytes())
        .map_err(|error| damaged(path, format!("not a certificate: {error}")))
}

/// Writes a file whole or not at all; its mode is right from the first byte on.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let io = |source| TlsError::Io { path: path.to_owned(), source };
    let new = path.with_extension("new");
    // Left by a start that was killed; `create_new` would not set the mode of an old file.
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
    // Strict clients want it: Python does since 3.13.
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

/// Valid from yesterday on: clocks of virtual machines are a little off.
fn dated(now: Timestamp) -> CertificateParams {
    let date = (now - jiff::SignedDuration::from_hours(24)).to_zoned(jiff::tz::TimeZone::UTC).date();
    let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
    let mut params = CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(date.year().into(), month, day);
    // The 29th of February has no anniversary in most years.
    params.not_after = rcgen::date_time_ymd((date.year() + YEARS).into(), month, day.min(28));
    params
}
