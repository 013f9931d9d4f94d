//! A copy of what was said, for checks against the published specifications.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::Bytes;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};

/// One request and its answer, without headers: those hold the token. Bodies may hold custom data, so that it does not print them.
#[derive(Clone, PartialEq, Eq)]
pub struct Exchange {
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// What was sent.
    pub request_body: Bytes,
    pub status: u16,
    /// What came back.
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

/// Takes copies of exchanges.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// Takes one.
    fn record(&self, exchange: Exchange);
}

/// A transport that hands a copy of each answered request to a recorder. It belongs under ARM's pipeline, never under a credential's.
#[derive(Debug)]
pub struct Recording {
    inner: Arc<dyn HttpClient>,
    recorder: Arc<dyn Recorder>,
}

impl Recording {
    /// Records what goes through a transport.
    pub fn new(inner: Arc<dyn HttpClient>, recorder: Arc<dyn Recorder>) -> Self {
        Self { inner, recorder }
    }
}

#[async_trait]
impl HttpClient for Recording {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let raw = self.inner.execute_request(request).await?.try_into_raw_response().await?;
        let (status, headers, body) = raw.deconstruct();
        let response_body = Bytes::from(body);
        self.recorder.record(Exchange {
            method: request.method().to_string(),
            url: request.url().to_string(),
            request_body: Bytes::from(request.body()),
            status: status.into(),
            response_body: response_body.clone(),
        });
        Ok(AsyncRawResponse::from_bytes(status, headers, response_body))
    }
}
