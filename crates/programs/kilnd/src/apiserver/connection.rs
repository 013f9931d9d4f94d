//! A connection to the API server, made anew when the kubelet has a new certificate.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Proxy};

use crate::apiserver::error::Error;

/// A node asks again in seconds; a server that is slower than this is not well.
const CONNECT: Duration = Duration::from_secs(5);
/// One whole request.
const REQUEST: Duration = Duration::from_secs(15);
/// A Node object has some tens of KiB; its list of images makes it that long.
const BODY: u64 = 4 << 20;

/// Which API server, and by which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server, `https://host[:port]`.
    pub server: String,
    /// The certificates that it is trusted by, PEM.
    pub authority: String,
    /// Where the kubelet's certificate and key may be, PEM, in one file that the kubelet replaces. The first that is there counts.
    pub certificates: Vec<PathBuf>,
    /// The proxy on the way, `http://host:port`; none where the way is direct.
    pub proxy: Option<String>,
}

/// An answer: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// What to send.
pub(crate) enum Send<'a> {
    Get,
    Post(&'a [u8]),
    /// A body of a content type.
    Patch(&'static str, &'a [u8]),
}

#[derive(Debug)]
pub(crate) struct Connection {
    place: Place,
    /// The agent, and the bytes of the certificate that it shows.
    agent: Mutex<Option<(Vec<u8>, Agent)>>,
}

impl Connection {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, agent: Mutex::new(None) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.place.server.trim_end_matches('/'))
    }

    pub(crate) fn send(&self, path: &str, send: &Send<'_>) -> Result<Answer, Error> {
        let agent = self.agent()?;
        let url = self.url(path);
        exchange(&agent, &url, send).map_err(|error| Error::Unreachable { url, source: Box::new(error) })
    }

    /// The kubelet renews its certificate and moves a link; the old one ends while a node lives.
    fn agent(&self) -> Result<Agent, Error> {
        let (path, pem) = self.certificate()?;
        let mut held = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, agent)) = held.as_ref().filter(|(shown, _)| *shown == pem) {
            return Ok(agent.clone());
        }
        let agent = self.connect(&path.display().to_string(), &pem)?;
        *held = Some((pem, agent.clone()));
        Ok(agent)
    }

    fn certificate(&self) -> Result<(&PathBuf, Vec<u8>), Error> {
        let mut missing = None;
        for path in &self.place.certificates {
            match fs::read(path) {
                Ok(pem) => return Ok((path, pem)),
                Err(source) => missing = missing.or(Some(Error::Read { path: path.clone(), source })),
            }
        }
        let nowhere = || Error::Pem { place: "no file".to_owned(), what: "certificate" };
        Err(missing.unwrap_or_else(nowhere))
    }

    fn connect(&self, place: &str, pem: &[u8]) -> Result<Agent, Error> {
        let (chain, mut keys) = split(pem);
        if chain.is_empty() {
            return Err(Error::Pem { place: place.to_owned(), what: "certificate" });
        }
        let key = keys.pop().ok_or(Error::Pem { place: place.to_owned(), what: "private key" })?;
        let (roots, _) = split(self.place.authority.as_bytes());
        if roots.is_empty() {
            return Err(Error::Pem { place: "the cluster's certificate authority".to_owned(), what: "certificate" });
        }
        let proxy = self.place.proxy.as_deref().map(Proxy::new).transpose();
        let proxy =
            proxy.map_err(|error| Error::Unreachable { url: self.place.server.clone(), source: Box::new(error) })?;
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(kiln_tls::provider())
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(Some(ClientCert::new_with_certs(&chain, key)))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST))
            .user_agent(concat!("kilnd/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(config.new_agent())
    }
}

fn split(pem: &[u8]) -> (Vec<Certificate<'static>>, Vec<ureq::tls::PrivateKey<'static>>) {
    let (mut certificates, mut keys) = (Vec::new(), Vec::new());
    for item in parse_pem(pem).flatten() {
        match item {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            PemItem::PrivateKey(key) => keys.push(key),
            _ => {}
        }
    }
    (certificates, keys)
}

fn exchange(agent: &Agent, url: &str, send: &Send<'_>) -> Result<Answer, ureq::Error> {
    const JSON: &str = "application/json";
    let mut response = match send {
        Send::Get => agent.get(url).header("Accept", JSON).call()?,
        Send::Post(body) => agent.post(url).header("Accept", JSON).header("Content-Type", JSON).send(*body)?,
        Send::Patch(kind, body) => agent.patch(url).header("Accept", JSON).header("Content-Type", *kind).send(*body)?,
    };
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(BODY).read_to_vec()?;
    Ok(Answer { status, body })
}
