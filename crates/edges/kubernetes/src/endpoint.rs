//! Where an API server is, what it is trusted by, and which certificates it shows to anybody.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use kiln_types::Sourced;
use kube::config::Kubeconfig;
use kube::{Api, Config};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::Error;
use crate::call::{REQUEST_LIMIT, once};

/// An API server, by its address and by what is trusted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// The certificates that vouch for it, PEM, where somebody who is trusted said so.
    pub trusted: Option<String>,
}

impl Endpoint {
    /// What a kubeconfig or a pod's own files say. A kubeconfig that trusts anybody vouches for nobody.
    pub fn of(config: &Config) -> Self {
        let trusted = config.root_cert.as_ref().filter(|certificates| !certificates.is_empty());
        let trusted = trusted.filter(|_| !config.accept_invalid_certs);
        Self {
            url: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            trusted: trusted.map(|certificates| certificates.iter().map(|der| pem(der)).collect()),
        }
    }

    /// An address that nobody vouches for.
    pub fn unknown(url: impl Into<String>) -> Self {
        Self { url: url.into().trim_end_matches('/').to_owned(), trusted: None }
    }

    /// A client's configuration that trusts these certificates alone and shows no credential.
    pub fn anonymous(&self, pem_certificates: &str) -> Result<Config, Error> {
        let mut config = Config::new(self.uri()?);
        config.root_cert = Some(ders(pem_certificates));
        config.proxy_url = None;
        Ok(config)
    }

    /// The certificates that the server shows, PEM each, its own first. Nothing is sent to it: the handshake ends once they are seen.
    pub async fn shown(&self) -> Result<Vec<String>, Error> {
        let failed = |source: std::io::Error| Error::Handshake { server: self.url.clone(), source };
        let bad = || failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the URL has no host"));
        let uri = self.uri()?;
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
        let seen = Arc::new(Onlooker::default());
        let config = ClientConfig::builder_with_provider(kiln_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(std::io::Error::other(error)))?
            .dangerous()
            .with_custom_certificate_verifier(seen.clone())
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let port = uri.port_u16().unwrap_or(443);
        let met = timeout(REQUEST_LIMIT, async {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            connector.connect(name, stream).await
        });
        let met = met.await.map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?;
        let shown = std::mem::take(&mut *seen.0.lock().unwrap_or_else(PoisonError::into_inner));
        match met {
            Err(error) if shown.is_empty() => Err(failed(error)),
            _ => Ok(shown.iter().map(|der| pem(der)).collect()),
        }
    }

    /// The certificates that the cluster offers to whoever wants to join it, PEM each: kubeadm keeps them where anybody may read. Nobody
    /// vouches for the answer, so it is worth nothing without a pin; no credential is shown to get it.
    pub async fn offered(&self) -> Result<Sourced<Vec<String>>, Error> {
        let call = "GET /api/v1/namespaces/kube-public/configmaps/cluster-info".to_owned();
        let mut config = Config::new(self.uri()?);
        config.accept_invalid_certs = true;
        config.proxy_url = None;
        let api: Api<ConfigMap> = Api::namespaced(crate::connect(config)?, "kube-public");
        let map = once(&call, api.get_opt("cluster-info")).await?;
        let text = map.and_then(|map| map.data).and_then(|mut data| data.remove("kubeconfig")).unwrap_or_default();
        let data = Kubeconfig::from_yaml(&text)
            .ok()
            .and_then(|read| read.clusters.into_iter().next()?.cluster?.certificate_authority_data)
            .and_then(|data| STANDARD.decode(data.trim()).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default();
        Ok(Sourced { value: ders(&data).iter().map(|der| pem(der)).collect(), call })
    }

    fn uri(&self) -> Result<http::Uri, Error> {
        self.url.parse().map_err(|error: http::uri::InvalidUri| Error::Handshake {
            server: self.url.clone(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
        })
    }
}

/// Looks at what is shown, and trusts nobody.
#[derive(Default)]
struct Onlooker(Mutex<Vec<CertificateDer<'static>>>);

impl fmt::Debug for Onlooker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Onlooker")
    }
}

impl ServerCertVerifier for Onlooker {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let all = std::iter::once(end_entity).chain(intermediates).map(|der| der.clone().into_owned());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all.collect();
        Err(rustls::Error::General("its certificates were seen, which was all that was wanted".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("nobody is trusted here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify_tls12_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        kiln_tls::provider().signature_verification_algorithms.supported_schemes()
    }
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// As everybody writes it: lines of 64.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("{BEGIN}\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + END + "\n"
}

/// The certificates of a text; what is none is left out.
fn ders(pem: &str) -> Vec<Vec<u8>> {
    let blocks = pem.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    let body = |(body, _): (&str, &str)| body.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    blocks.map(body).filter_map(|text| STANDARD.decode(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_survive_their_text() {
        let long: Vec<u8> = (0..200).collect();
        let text = pem(&long) + &pem(b"0");
        assert_eq!(ders(&text), [long, b"0".to_vec()]);
        assert!(text.lines().all(|line| line.len() <= 64));
    }

    #[test]
    fn a_kubeconfig_that_trusts_anybody_vouches_for_nobody() {
        let mut config = Config::new("https://k8s.example:6443/".parse().unwrap());
        config.root_cert = Some(vec![b"0".to_vec()]);
        let endpoint = Endpoint::of(&config);
        assert_eq!(endpoint.url, "https://k8s.example:6443");
        assert_eq!(endpoint.trusted, Some(pem(b"0")));
        config.accept_invalid_certs = true;
        assert_eq!(Endpoint::of(&config).trusted, None);
    }
}
