//! The connection to the API server. It is renewed when the kubelet has a new certificate.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, BodyReader, Proxy};

use crate::apiserver::error::Error;

/// kilnd tries again within seconds, so a slower server counts as unreachable.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit of a whole request.
const REQUEST: Duration = Duration::from_secs(15);
/// The longest silence on a watch. The API server sends a bookmark about every minute, so a connection without one for longer is dead.
const SILENCE: Duration = Duration::from_secs(150);
/// A Node object has some tens of KiB because of its list of images.
const BODY: u64 = 4 << 20;

/// The media type of objects.
const JSON: &str = "application/json";

/// The API server, and the files to authenticate with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `https://host[:port]`.
    pub server: String,
    /// The certificate authority, PEM.
    pub authority: String,
    /// Paths of the kubelet's certificate and key, PEM, in one file that the kubelet replaces. The first that exists is used.
    pub certificates: Vec<PathBuf>,
    /// `http://host:port`; none for a direct connection.
    pub proxy: Option<String>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// The response to a watch: its body arrives while the objects change.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) body: BodyReader<'static>,
}

/// A request without its path.
pub(crate) enum Call<'a> {
    Get,
    Post(&'a [u8]),
    /// Content type and body.
    Patch(&'static str, &'a [u8]),
}

#[derive(Debug)]
pub(crate) struct Connection {
    target: Target,
    /// The certificate that the agent uses, and the agent.
    agent: Mutex<Option<(Vec<u8>, Agent)>>,
}

impl Connection {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, agent: Mutex::new(None) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.target.server.trim_end_matches('/'))
    }

    pub(crate) fn send(&self, path: &str, send: &Call<'_>) -> Result<Response, Error> {
        let agent = self.agent()?;
        let url = self.url(path);
        exchange(&agent, &url, send).map_err(|error| Error::Unreachable { url, source: Box::new(error) })
    }

    /// Starts a watch. The time limit of other requests applies to the start only.
    pub(crate) fn watch(&self, path: &str) -> Result<Stream, Error> {
        let agent = self.agent()?;
        let url = self.url(path);
        let request = agent.get(&url).header("Accept", JSON).config();
        let request = request.timeout_global(None).timeout_recv_response(Some(REQUEST)).timeout_per_read(Some(SILENCE));
        match request.build().call() {
            Ok(response) => Ok(Stream { status: response.status().as_u16(), body: response.into_body().into_reader() }),
            Err(error) => Err(Error::Unreachable { url, source: Box::new(error) }),
        }
    }

    /// Uses other files to authenticate.
    pub(crate) fn set_certificates(&mut self, certificates: &[PathBuf]) {
        if self.target.certificates != certificates {
            certificates.clone_into(&mut self.target.certificates);
        }
    }

    /// The agent for the current certificate. The kubelet rotates its certificate by moving a link.
    fn agent(&self) -> Result<Agent, Error> {
        let (path, pem) = self.certificate()?;
        let mut current = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, agent)) = current.as_ref().filter(|(used, _)| *used == pem) {
            return Ok(agent.clone());
        }
        let agent = self.connect(&path.display().to_string(), &pem)?;
        *current = Some((pem, agent.clone()));
        Ok(agent)
    }

    fn certificate(&self) -> Result<(&PathBuf, Vec<u8>), Error> {
        let mut missing = None;
        for path in &self.target.certificates {
            match fs::read(path) {
                Ok(pem) => return Ok((path, pem)),
                Err(source) => missing = missing.or(Some(Error::Read { path: path.clone(), source })),
            }
        }
        let none = || Error::Pem { name: "no file".to_owned(), what: "certificate" };
        Err(missing.unwrap_or_else(none))
    }

    fn connect(&self, name: &str, pem: &[u8]) -> Result<Agent, Error> {
        let (chain, mut keys) = split(pem);
        if chain.is_empty() {
            return Err(Error::Pem { name: name.to_owned(), what: "certificate" });
        }
        let key = keys.pop().ok_or(Error::Pem { name: name.to_owned(), what: "private key" })?;
        let (roots, _) = split(self.target.authority.as_bytes());
        if roots.is_empty() {
            return Err(Error::Pem { name: "the cluster's certificate authority".to_owned(), what: "certificate" });
        }
        let proxy = self.target.proxy.as_deref().map(Proxy::new).transpose();
        let proxy =
            proxy.map_err(|error| Error::Unreachable { url: self.target.server.clone(), source: Box::new(error) })?;
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

fn exchange(agent: &Agent, url: &str, send: &Call<'_>) -> Result<Response, ureq::Error> {
    let mut response = match send {
        Call::Get => agent.get(url).header("Accept", JSON).call()?,
        Call::Post(body) => agent.post(url).header("Accept", JSON).header("Content-Type", JSON).send(*body)?,
        Call::Patch(kind, body) => agent.patch(url).header("Accept", JSON).header("Content-Type", *kind).send(*body)?,
    };
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(BODY).read_to_vec()?;
    Ok(Response { status, body })
}
