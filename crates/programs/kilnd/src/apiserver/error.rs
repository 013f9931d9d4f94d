//! The error of this module tree.

use std::io;
use std::path::PathBuf;

/// A failed request to the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate does not exist before the node has joined.
    #[error("cannot read the kubelet's certificate `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{name}` contains no {what}")]
    Pem {
        name: String,
        /// The missing item.
        what: &'static str,
    },
    /// The server cannot be reached, or its certificate is not trusted.
    #[error("cannot reach `{url}`")]
    Unreachable { url: String, source: Box<ureq::Error> },
    #[error("`{url}` returned {status} {reason}: {message}")]
    Refused {
        url: String,
        status: u16,
        /// The reason of the Kubernetes `Status`.
        reason: String,
        message: String,
    },
    #[error("cannot parse the response of `{url}`")]
    Response { url: String, source: serde_json::Error },
}

impl Error {
    /// Whether the server denied the request. A retry does not help.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403, .. })
    }

    /// Whether the object does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the server cannot be reached, is overloaded or has a fault. Says nothing about this node.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Response { .. } | Self::Refused { status: 408 | 429 | 500..=599, .. }
        )
    }
}
