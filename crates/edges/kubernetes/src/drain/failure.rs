//! How a drain fails.

use std::fmt;
use std::time::Duration;

use super::decide::BlockReason;
use super::pod::PodId;
use crate::Error;
use crate::name::NodeName;

/// A pod that did not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Which one.
    pub pod: PodId,
    pub because: LeftBecause,
}

/// Why a pod did not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftBecause {
    /// Its budget allowed no disruption.
    Budget(String),
    /// The server had too much to do.
    Throttled,
    /// It cannot be evicted as things are.
    Refused(String),
    /// It was told to end and did not.
    Terminating {
        /// Who has not agreed yet.
        finalizers: Vec<String>,
    },
    /// The server was away.
    Away(String),
    /// The time was over before it was asked.
    NotAsked,
}

impl fmt::Display for LeftBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(message) => write!(f, "its budget allows no disruption: {message}"),
            Self::Throttled => f.write_str("the API server had too much to do"),
            Self::Refused(message) => write!(f, "it cannot be evicted: {message}"),
            Self::Terminating { finalizers } if finalizers.is_empty() => f.write_str("it was told to end and has not"),
            Self::Terminating { finalizers } => {
                write!(f, "it was told to end and its finalizers hold it: {}", finalizers.join(", "))
            }
            Self::Away(message) => write!(f, "the API server was away: {message}"),
            Self::NotAsked => f.write_str("the time was over before it was asked"),
        }
    }
}

/// How a drain fails.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// Pods that may not be touched are on the node. None was; where such a pod came later, others were evicted before it.
    #[error("node `{node}` is not drained, {}: {}", if *began { "a pod came meanwhile" } else { "nothing was evicted" }, blocked(pods))]
    Blocked {
        node: NodeName,
        /// Whether pods were evicted before.
        began: bool,
        pods: Vec<(PodId, BlockReason)>,
    },
    /// Pods did not leave.
    #[error("node `{node}` is not drained after {} s: {}", after.as_secs(), left(pods))]
    Left {
        node: NodeName,
        /// How long it was tried.
        after: Duration,
        /// The pods that are left.
        pods: Vec<Left>,
    },
    /// The caller called it off.
    #[error("the drain of node `{node}` was called off")]
    Cancelled { node: NodeName },
    /// A request failed.
    #[error(transparent)]
    Cluster(#[from] Error),
    /// The drain failed, and the node could not be given back.
    #[error("{drain}; and the node is still held: {release}")]
    StillHeld {
        /// How the drain failed.
        drain: Box<DrainError>,
        /// Why the node is still held.
        #[source]
        release: Error,
    },
}

impl DrainError {
    /// Whether the same drain may succeed later with nobody doing anything.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Left { pods, .. } => pods.iter().all(|left| !matches!(left.because, LeftBecause::Refused(_))),
            Self::Cluster(error) => error.retryable(),
            Self::Blocked { .. } | Self::Cancelled { .. } | Self::StillHeld { .. } => false,
        }
    }
}

fn blocked(pods: &[(PodId, BlockReason)]) -> String {
    pods.iter().map(|(pod, reason)| format!("pod {pod}: {reason}")).collect::<Vec<_>>().join("; ")
}

fn left(pods: &[Left]) -> String {
    pods.iter().map(|left| format!("pod {}: {}", left.pod, left.because)).collect::<Vec<_>>().join("; ")
}
