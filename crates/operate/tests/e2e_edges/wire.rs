//! A transport into the embedded Azure without sockets, and a record of what went over it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, HttpClient, Request, Url};
use kiln_azure::wire::{Exchange, Recorder};
use kiln_sim::{Reply, Sim};

/// ARM and Entra, without sockets.
#[derive(Debug, Clone)]
pub(crate) struct Front(pub(crate) Sim);

#[async_trait]
impl HttpClient for Front {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let mut translated =
            http::Request::builder().method(request.method().to_string().as_str()).uri(request.url().as_str());
        for (name, value) in request.headers().iter() {
            translated = translated.header(name.as_str(), value.as_str());
        }
        let Reply::Answer(answer) = self.0.arm(translated.body(request.body().into()).unwrap()) else {
            return Err(azure_core::Error::with_message(ErrorKind::Io, "connection reset by peer"));
        };
        let (parts, body) = answer.into_parts();
        let mut headers = Headers::new();
        for (name, value) in &parts.headers {
            let value = HeaderValue::from(value.to_str().unwrap().to_owned());
            headers.insert(HeaderName::from(name.as_str().to_owned()), value);
        }
        Ok(AsyncRawResponse::from_bytes(parts.status.as_u16().into(), headers, body))
    }
}

/// What went to ARM: method, path and status.
#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Vec<(String, String, u16)>>);

impl Wire {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn seen(&self) -> Vec<(String, String, u16)> {
        self.0.lock().unwrap().clone()
    }

    /// Everything that was not a reading.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = self.seen().into_iter().filter(|(method, ..)| method != "GET");
        writes.map(|(method, path, status)| format!("{method} {path} {status}")).collect()
    }
}

impl Recorder for Wire {
    fn record(&self, exchange: Exchange) {
        let path = Url::parse(&exchange.url).map_or(exchange.url.clone(), |url| url.path().to_owned());
        self.0.lock().unwrap().push((exchange.method, path, exchange.status));
    }
}
