//! Errors between this client and the API server.

use std::fmt;
use std::time::Duration;

use kube::core::Status;

use crate::name::{NodeName, Owner};
use crate::task::Task;

/// A `Status` with which the API server rejected a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason; empty when the response was not a Kubernetes `Status`.
    pub reason: String,
    pub message: String,
    /// Machine-readable reason and message of each cause.
    pub causes: Vec<(String, String)>,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl ApiStatus {
    /// Whether one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|(cause, _)| cause == reason)
    }
}

impl From<&Status> for ApiStatus {
    fn from(status: &Status) -> Self {
        let details = status.details.as_ref();
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        Self {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            causes: details
                .map(|details| details.causes.iter().map(|c| (c.reason.clone(), c.message.clone())).collect())
                .unwrap_or_default(),
            retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
        }
    }
}

impl fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.message)?;
        for (_, cause) in self.causes.iter().filter(|(_, cause)| !self.message.contains(cause.as_str())) {
            write!(f, " ({cause})")?;
        }
        Ok(())
    }
}

/// Errors between this client and the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error.
    #[error("{action}: {status}")]
    Api { action: String, status: ApiStatus },
    /// No response arrived. Whether the server acted is unknown.
    #[error("{action}: no response from the API server")]
    NoResponse { action: String, source: Box<kube::Error> },
    /// No response arrived in time. Whether the server acted is unknown.
    #[error("{action}: no response from the API server within {} s", after.as_secs())]
    Timeout { action: String, after: Duration },
    /// The TLS handshake failed because one side does not trust the other, or does not speak TLS. A retry does not help.
    #[error("{action}: the API server is not trusted by this kubeconfig: {}", root(source.as_ref()))]
    Untrusted { action: String, source: Box<kube::Error> },
    /// The server's certificates could not be read.
    #[error("TLS handshake with `{server}`: {source}")]
    Handshake { server: String, source: std::io::Error },
    /// The request could not be built, or the response could not be decoded.
    #[error("{action}: {source}")]
    Client { action: String, source: Box<kube::Error> },
    /// Every attempt conflicted with another writer.
    #[error("{action}: {attempts} attempts conflicted with other writers")]
    Contended { action: String, attempts: u32 },
    /// Another owner holds the node.
    #[error("node `{node}` is held by `{by}`; only `{by}` can release it")]
    HeldByAnother { node: NodeName, by: Owner },
    /// An annotation of kiln's has content that kiln does not write.
    #[error(
        "node `{node}`: annotation `{annotation}` is invalid: {source}: `{text}`; remove the annotation if no run holds the node"
    )]
    BadAnnotation { node: NodeName, annotation: &'static str, text: String, source: serde_json::Error },
    /// More than one node claims to be the same machine.
    #[error("the nodes {} all have the provider id `{id}`; delete the stale Node objects", list(nodes))]
    DuplicateProviderId { id: String, nodes: Vec<NodeName> },
    /// A node did not become ready in time.
    #[error("node `{node}` is not ready after {} s: {reason}", waited.as_secs())]
    NotReady {
        node: NodeName,
        waited: Duration,
        /// The last condition seen.
        reason: String,
    },
    /// A pod did not complete its task on a node.
    #[error("task `{task}` on node `{node}` failed: pod `{pod}`: {reason}")]
    TaskFailed { node: NodeName, task: Task, pod: String, reason: String },
    /// An object of kiln's has content that kiln does not write.
    #[error("{action}: {source}")]
    BadContent { action: String, source: serde_json::Error },
    /// A Secret of kiln's has content that kiln does not write. The error does not quote it.
    #[error("{action}: key `{key}` is invalid at line {line}, column {column}")]
    BadSecret { action: String, key: &'static str, line: usize, column: usize },
    /// A Secret of the user's cannot be used. The error does not quote it.
    #[error("{action}")]
    BadSettings { action: String, source: kiln_types::BadProtectedSettings },
    /// An object would exceed the server's size limit.
    #[error("{action}: the object would be {size} bytes, the limit is {limit} bytes")]
    TooLarge { action: String, size: usize, limit: usize },
    /// Another run holds the lease of a pool.
    #[error("lease `{lease}` is held by `{by}`")]
    LeaseHeld { lease: String, by: String },
    /// The lease of a pool was ours and no longer is.
    #[error("lease `{lease}` was lost: {reason}; this run must not act on the pool any more")]
    LeaseLost { lease: String, reason: String },
    /// Another process wrote the journal after it was read.
    #[error("journal `{journal}` was changed by another process; this run stops, the other one continues")]
    JournalConflict { journal: String },
    /// The journal has reached the size limit of a `ConfigMap`.
    #[error("journal `{journal}` would be {size} bytes, the limit is {limit} bytes")]
    JournalTooLarge { journal: String, size: usize, limit: usize },
    /// The journal has content that kiln does not write.
    #[error("journal `{journal}`, entry {line}: {source}")]
    JournalUnreadable {
        journal: String,
        /// The number of the entry, starting at 1.
        line: usize,
        source: serde_json::Error,
    },
}

/// rustls reports action it rejects as `InvalidData`; a broken connection has another kind.
fn is_distrust(error: &kube::Error) -> bool {
    chain(error).any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
    })
}

type Cause = dyn std::error::Error + 'static;

/// An error and its sources. The `source` of an I/O error skips the error that it wraps.
fn chain(error: &Cause) -> impl Iterator<Item = &Cause> {
    std::iter::successors(Some(error), |error| {
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::get_ref) {
            Some(Some(wrapped)) => Some(wrapped as &Cause),
            _ => error.source(),
        }
    })
}

fn root(error: &kube::Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn list(nodes: &[NodeName]) -> String {
    nodes.iter().map(|node| format!("`{node}`")).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Adds the attempted action to a client error.
    pub fn from_kube(action: impl Into<String>, error: kube::Error) -> Self {
        let action = action.into();
        match error {
            kube::Error::Api(status) => Self::Api { action, status: ApiStatus::from(status.as_ref()) },
            _ if is_distrust(&error) => Self::Untrusted { action, source: Box::new(error) },
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
                Self::NoResponse { action, source: Box::new(error) }
            }
            _ => Self::Client { action, source: Box::new(error) },
        }
    }

    /// The server's `Status`, if it sent one.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the same request may succeed later without anyone acting.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NoResponse { .. } | Self::Timeout { .. } => true,
            Self::Api { status, .. } => matches!(status.code, 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Whether the server or the path to it was down. After a restart the server may reject permissions until its caches are filled.
    pub fn is_outage(&self) -> bool {
        self.is_retryable() && self.code() != Some(429)
    }

    /// Whether a permission is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the server does not serve the kind: its definition is not installed. The server then answers with a plain text instead of a `Status`.
    pub fn is_kind_missing(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404 && status.reason != "NotFound")
    }

    /// Whether the requested revision has been compacted: the list or watch must start over.
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the object was changed after it was read, or already exists.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: u16) -> Error {
        let status = Status::failure("words", "Reason").with_code(code);
        Error::from_kube("get node `n`", kube::Error::Api(status.boxed()))
    }

    #[test]
    fn outages_and_throttling_are_retryable_and_rejections_are_not() {
        for code in [429, 500, 502, 503, 504] {
            assert!(rejected(code).is_retryable(), "{code}");
        }
        for code in [400, 401, 403, 404, 409, 410, 422] {
            assert!(!rejected(code).is_retryable(), "{code}");
        }
        assert!(rejected(503).is_outage() && !rejected(429).is_outage());
    }

    #[test]
    fn missing_kind_differs_from_a_missing_object() {
        let answer = |message: &str, reason: &str| {
            let status = Status::failure(message, reason).with_code(404);
            Error::from_kube("get Rollout `r`", kube::Error::Api(status.boxed()))
        };
        assert!(answer("404 page not found", "Failed to parse error data").is_kind_missing());
        assert!(!answer("rollouts.node.kiln.dev \"r\" not found", "NotFound").is_kind_missing());
        assert!(!rejected(403).is_kind_missing());
    }

    #[test]
    fn error_shows_the_action_and_the_additional_causes() {
        assert_eq!(rejected(403).to_string(), "get node `n`: 403 words");
        let causes = ["words", "more words"].map(|cause| ("Cause".to_owned(), cause.to_owned())).to_vec();
        let status =
            ApiStatus { code: 422, reason: String::new(), message: "words".to_owned(), causes, retry_after: None };
        assert_eq!(status.to_string(), "422 words (more words)");
    }
}
