//! What a drain tells while it runs.

use std::fmt;

use super::decide::SkipReason;
use super::pod::PodId;

/// What a drain tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A pod stays in place.
    Skipped(PodId, SkipReason),
    /// A pod is told to end.
    Asked(PodId),
    /// A budget allows no disruption now; it is asked again.
    Budget(PodId, String),
    /// The server has too much to do; it is asked again.
    Throttled(PodId),
    /// A pod cannot be evicted; the others still are.
    Refused(PodId, String),
    /// The server is away; it is asked again.
    Away(String),
    /// A pod is deleted without grace.
    Forced(PodId),
    /// A pod is gone.
    Gone(PodId),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(pod, reason) => write!(f, "pod {pod} stays: {reason}"),
            Self::Asked(pod) => write!(f, "pod {pod} is told to end"),
            Self::Budget(pod, message) => write!(f, "pod {pod} waits for its budget: {message}"),
            Self::Throttled(pod) => write!(f, "pod {pod} waits: the API server has too much to do"),
            Self::Refused(pod, message) => write!(f, "pod {pod} cannot be evicted: {message}"),
            Self::Away(message) => write!(f, "waiting for the API server: {message}"),
            Self::Forced(pod) => write!(f, "pod {pod} is deleted without grace"),
            Self::Gone(pod) => write!(f, "pod {pod} is gone"),
        }
    }
}
