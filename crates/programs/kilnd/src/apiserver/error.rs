//! What can go wrong between a node and its API server.

use std::io;
use std::path::PathBuf;

/// What can go wrong between a node and its API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubelet's certificate cannot be read. It is not there before the node has joined.
    #[error("the kubelet's certificate `{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A certificate or key is none.
    #[error("`{place}` holds no {what}")]
    Pem {
        place: String,
        /// What is missing.
        what: &'static str,
    },
    /// The server cannot be reached, or is not the one that the cluster's certificates vouch for.
    #[error("`{url}` cannot be reached")]
    Unreachable {
        /// What was asked.
        url: String,
        source: Box<ureq::Error>,
    },
    /// The server refuses.
    #[error("`{url}` answers {status} {reason}: {message}")]
    Refused {
        /// What was asked.
        url: String,
        status: u16,
        /// Kubernetes' word for it.
        reason: String,
        message: String,
    },
    /// An answer is not what an API server says.
    #[error("`{url}` answers what cannot be read")]
    Answer {
        /// What was asked.
        url: String,
        source: serde_json::Error,
    },
}

impl Error {
    /// Whether the server was reached and said no: asking again does not help.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403, .. })
    }

    /// Whether there is no such object.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether nothing was heard from the server.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Read { .. })
    }
}
