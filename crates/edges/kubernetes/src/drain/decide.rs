//! The decision about each pod of a node that is drained. The tests compare it with the table in `docs/reference/drain.md`.

use std::fmt;

use super::pod::{Controller, PodFacts};

/// The flags of `kubectl drain`, with the same meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag on the command line")]
pub struct Flags {
    /// Evict pods that no controller recreates, and pods whose `DaemonSet` no longer exists.
    pub force: bool,
    /// Evict pods whose emptyDir data is lost.
    pub delete_emptydir_data: bool,
    /// Leave pods of `DaemonSets` in place instead of failing.
    pub ignore_daemonsets: bool,
    /// Delete instead of evict, bypassing all budgets.
    pub disable_eviction: bool,
}

/// The decision about one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionDecision {
    Evict,
    /// Stays, and does not prevent the node from being drained.
    Skip(SkipReason),
    /// The drain must not start.
    Block(BlockReason),
}

/// Why a pod stays on a drained node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Its `DaemonSet` would recreate it on the same node.
    DaemonSet,
    /// A static pod: the kubelet runs it from a file.
    Mirror,
}

/// Why a pod blocks the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReason {
    /// `ignore_daemonsets` is not set.
    DaemonSet,
    /// Its `DaemonSet` no longer exists, and `force` is not set.
    OrphanOfDaemonSet,
    /// Its emptyDir data would be lost, and `delete_emptydir_data` is not set.
    EmptyDir,
    /// No controller would recreate it, and `force` is not set.
    Unmanaged,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "its DaemonSet would recreate it on the node",
            Self::Mirror => "it is a static pod of the node",
        })
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "it belongs to a DaemonSet (`--ignore-daemonsets` leaves it in place)",
            Self::OrphanOfDaemonSet => "its DaemonSet no longer exists (`--force` evicts it)",
            Self::EmptyDir => "it has data in an emptyDir (`--delete-emptydir-data` evicts it)",
            Self::Unmanaged => "no controller would recreate it (`--force` evicts it)",
        })
    }
}

/// Decides about one pod. The first matching rule wins.
pub fn decide(pod: &PodFacts, flags: Flags) -> EvictionDecision {
    if let (Controller::DaemonSet { exists, .. }, false) = (&pod.controller, pod.finished) {
        match (exists, flags.force, flags.ignore_daemonsets) {
            (true, _, true) => return EvictionDecision::Skip(SkipReason::DaemonSet),
            (true, _, false) => return EvictionDecision::Block(BlockReason::DaemonSet),
            (false, false, _) => return EvictionDecision::Block(BlockReason::OrphanOfDaemonSet),
            // Nothing recreates it: it is treated like any other pod.
            (false, true, _) => {}
        }
    }
    if pod.mirror {
        return EvictionDecision::Skip(SkipReason::Mirror);
    }
    if pod.finished {
        return EvictionDecision::Evict;
    }
    if pod.empty_dir && !flags.delete_emptydir_data {
        return EvictionDecision::Block(BlockReason::EmptyDir);
    }
    if pod.controller == Controller::None && !flags.force {
        return EvictionDecision::Block(BlockReason::Unmanaged);
    }
    EvictionDecision::Evict
}
