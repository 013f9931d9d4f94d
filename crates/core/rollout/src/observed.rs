//! The observation on which a decision is based.
//!
//! The operator may act on old copies of objects, but its writes must be conditional on the `resourceVersion` that it read. A decision then never
//! acts on a node that has changed since.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Desired, Effect, NodeStateStatus, RolloutSpec, RolloutStatus};

use crate::Policy;

/// The Rollout object.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    pub name: &'a str,
    /// `metadata.generation`, for the conditions.
    pub generation: Option<i64>,
    pub spec: &'a RolloutSpec,
    pub status: &'a RolloutStatus,
    pub policy: &'a Policy,
}

impl Rollout<'_> {
    /// Whether its target is an image version, so that nodes are replaced instead of changed.
    pub fn is_image(&self) -> bool {
        self.spec.target.image_version.is_some()
    }
}

/// Everything else that a decision depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The document, or why nothing may start: it does not exist, it is invalid, or the policy is. With an invalid policy, the operator passes the
    /// default policy here, so that nodes in flight are finished.
    pub target: Result<ResolvedTarget, Problem>,
    pub pools: Vec<PoolObserved>,
    /// All nodes of the pools, and nodes that left them while this rollout held them, in any order.
    pub nodes: Vec<NodeObserved>,
    pub freezes: Vec<FreezeObserved>,
    /// Names of open rollouts that were created earlier and have a pool in common with this one.
    pub older_rollouts: Vec<String>,
    /// Results of the queries of the last decision.
    pub prometheus: Vec<Reading>,
    /// How long nodes took in the past, for the end of windows.
    pub past: Vec<PastTurn>,
}

/// A document or an image version that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedTarget {
    /// Name of the NodeConfig or of the ImageVersion.
    pub node_config: String,
    /// Digest of the document, or the number of the image version.
    pub digest: String,
}

/// A reason that only a person can remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// A sentence with the remedy.
    pub message: String,
    /// Names of the objects.
    pub objects: Vec<String>,
}

/// Spec and status of a Pool, as far as a rollout needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolObserved {
    pub name: String,
    pub paused: bool,
    /// `status.target`: the last complete target.
    pub previous: Option<ResolvedTarget>,
    /// Digests and image versions that failed on it.
    pub rejected: Vec<String>,
    /// Requested number of machines, for rollouts with an image version.
    pub capacity: Option<i64>,
    /// Machines of the target's image version without a Node.
    pub unjoined: Vec<String>,
    /// Why machines cannot be added or removed now.
    pub obstacle: Option<String>,
}

/// A Node and its NodeState.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the Node and its NodeState")]
pub struct NodeObserved {
    pub name: String,
    pub pool: String,
    /// Labels of the Node.
    pub labels: BTreeMap<String, String>,
    pub ready: bool,
    /// When the condition Ready got its present status, `True` or not. Without it, times count from the operator's last write.
    pub ready_since: Option<Timestamp>,
    /// `spec.unschedulable`, set by anyone.
    pub cordoned: bool,
    /// Whether this rollout holds the node.
    pub held: bool,
    pub drain: DrainState,
    /// `spec.desired` of the NodeState.
    pub desired: Option<Desired>,
    /// `spec.allow` of the NodeState.
    pub allow: Option<String>,
    /// `spec.reboot` of the NodeState.
    pub reboot: Option<String>,
    /// When the operator last changed the spec of the NodeState (the time in `metadata.managedFields`). The time limit of the node counts from here, so
    /// that waiting for a window does not use it up. Without it, the limit counts from `desired.since`.
    pub written: Option<Timestamp>,
    pub status: NodeStateStatus,
    /// Whether the status answers the spec: `observedGeneration == metadata.generation`.
    pub observed: bool,
    /// Whether all pods of DaemonSets on the node are ready.
    pub daemon_sets_ready: bool,
    /// Conditions of the Node with their status.
    pub conditions: BTreeMap<String, String>,
    /// The conditions before the node's turn.
    pub conditions_before: BTreeMap<String, String>,
    /// Effect of the target on the document in force, if that document is known.
    pub expected_effect: Option<Effect>,
    /// The image that its machine runs: the number of a version, or the name of another image. None if its machine is not known.
    pub image: Option<String>,
    /// Why its machine must not be replaced.
    pub stays: Option<String>,
}

impl NodeObserved {
    /// Whether pods can be scheduled to the node.
    pub fn is_available(&self) -> bool {
        self.ready && !self.cordoned
    }

    /// When it became Ready, or not.
    pub(crate) fn ready_changed(&self, now: Timestamp) -> Timestamp {
        self.ready_since.or(self.written).unwrap_or(now)
    }
}

/// The drain of a node that this rollout holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DrainState {
    #[default]
    None,
    Running {
        since: Timestamp,
    },
    Done,
    Failed {
        reason: String,
    },
}

/// Spec of a Freeze, with its time parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreezeObserved {
    pub name: String,
    pub reason: String,
    /// The frozen pools; empty freezes all.
    pub pools: Vec<String>,
    pub until: Option<Timestamp>,
}

/// The answer to a query of a [`Decision`](crate::Decision).
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Index in [`Policy::queries`].
    pub query: usize,
    pub at: Timestamp,
    /// The first sample, or why there is none: no samples, or no answer. Without a sample the wave waits.
    pub value: Result<f64, String>,
}

/// How long one node took in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastTurn {
    pub effect: Effect,
    /// From the begin of the drain (of the assignment, for changes in place) until the release.
    pub took: SignedDuration,
}
