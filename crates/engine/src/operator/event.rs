//! Events of the operator, for its log.

use std::fmt;
use std::net::SocketAddr;

/// Something that happened to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorEvent {
    /// The HTTP server listens.
    Listening(SocketAddr),
    /// Another operator has the lease.
    Standby {
        holder: String,
    },
    /// This operator has the lease, in this term.
    Leading {
        term: i32,
    },
    /// This operator stopped acting because it no longer has the lease.
    LostLease {
        reason: String,
    },
    /// A watch failed and is started again.
    WatchFailed {
        kind: &'static str,
        error: String,
    },
    /// An object could not be reconciled; it is tried again.
    Failed {
        what: String,
        error: String,
    },
    /// A notice, which is an Event on the object too.
    Notice {
        object: String,
        warning: bool,
        reason: String,
        message: String,
    },
    Stopped,
}

impl fmt::Display for OperatorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening(address) => write!(f, "serving metrics and health on http://{address}"),
            Self::Standby { holder } => write!(f, "standing by: `{holder}` has the lease"),
            Self::Leading { term } => write!(f, "leading, term {term}"),
            Self::LostLease { reason } => write!(f, "no longer leading: {reason}"),
            Self::WatchFailed { kind, error } => write!(f, "the watch of {kind} failed and is started again: {error}"),
            Self::Failed { what, error } => write!(f, "{what}: {error}"),
            Self::Notice { object, warning, reason, message } => {
                let level = if *warning { "warning: " } else { "" };
                write!(f, "{level}{object}: {reason}: {message}")
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
