//! What can go wrong between this client and the API server.

use std::fmt;
use std::time::Duration;

use kube::core::Status;

use crate::name::{NodeName, Owner};
use crate::task::Task;

/// What the API server says when it refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The machine's word for it; empty when the answer was no Kubernetes status.
    pub reason: String,
    pub message: String,
    /// The machine's words and sentences for each cause.
    pub causes: Vec<(String, String)>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// Whether one of the causes has this word.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|(cause, _)| cause == reason)
    }
}

impl From<&Status> for Answer {
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

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.message)?;
        for (_, cause) in self.causes.iter().filter(|(_, cause)| !self.message.contains(cause.as_str())) {
            write!(f, " ({cause})")?;
        }
        Ok(())
    }
}

/// What can go wrong between this client and the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error.
    #[error("{what}: {answer}")]
    Answered {
        /// What was asked for.
        what: String,
        answer: Answer,
    },
    /// No answer came. Whether the server acted is unknown.
    #[error("{what}: no answer from the API server")]
    Unanswered {
        /// What was asked for.
        what: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// No answer came in time. Whether the server acted is unknown.
    #[error("{what}: no answer from the API server within {} s", after.as_secs())]
    Silent {
        /// What was asked for.
        what: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The two do not trust each other, or one of them speaks no TLS. Asking again does not help.
    #[error("{what}: the API server is not one that this kubeconfig trusts: {}", root(source.as_ref()))]
    Distrusted {
        /// What was asked for.
        what: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// The server's certificates could not be seen.
    #[error("TLS handshake with `{server}`: {source}")]
    Handshake {
        server: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The request could not be made, or the answer not be read.
    #[error("{what}: {source}")]
    Unreadable {
        /// What was asked for.
        what: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// Somebody else wrote at the same time, again and again.
    #[error("{what}: somebody else changed it {attempts} times in a row while it was being written")]
    Contended {
        /// What was to be written.
        what: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// Another owner holds the node.
    #[error("node `{node}` is held by `{by}`; only `{by}` can release it")]
    HeldByAnother {
        node: NodeName,
        /// Who holds it.
        by: Owner,
    },
    /// What an annotation of ours holds is not what we write.
    #[error(
        "node `{node}`: annotation `{annotation}` holds `{text}`: {source}; remove it by hand once nobody holds the node"
    )]
    BadAnnotation {
        node: NodeName,
        annotation: &'static str,
        /// What it holds.
        text: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// More than one node says that it is the same machine.
    #[error("the nodes {} all have the provider id `{id}`; delete the stale ones", list(nodes))]
    SameProviderId { id: String, nodes: Vec<NodeName> },
    /// A node did not become ready in time.
    #[error("node `{node}` is not ready after {} s: {reason}", waited.as_secs())]
    NotReady {
        node: NodeName,
        /// How long it was waited for.
        waited: Duration,
        /// What its conditions last said.
        reason: String,
    },
    /// A pod did not do on a node what it was made for.
    #[error("task `{task}` on node `{node}` failed: pod `{pod}`: {why}")]
    TaskFailed {
        node: NodeName,
        /// What was to be done there.
        task: Task,
        pod: String,
        /// What became of it.
        why: String,
    },
    /// What an object of ours holds is not what we write.
    #[error("{what}: {source}")]
    BadContent {
        /// What was being read.
        what: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What a Secret of ours holds is not what we write. What stands there is not shown.
    #[error("{what}: key `{key}` cannot be read at line {line}, column {column}")]
    BadSecret {
        /// What was being read.
        what: String,
        key: &'static str,
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// An object would be larger than the server takes.
    #[error("{what}: it would have {size} bytes, more than {limit}")]
    TooLarge {
        /// What was being written.
        what: String,
        /// How large it would be.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The lease of a pool is somebody else's.
    #[error("lease `{lease}` is held by `{by}`")]
    LeaseHeld {
        lease: String,
        /// Who holds it.
        by: String,
    },
    /// The lease of a pool was ours and is not any more.
    #[error("lease `{lease}` was lost: {why}; nothing may be done on the pool's behalf any more")]
    LeaseLost {
        lease: String,
        /// How it was lost.
        why: String,
    },
    /// Somebody else wrote the journal since it was read.
    #[error("journal `{journal}` was written by somebody else since it was read; this run stops, the other goes on")]
    JournalConflict { journal: String },
    /// The journal has grown beyond what a `ConfigMap` can hold.
    #[error("journal `{journal}` would have {size} bytes, more than {limit}; remove finished runs from it")]
    JournalTooLarge {
        journal: String,
        /// How large it would be.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// What the journal holds is not what we write.
    #[error("journal `{journal}`, entry {line}: {source}")]
    JournalUnreadable {
        journal: String,
        /// The entry, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// TLS tells what it cannot accept as invalid data; a connection that breaks has another kind.
fn is_distrust(error: &kube::Error) -> bool {
    chain(error).any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
    })
}

type Cause = dyn std::error::Error + 'static;

/// An error and what is below it. An I/O error's own `source` leaves out what it wraps.
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
    /// Says what a failed request was for.
    pub(crate) fn of(what: impl Into<String>, error: kube::Error) -> Self {
        let what = what.into();
        match error {
            kube::Error::Api(status) => Self::Answered { what, answer: Answer::from(status.as_ref()) },
            _ if is_distrust(&error) => Self::Distrusted { what, source: Box::new(error) },
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
                Self::Unanswered { what, source: Box::new(error) }
            }
            _ => Self::Unreadable { what, source: Box::new(error) },
        }
    }

    /// The server's answer, where there was one.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered { answer, .. } => Some(answer),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.answer().map(|answer| answer.code)
    }

    /// Whether the same request may succeed later with nobody doing anything.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unanswered { .. } | Self::Silent { .. } => true,
            Self::Answered { answer, .. } => matches!(answer.code, 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Whether the server, or the way to it, was away. Once it is back its caches fill: for a moment it may know no permission.
    pub fn outage(&self) -> bool {
        self.retryable() && self.code() != Some(429)
    }

    /// Whether a person must grant something first.
    pub fn permission(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// Whether the thing does not exist.
    pub fn not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the server has forgotten the revision that was asked about: what was being read must be read from its beginning.
    pub fn expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether somebody else wrote since it was read, or it exists already.
    pub fn conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> Error {
        let status = Status::failure("words", "Reason").with_code(code);
        Error::of("get node `n`", kube::Error::Api(status.boxed()))
    }

    #[test]
    fn a_server_that_is_away_or_busy_is_asked_again_and_a_refusal_is_not() {
        for code in [429, 500, 502, 503, 504] {
            assert!(answered(code).retryable(), "{code}");
        }
        for code in [400, 401, 403, 404, 409, 410, 422] {
            assert!(!answered(code).retryable(), "{code}");
        }
        assert!(answered(503).outage() && !answered(429).outage());
    }

    #[test]
    fn an_answer_is_shown_with_what_was_asked_and_what_its_causes_add() {
        assert_eq!(answered(403).to_string(), "get node `n`: 403 words");
        let causes = ["words", "more words"].map(|cause| ("Cause".to_owned(), cause.to_owned())).to_vec();
        let answer =
            Answer { code: 422, reason: String::new(), message: "words".to_owned(), causes, retry_after: None };
        assert_eq!(answer.to_string(), "422 words (more words)");
    }
}
