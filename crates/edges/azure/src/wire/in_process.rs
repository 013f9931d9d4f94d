//! A transport to an Azure in the same process. Without sockets, tests can use virtual time.

use std::fmt;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use bytes::Bytes;

/// Answers a request; `None` breaks the connection.
type Answer = dyn Fn(http::Request<Bytes>) -> Option<http::Response<Bytes>> + Send + Sync;

/// A transport that calls a function.
pub struct InProcess(Box<Answer>);

impl InProcess {
    /// Creates a transport that passes requests to `answer`.
    pub fn new(answer: impl Fn(http::Request<Bytes>) -> Option<http::Response<Bytes>> + Send + Sync + 'static) -> Self {
        Self(Box::new(answer))
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

#[async_trait]
impl HttpClient for InProcess {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let broken = |why: String| azure_core::Error::with_message(ErrorKind::Io, why);
        let mut translated =
            http::Request::builder().method(request.method().to_string().as_str()).uri(request.url().as_str());
        for (name, value) in request.headers().iter() {
            translated = translated.header(name.as_str(), value.as_str());
        }
        let translated = translated.body(request.body().into()).map_err(|error| broken(error.to_string()))?;
        let answer = (self.0)(translated).ok_or_else(|| broken("connection reset by peer".to_owned()))?;
        let (parts, body) = answer.into_parts();
        let mut headers = Headers::new();
        for (name, value) in &parts.headers {
            let value = value.to_str().map_err(|error| broken(error.to_string()))?;
            headers.insert(HeaderName::from(name.as_str().to_owned()), HeaderValue::from(value.to_owned()));
        }
        Ok(AsyncRawResponse::from_bytes(parts.status.as_u16().into(), headers, body))
    }
}
