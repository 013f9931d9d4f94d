//! A decision: acts, the new status, and when to decide again.

use jiff::Timestamp;
use kiln_fleet_api::{Desired, RolloutStatus};

use crate::ResolvedTarget;

/// The result of [`next`](crate::next).
///
/// The operator first writes `status`, conditional on the version that it read, and then does the acts in their order. `status.inFlight` and `status.held` are
/// therefore a record of intents: an operator that starts after a crash, or that reads old copies of nodes, still counts the nodes that were started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub acts: Vec<Act>,
    pub status: RolloutStatus,
    /// When the operator has to decide again, even if it observes no change. Always after `now`.
    pub wake: Option<Timestamp>,
    /// Indexes in [`Policy::queries`](crate::Policy::queries) of the queries to run now. Their results are part of the next observation.
    pub queries: Vec<usize>,
    /// Events to publish, each once.
    pub notices: Vec<Notice>,
}

/// An act. Each is a function of what is observed, so repeating it does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets `spec.desired` of the NodeState and removes `allow` and `reboot`.
    Assign { node: String, desired: Desired },
    /// Removes `spec.desired`, `allow` and `reboot`: the pool has no earlier target.
    Unassign { node: String },
    /// Holds, cordons and drains the node.
    Drain { node: String },
    /// Sets `spec.allow`.
    Allow { node: String, digest: String },
    /// Sets `spec.reboot`.
    Reboot { node: String, boot_id: String },
    /// Uncordons the node if this rollout cordoned it, releases the hold, and removes `allow` and `reboot`.
    Release { node: String },
    /// Records the target as the last complete target of the pool.
    CompletePool { pool: String, target: ResolvedTarget },
    /// Adds the digest to the rejected digests of the pool.
    RejectDigest { pool: String, digest: String },
    /// Adds machines until the pool has this many.
    Grow { pool: String, to: i64 },
    /// Deletes the machine of a drained node.
    Remove { node: String },
    /// Deletes the machines of an image version that have no Node.
    RemoveUnjoined { pool: String, version: String },
    /// Rejects an image version, returns the pool's new machines to the version before it, and pauses the pool.
    RejectVersion { pool: String, version: String, reason: String },
}

impl Act {
    /// Returns the name of the node, if it is about one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Assign { node, .. }
            | Self::Unassign { node }
            | Self::Drain { node }
            | Self::Allow { node, .. }
            | Self::Reboot { node, .. }
            | Self::Release { node }
            | Self::Remove { node } => Some(node),
            Self::CompletePool { .. }
            | Self::RejectDigest { .. }
            | Self::Grow { .. }
            | Self::RemoveUnjoined { .. }
            | Self::RejectVersion { .. } => None,
        }
    }

    /// Whether it begins work on a node. The others record, repeat or end something.
    pub(crate) fn is_start(&self) -> bool {
        matches!(
            self,
            Self::Assign { .. } | Self::Unassign { .. } | Self::Drain { .. } | Self::Allow { .. } | Self::Reboot { .. }
        )
    }
}

/// Severity of a [`Notice`], as in Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// An Event about the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub severity: Severity,
    /// One word in CamelCase.
    pub reason: &'static str,
    pub message: String,
    /// The node that it is about.
    pub node: Option<String>,
}
