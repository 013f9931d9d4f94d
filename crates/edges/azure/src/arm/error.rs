//! Errors of the Azure edge.

use std::fmt;
use std::time::Duration;

use azure_core::http::{Method, Url};
use kiln_types::{ErrorClass, FactoryError, Failure};

use super::envelope::ErrorDetail;
use super::id::BadResourceId;
use super::operation::BadHandle;

/// Method and path of the request that failed. The query is omitted because operation URLs carry signatures in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    pub method: String,
    pub path: String,
}

impl RequestLine {
    pub(crate) fn new(method: Method, url: &Url) -> Self {
        Self { method: method.to_string(), path: url.path().to_owned() }
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// An error of a request to Azure, or of a long-running operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{request}: {status} {detail} (correlation id {})", correlation_id.as_deref().unwrap_or("none"))]
    Answered {
        request: RequestLine,
        status: u16,
        detail: Box<ErrorDetail>,
        class: ErrorClass,
        /// Identifies the request to Azure support.
        correlation_id: Option<String>,
        attempts: u32,
    },
    /// The connection failed before a complete response arrived. Whether Azure executed the request is unknown.
    #[error("{request}: no response after {attempts} attempts: {cause}")]
    Unanswered { request: RequestLine, cause: String, attempts: u32 },
    /// The credential returned no token.
    #[error("{request}: cannot log in: {cause}")]
    Login {
        /// The request that needed the token.
        request: RequestLine,
        cause: String,
    },
    /// [`RequestGuard`](crate::wire::RequestGuard) blocked the request.
    #[error("{request}: not sent: {why}")]
    Refused { request: RequestLine, why: String },
    /// The response does not have the expected schema.
    #[error("{request}: unexpected response at `{path}`")]
    Unreadable {
        request: RequestLine,
        /// The JSON path in the response.
        path: String,
        source: serde_json::Error,
    },
    /// The response contains a URL of another host. kiln does not send tokens there.
    #[error("the response refers to host `{host}`, expected `{expected}`")]
    ForeignUrl { host: String, expected: String },
    #[error("{resource}: the operation failed: {failure}")]
    Failed { resource: String, failure: Failure },
    /// The operation did not end within the time limit. It may still succeed.
    #[error("{resource}: the operation is still running after {} s", waited.as_secs())]
    StillRunning { resource: String, waited: Duration },
    #[error("{resource}: the update also changed `{field}`")]
    UnintendedChange { resource: String, field: &'static str },
    /// The operation succeeded but the resource is unchanged: the update was lost, or the response to the read is stale.
    #[error("{resource}: the update succeeded but `{field}` is unchanged")]
    Unchanged { resource: String, field: &'static str },
    /// Another resource has the name of the one to create.
    #[error("{resource}: already exists as {found} and is not overwritten")]
    NameTaken {
        resource: String,
        /// The kind of the existing resource.
        found: String,
    },
    /// A response lacks a required field.
    #[error("{resource}: the response has no `{field}`")]
    MissingField { resource: String, field: &'static str },
    #[error("{resource}: `{field}` in the response is not base64")]
    NotBase64 { resource: String, field: &'static str },
    /// A stored operation handle cannot be parsed.
    #[error(transparent)]
    Handle(#[from] BadHandle),
    /// A name cannot be part of a resource id.
    #[error(transparent)]
    Id(#[from] BadResourceId),
}

impl FactoryError for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Answered { class, .. } => *class,
            Self::Unanswered { .. } | Self::StillRunning { .. } | Self::Unchanged { .. } => ErrorClass::Transient,
            Self::NameTaken { .. } => ErrorClass::Precondition,
            Self::Login { .. } => ErrorClass::Authentication,
            Self::Failed { failure, .. } => failure.class,
            Self::Refused { .. } | Self::ForeignUrl { .. } => ErrorClass::Refused,
            Self::Unreadable { .. }
            | Self::UnintendedChange { .. }
            | Self::MissingField { .. }
            | Self::NotBase64 { .. } => ErrorClass::Unexpected,
            Self::Handle(_) | Self::Id(_) => ErrorClass::Invalid,
        }
    }
}

impl Error {
    /// Returns the error that Azure reported, if the error comes from Azure.
    pub fn detail(&self) -> Option<&ErrorDetail> {
        match self {
            Self::Answered { detail, .. } => Some(detail),
            _ => None,
        }
    }
}
