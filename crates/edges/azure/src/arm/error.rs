//! What can go wrong between this client and Azure.

use std::fmt;
use std::time::Duration;

use azure_core::http::{Method, Url};
use kiln_types::{ErrorClass, FactoryError, Failure};

use super::envelope::ErrorDetail;
use super::id::BadResourceId;
use super::operation::BadHandle;

/// The request that an error is about. The query is left out: in the URLs of operations it holds signatures.
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

/// What can go wrong between this client and Azure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Azure answered with an error.
    #[error("{request}: {status} {detail} (correlation id {})", correlation_id.as_deref().unwrap_or("none"))]
    Answered {
        request: RequestLine,
        status: u16,
        /// What the answer says.
        detail: Box<ErrorDetail>,
        /// What it means.
        class: ErrorClass,
        /// By which Azure's support finds the request.
        correlation_id: Option<String>,
        /// How often it was sent.
        attempts: u32,
    },
    /// No whole answer came. Whether Azure acted is unknown.
    #[error("{request}: no answer after {attempts} attempts: {cause}")]
    Unanswered {
        request: RequestLine,
        /// What the transport says.
        cause: String,
        /// How often it was sent.
        attempts: u32,
    },
    /// No token could be had.
    #[error("{request}: cannot log in: {cause}")]
    Login {
        /// The request that wanted the token.
        request: RequestLine,
        /// What the credential says.
        cause: String,
    },
    /// This client does not send such a request.
    #[error("{request}: not sent: {why}")]
    Refused {
        request: RequestLine,
        /// Why not.
        why: String,
    },
    /// The answer is not what its kind of resource looks like.
    #[error("{request}: the answer cannot be read at `{path}`")]
    Unreadable {
        request: RequestLine,
        /// The place in the answer.
        path: String,
        /// What is wrong there.
        source: serde_json::Error,
    },
    /// An answer names a URL of another host, where no token is sent.
    #[error("the answer points to `{host}`, which is not this cloud's endpoint `{expected}`")]
    ForeignUrl {
        /// The named host.
        host: String,
        expected: String,
    },
    /// An operation was accepted and then failed.
    #[error("{resource}: the operation failed: {failure}")]
    Failed { resource: String, failure: Failure },
    /// An operation was still going on when the patience for it ended.
    #[error("{resource}: the operation still goes on after {} s", waited.as_secs())]
    StillRunning {
        resource: String,
        /// How long it was watched.
        waited: Duration,
    },
    /// A write changed what it had to keep.
    #[error("{resource}: the write changed `{field}`, which it had to keep")]
    NotKept {
        resource: String,
        /// What changed.
        field: &'static str,
    },
    /// A write ended well, and what it wrote is not there: it was lost, or the reading is older than the write.
    #[error("{resource}: the write ended well, and `{field}` is what it was before")]
    NotApplied {
        resource: String,
        /// What did not change.
        field: &'static str,
    },
    /// Something else has the name of what was to be made.
    #[error("{resource}: {found} has this name and is not overwritten")]
    InTheWay {
        resource: String,
        /// What is there.
        found: String,
    },
    /// A resource lacks what every such resource has.
    #[error("{resource}: has no `{field}`")]
    Lacks {
        resource: String,
        /// What is missing.
        field: &'static str,
    },
    /// A stored handle is not one of ours.
    #[error(transparent)]
    Handle(#[from] BadHandle),
    /// A name does not fit into a resource id.
    #[error(transparent)]
    Id(#[from] BadResourceId),
}

impl FactoryError for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Answered { class, .. } => *class,
            Self::Unanswered { .. } | Self::StillRunning { .. } | Self::NotApplied { .. } => ErrorClass::Transient,
            Self::InTheWay { .. } => ErrorClass::Precondition,
            Self::Login { .. } => ErrorClass::Authentication,
            Self::Failed { failure, .. } => failure.class,
            Self::Refused { .. } | Self::ForeignUrl { .. } => ErrorClass::Refused,
            Self::Unreadable { .. } | Self::NotKept { .. } | Self::Lacks { .. } => ErrorClass::Unexpected,
            Self::Handle(_) | Self::Id(_) => ErrorClass::Invalid,
        }
    }
}

impl Error {
    /// What Azure said, where it said something.
    pub fn detail(&self) -> Option<&ErrorDetail> {
        match self {
            Self::Answered { detail, .. } => Some(detail),
            _ => None,
        }
    }
}
