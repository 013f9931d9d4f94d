//! A client that records exchanges, for checks against the published specifications and for recordings of users.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::Bytes;
use azure_core::http::headers::HeaderName;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};

/// Response headers that kiln reads.
const HEADERS: [&str; 5] =
    ["azure-asyncoperation", "location", "retry-after", "etag", "x-ms-ratelimit-remaining-resource"];

/// A request and its response, without request headers, because those contain the token. `Debug` omits the bodies, because they can
/// contain custom data.
#[derive(Clone, PartialEq, Eq)]
pub struct Exchange {
    pub method: String,
    pub url: String,
    pub request_body: Bytes,
    pub status: u16,
    /// The response headers that kiln reads.
    pub headers: BTreeMap<String, String>,
    pub response_body: Bytes,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// A receiver of exchanges.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// Receives one exchange.
    fn record(&self, exchange: Exchange);
}

/// A transport that passes a copy of each answered request to a recorder. It must be below ARM's pipeline, not below a credential's.
#[derive(Debug)]
pub struct RecordingClient {
    inner: Arc<dyn HttpClient>,
    recorder: Arc<dyn Recorder>,
}

impl RecordingClient {
    /// Wraps a transport.
    pub fn new(inner: Arc<dyn HttpClient>, recorder: Arc<dyn Recorder>) -> Self {
        Self { inner, recorder }
    }
}

#[async_trait]
impl HttpClient for RecordingClient {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let raw = self.inner.execute_request(request).await?.try_into_raw_response().await?;
        let (status, headers, body) = raw.deconstruct();
        let response_body = Bytes::from(body);
        self.recorder.record(Exchange {
            method: request.method().to_string(),
            url: request.url().to_string(),
            request_body: Bytes::from(request.body()),
            status: status.into(),
            headers: HEADERS
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), headers.get_optional_string(&HeaderName::from(name))?)))
                .collect(),
            response_body: response_body.clone(),
        });
        Ok(AsyncRawResponse::from_bytes(status, headers, response_body))
    }
}
