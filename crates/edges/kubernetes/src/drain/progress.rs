//! Progress of a drain.

use std::fmt;

use super::decide::SkipReason;
use super::pod::PodId;

/// Progress of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Skipped(PodId, SkipReason),
    /// Its eviction was accepted.
    Terminating(PodId),
    /// A budget does not allow a disruption now; the eviction is retried.
    Budget(PodId, String),
    /// The server throttled the eviction, which is retried.
    Throttled(PodId),
    /// The pod cannot be evicted; the drain continues with the others.
    Refused(PodId, String),
    /// The server is unavailable; the request is retried.
    Unavailable(String),
    /// Deleted without grace period.
    Forced(PodId),
    Gone(PodId),
    /// The pods are gone, and these volumes are not detached yet.
    Attached(Vec<String>),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(pod, reason) => write!(f, "pod {pod} stays: {reason}"),
            Self::Terminating(pod) => write!(f, "pod {pod} is terminating"),
            Self::Budget(pod, message) => write!(f, "pod {pod} waits for its budget: {message}"),
            Self::Throttled(pod) => write!(f, "pod {pod} waits: the API server throttles requests"),
            Self::Refused(pod, message) => write!(f, "pod {pod} cannot be evicted: {message}"),
            Self::Unavailable(message) => write!(f, "waiting for the API server: {message}"),
            Self::Forced(pod) => write!(f, "pod {pod} is deleted without grace period"),
            Self::Gone(pod) => write!(f, "pod {pod} is gone"),
            Self::Attached(volumes) => write!(f, "waiting for volumes to be detached: {}", volumes.join(", ")),
        }
    }
}
