//! Errors of a drain.

use std::fmt;
use std::time::Duration;

use super::decide::BlockReason;
use super::pod::PodId;
use crate::Error;
use crate::name::NodeName;

/// A pod that is still on the node after a drain failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingPod {
    pub pod: PodId,
    pub reason: RemainReason,
}

/// Why a pod is still on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemainReason {
    /// Its budget does not allow a disruption.
    Budget(String),
    /// The server throttled the evictions.
    Throttled,
    /// It cannot be evicted without a change by a person.
    Refused(String),
    /// It is terminating and has not ended.
    Terminating {
        /// Finalizers that are not done yet.
        finalizers: Vec<String>,
    },
    /// The server was unavailable.
    Unavailable(String),
    /// The deadline passed before its eviction was requested.
    NotAttempted,
}

impl fmt::Display for RemainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(message) => write!(f, "its budget allows no disruption: {message}"),
            Self::Throttled => f.write_str("the API server throttled the eviction"),
            Self::Refused(message) => write!(f, "it cannot be evicted: {message}"),
            Self::Terminating { finalizers } if finalizers.is_empty() => {
                f.write_str("it is terminating and has not ended")
            }
            Self::Terminating { finalizers } => {
                write!(f, "it is terminating and waits for its finalizers: {}", finalizers.join(", "))
            }
            Self::Unavailable(message) => write!(f, "the API server was unavailable: {message}"),
            Self::NotAttempted => f.write_str("the deadline passed before its eviction was requested"),
        }
    }
}

/// Errors of a drain.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// Pods on the node block the drain. They were not touched; if such a pod appeared later, other pods were evicted before it.
    #[error("node `{node}` is not drained, {}: {}", if *began { "a blocking pod appeared while draining" } else { "nothing was evicted" }, blocked(pods))]
    Blocked {
        node: NodeName,
        /// Whether other pods were evicted before.
        began: bool,
        pods: Vec<(PodId, BlockReason)>,
    },
    #[error("node `{node}` is not drained after {} s: {}", after.as_secs(), remaining(pods))]
    Remaining { node: NodeName, after: Duration, pods: Vec<RemainingPod> },
    /// The pods are gone, and volumes are still attached.
    #[error("node `{node}` still has volumes attached after {} s: {}", after.as_secs(), volumes.join(", "))]
    Attached { node: NodeName, after: Duration, volumes: Vec<String> },
    #[error("the drain of node `{node}` was cancelled")]
    Cancelled { node: NodeName },
    #[error(transparent)]
    Cluster(#[from] Error),
    /// The drain failed, and the node could not be released.
    #[error("{drain}; the node is still held because its release failed: {release}")]
    StillHeld {
        drain: Box<DrainError>,
        #[source]
        release: Error,
    },
}

impl DrainError {
    /// Whether the same drain may succeed later without anyone acting.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Remaining { pods, .. } => {
                pods.iter().all(|remaining| !matches!(remaining.reason, RemainReason::Refused(_)))
            }
            Self::Attached { .. } => true,
            Self::Cluster(error) => error.is_retryable(),
            Self::Blocked { .. } | Self::Cancelled { .. } | Self::StillHeld { .. } => false,
        }
    }
}

fn blocked(pods: &[(PodId, BlockReason)]) -> String {
    pods.iter().map(|(pod, reason)| format!("pod {pod}: {reason}")).collect::<Vec<_>>().join("; ")
}

fn remaining(pods: &[RemainingPod]) -> String {
    pods.iter().map(|remaining| format!("pod {}: {}", remaining.pod, remaining.reason)).collect::<Vec<_>>().join("; ")
}
