//! What becomes of a pod when its node is drained. The same table is in `docs/reference/drain.md`, which the tests read.

use std::fmt;

use super::pod::{Controller, PodFacts};

/// What the caller allows. The meanings are those of `kubectl drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct Flags {
    /// Pods that nobody makes anew may go, and pods of a `DaemonSet` that is gone.
    pub force: bool,
    /// Data in emptyDirs may go.
    pub delete_emptydir_data: bool,
    /// Pods of `DaemonSets` stay and do not stop the drain.
    pub ignore_daemonsets: bool,
    /// Pods are deleted, past all budgets, not evicted.
    pub disable_eviction: bool,
}

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves.
    Evict,
    /// It stays, and the node counts as drained.
    Skip(SkipReason),
    /// The drain must not begin.
    Block(BlockReason),
}

/// Why a pod stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Its `DaemonSet` would make it anew on the same node.
    DaemonSet,
    /// Kubelet runs it from a file.
    Mirror,
}

/// Why a pod stops the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReason {
    /// It is a `DaemonSet`'s, and `ignore_daemonsets` is not set.
    DaemonSet,
    /// Its `DaemonSet` is gone, and `force` is not set.
    OrphanOfDaemonSet,
    /// Data in its emptyDir would be lost, and `delete_emptydir_data` is not set.
    EmptyDir,
    /// Nobody would make it anew, and `force` is not set.
    Unmanaged,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "its DaemonSet keeps one on every node",
            Self::Mirror => "kubelet runs it from a file of the node",
        })
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "it belongs to a DaemonSet (`--ignore-daemonsets` leaves it in place)",
            Self::OrphanOfDaemonSet => "its DaemonSet does not exist any more (`--force` removes it)",
            Self::EmptyDir => "it keeps data in an emptyDir (`--delete-emptydir-data` lets it go)",
            Self::Unmanaged => "nothing would create it again (`--force` removes it)",
        })
    }
}

/// What becomes of a pod. The first rule that applies counts.
pub fn decide(pod: &PodFacts, flags: Flags) -> Verdict {
    if let (Controller::DaemonSet { exists, .. }, false) = (&pod.controller, pod.finished) {
        match (exists, flags.force, flags.ignore_daemonsets) {
            (true, _, true) => return Verdict::Skip(SkipReason::DaemonSet),
            (true, _, false) => return Verdict::Block(BlockReason::DaemonSet),
            (false, false, _) => return Verdict::Block(BlockReason::OrphanOfDaemonSet),
            // Nothing makes it anew: from here on it is a pod like others.
            (false, true, _) => {}
        }
    }
    if pod.mirror {
        return Verdict::Skip(SkipReason::Mirror);
    }
    if pod.finished {
        return Verdict::Evict;
    }
    if pod.empty_dir && !flags.delete_emptydir_data {
        return Verdict::Block(BlockReason::EmptyDir);
    }
    if pod.controller == Controller::None && !flags.force {
        return Verdict::Block(BlockReason::Unmanaged);
    }
    Verdict::Evict
}
