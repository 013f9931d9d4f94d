//! The tags that kiln reads and writes, all in one list.
//!
//! A tag is emptied, never removed, because clouds differ in whether a write of tags replaces all of them. An empty value therefore
//! means the same as a missing tag. Azure compares tag names without case.

use std::collections::BTreeMap;

/// Tags of a resource, sorted by name.
pub type Tags = BTreeMap<String, String>;

/// On a scale set: the run that works on it. Together with the lease it keeps two runs, also of two clusters, from one pool.
pub const CLAIM_TAG: &str = "kiln-run";

/// On a scale set: [`RECIPE_OF_IMAGE`] once its recipe has neither custom data nor a bootstrap script.
pub const RECIPE_TAG: &str = "kiln-recipe";

/// See [`RECIPE_TAG`].
pub const RECIPE_OF_IMAGE: &str = "image";

/// On a scale set that is being refreshed: how many nodes it had when the refresh began, for a later process that continues it.
pub const REFRESH_TAG: &str = "kiln-refresh";

/// On the scale set of a canary: the pool whose recipe it uses. A scale set without this tag is never deleted.
pub const CANARY_TAG: &str = "kiln-canary-of";

/// On a snapshot: the image version that is created from it.
pub const VERSION_TAG: &str = "kiln-version";

/// On a snapshot and on the image version that is created from it: the run that copied the disk of a running donor. Only that run knows
/// whether the donor's file systems were frozen meanwhile, so no other run uses the snapshot.
pub const LIVE_TAG: &str = "kiln-live";

/// On an image definition: the rejected versions, separated by spaces.
pub const REJECTED_TAG: &str = "kiln-rejected";

/// On an image definition: prefix of the numbered tags with the fingerprints of rejected versions. The numbers are reused: a definition
/// with one tag for each version would run out of its 50.
pub const REJECTED_FINGERPRINT_PREFIX: &str = "kiln-rejected-";

/// On an image definition: set while its pool is paused.
pub const PAUSED_TAG: &str = "kiln-paused";

/// On an image version: the node that it was created from. kamino's name.
pub const BUILT_FROM_TAG: &str = "BuiltFrom";

/// On an image version: when the disk was copied. kamino's name.
pub const BUILT_AT_TAG: &str = "BuiltAt";

/// On an image version: its kernel.
pub const KERNEL_TAG: &str = "kiln-kernel";

/// On an image version: its kubelet.
pub const KUBELET_TAG: &str = "kiln-kubelet";

/// On an image version: its container runtime.
pub const RUNTIME_TAG: &str = "kiln-runtime";

/// On an image version: the hash of its package list.
pub const PACKAGES_TAG: &str = "kiln-packages";

/// On an image version: the versions that it descends from, nearest first.
pub const ANCESTORS_TAG: &str = "kiln-ancestors";

/// On an image version: the run that created it.
pub const MADE_BY_RUN_TAG: &str = "kiln-made-by-run";

/// On an image version: who started that run.
pub const MADE_BY_TAG: &str = "kiln-made-by";

/// On every part of a launched machine: the cluster that it was created for. kiln finds machines and leftovers by it.
pub const OWNER_TAG: &str = "kiln.dev_owner";

/// On every part of a launched machine: the time at which the launch began, then [`LAUNCH_DONE`] once the launching process has seen
/// the machine. A part that still has the time long afterwards was left behind by a process that died.
pub const LAUNCH_TAG: &str = "kiln.dev_launch";

/// See [`LAUNCH_TAG`].
pub const LAUNCH_DONE: &str = "done";
