//! A response with the headers that ARM uses.

use std::time::Duration;

use azure_core::Bytes;
use azure_core::http::headers::{HeaderName, Headers};
use serde::de::DeserializeOwned;

use super::error::{Error, RequestLine};

const ASYNC_OPERATION: HeaderName = HeaderName::from_static("azure-asyncoperation");
const LOCATION: HeaderName = HeaderName::from_static("location");
const RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-ms-correlation-request-id");

pub(crate) struct Answer {
    pub(crate) request: RequestLine,
    pub(crate) status: u16,
    pub(crate) operation_url: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn new(request: RequestLine, status: u16, headers: &Headers, body: Bytes) -> Self {
        let text = |name| headers.get_optional_string(&name);
        Self {
            request,
            status,
            operation_url: text(ASYNC_OPERATION),
            location: text(LOCATION),
            // `Retry-After` is in seconds. ARM does not use the date form; interpreting it would need a wall clock.
            retry_after: text(RETRY_AFTER).and_then(|s| s.trim().parse().ok()).map(Duration::from_secs),
            correlation_id: text(CORRELATION_ID),
            body,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Deserializes the body. An error contains the JSON path of the offending value.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        serde_path_to_error::deserialize(&mut json).map_err(|error| Error::Unreadable {
            request: self.request.clone(),
            path: error.path().to_string(),
            source: error.into_inner(),
        })
    }
}
