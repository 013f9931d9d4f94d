//! The address of an API server, the certificates that it is trusted by, and those that it presents.

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
use crate::request::{REQUEST_LIMIT, once};

/// An API server: its address and the certificate authorities that it is trusted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// CA certificates (PEM) from a trusted source, such as a kubeconfig.
    pub trusted: Option<String>,
}

impl Endpoint {
    /// The server of a kubeconfig or of a pod's service account. With `insecure-skip-tls-verify` the CA is not trusted either.
    pub fn from_config(config: &Config) -> Self {
        let trusted = config.root_cert.as_ref().filter(|certificates| !certificates.is_empty());
        let trusted = trusted.filter(|_| !config.accept_invalid_certs);
        Self {
            url: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            trusted: trusted.map(|certificates| certificates.iter().map(|der| pem(der)).collect()),
        }
    }

    /// A server without a trusted CA.
    pub fn untrusted(url: impl Into<String>) -> Self {
        Self { url: url.into().trim_end_matches('/').to_owned(), trusted: None }
    }

    /// A client configuration that trusts only these certificates and sends no credential.
    pub fn anonymous(&self, pem_certificates: &str) -> Result<Config, Error> {
        let mut config = Config::new(self.uri()?);
        config.root_cert = Some(ders(pem_certificates));
        config.proxy_url = None;
        Ok(config)
    }

    /// The certificates that the server presents (PEM), its own first. No request is sent: the handshake is aborted after the certificates.
    pub async fn presented_certificates(&self) -> Result<Vec<String>, Error> {
        let failed = |source: std::io::Error| Error::Handshake { server: self.url.clone(), source };
        let bad = || failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the URL has no host"));
        let uri = self.uri()?;
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
        let recorder = Arc::new(CertificateRecorder::default());
        let config = ClientConfig::builder_with_provider(kiln_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(std::io::Error::other(error)))?
            .dangerous()
            .with_custom_certificate_verifier(recorder.clone())
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let port = uri.port_u16().unwrap_or(443);
        let handshake = timeout(REQUEST_LIMIT, async {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            connector.connect(name, stream).await
        });
        let handshake = handshake.await.map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?;
        let presented = std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner));
        match handshake {
            Err(error) if presented.is_empty() => Err(failed(error)),
            _ => Ok(presented.iter().map(|der| pem(der)).collect()),
        }
    }

    /// The CA certificates (PEM) that kubeadm publishes for joining nodes, in the public `ConfigMap` `cluster-info`. The response is not
    /// authenticated, so it is worthless without a pin; no credential is sent.
    pub async fn published_certificates(&self) -> Result<Sourced<Vec<String>>, Error> {
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

/// Records the presented certificates and rejects all of them.
#[derive(Default)]
struct CertificateRecorder(Mutex<Vec<CertificateDer<'static>>>);

impl fmt::Debug for CertificateRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateRecorder")
    }
}

impl ServerCertVerifier for CertificateRecorder {
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
        Err(rustls::Error::General("handshake aborted after the certificates".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("no certificate is trusted here".to_owned()))
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

/// Encodes with 64 characters per line.
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

/// Decodes all certificates of a text and skips everything else.
fn ders(pem: &str) -> Vec<Vec<u8>> {
    let blocks = pem.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    let body = |(body, _): (&str, &str)| body.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    blocks.map(body).filter_map(|text| STANDARD.decode(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_round_trips() {
        let long: Vec<u8> = (0..200).collect();
        let text = pem(&long) + &pem(b"0");
        assert_eq!(ders(&text), [long, b"0".to_vec()]);
        assert!(text.lines().all(|line| line.len() <= 64));
    }

    #[test]
    fn insecure_kubeconfig_has_no_trusted_ca() {
        let mut config = Config::new("https://k8s.example:6443/".parse().unwrap());
        config.root_cert = Some(vec![b"0".to_vec()]);
        let endpoint = Endpoint::from_config(&config);
        assert_eq!(endpoint.url, "https://k8s.example:6443");
        assert_eq!(endpoint.trusted, Some(pem(b"0")));
        config.accept_invalid_certs = true;
        assert_eq!(Endpoint::from_config(&config).trusted, None);
    }
}
