//! A run: its id, its options and its header.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kiln_types::{
    CanaryName, Gallery, ImageDefinition, InstanceId, JoinMode, NodeName, PoolName, SnapshotName, Tags, VersionNumber,
    name,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::history::MaxHistory;

name! {
    /// The id of a run, unique among all runs of a pool.
    RunId, "run id", "1 to 32 lower-case letters or digits",
    |s| (1..=32).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// The options of a run, as the user gave them.
///
/// The command line builds this once and the journal stores it in the [`Header`], so that a resumed run has exactly the options and
/// consents that it was started with; see [`Consent`](crate::preflight::Consent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line, independent of the others")]
pub struct RunOptions {
    /// How many usable versions to keep.
    pub max_history: MaxHistory,
    /// Seconds that each pod has to terminate when the donor is drained, 0 for none; by default each pod's own grace period.
    pub grace_seconds: Option<u32>,
    /// Force-delete pods that a drain leaves.
    pub force: bool,
    /// Accept that the donor is its pool's only node.
    pub allow_empty_pool: bool,
    /// Accept that AKS or Cluster API owns the pool.
    // Like every field here with a default, newer than the first journals of schema 2: they lack it, so it is not written unless set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_managed_pool: bool,
    /// Accept a donor with the packages of a rejected version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_rejected_patch: bool,
    /// Accept that the original recipe cannot be saved.
    pub no_original: bool,
    /// Test the version with a canary before it is included.
    pub canary: bool,
    /// How clones join; by default chosen from the inspection of the donor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinMode>,
    /// The Secret in kiln's namespace with the secret parts of the pool's recipe, for a canary that joins by the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_secret: Option<String>,
    /// The size of the canary; by default the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_size: Option<String>,
    /// The availability zone of the canary; by default one of the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_zone: Option<String>,
    /// Do not delete a canary that failed, so that a person can look at it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_canary_on_failure: bool,
    /// The pod that must succeed on the canary, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoke_test: Option<String>,
    /// For how many seconds the canary has to stay Ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub soak_seconds: u64,
    /// Set the version in the scale set's model instead of the image definition.
    pub pin: bool,
    /// Deallocate the donor instead of only stopping it.
    pub deallocate: bool,
    /// Copy the disk of the running donor while its file systems are frozen, instead of draining and stopping it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Replace a version of today that is not in use.
    pub replace_today: bool,
    /// How many nodes to add at the end.
    pub new_nodes: u32,
    /// Replicas of the version per region; by default derived from the pool's size.
    pub replicas: Option<u32>,
    /// Regions to replicate the version to besides the pool's own, each with its number of replicas if it has one of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target_regions: BTreeMap<String, Option<u32>>,
    /// The resource id of the version's disk encryption set; by default the donor's.
    pub disk_encryption_set: Option<String>,
    /// Tags for everything that the run creates, in addition to its own.
    pub tags: Tags,
    /// The extensions whose protected settings were given. Only a rollback needs the settings, so they are not kept.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub protected_settings_of: BTreeSet<String>,
    /// The Secret with the protected settings, as `namespace/name`, for a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_settings_secret: Option<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            max_history: MaxHistory::default(),
            grace_seconds: None,
            force: false,
            allow_empty_pool: false,
            allow_managed_pool: false,
            allow_rejected_patch: false,
            no_original: false,
            canary: true,
            join: None,
            canary_secret: None,
            canary_size: None,
            canary_zone: None,
            keep_canary_on_failure: false,
            smoke_test: None,
            soak_seconds: 0,
            pin: false,
            deallocate: false,
            live: false,
            replace_today: false,
            new_nodes: 0,
            replicas: None,
            target_regions: BTreeMap::new(),
            disk_encryption_set: None,
            tags: Tags::new(),
            protected_settings_of: BTreeSet::new(),
            protected_settings_secret: None,
        }
    }
}

/// The node that is cloned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Donor {
    pub node: NodeName,
    pub instance: InstanceId,
    /// The id in the firmware. A different machine with the same node name is not the donor.
    pub vm_id: String,
    pub os_disk: String,
    /// The disk encryption set of its OS disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_set: Option<String>,
    /// Whether it already has the unit that resets a clone's identity at first boot.
    pub has_first_boot: bool,
}

/// The values that are fixed when a run opens. They do not change, no matter when and where the run is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// First, so that a journal of another schema fails here and not at a field that the other schema lacks.
    pub schema: Schema,
    pub pool: PoolName,
    pub donor: Donor,
    pub started: Timestamp,
    /// The version that the run creates: the UTC day of its start.
    pub version: VersionNumber,
    /// Who started it.
    pub who: String,
    pub options: RunOptions,
    /// How clones join.
    #[serde(default, skip_serializing_if = "is_certificate")]
    pub join: JoinMode,
    /// Replicas of the version per region.
    pub replicas: u32,
    /// Created if it does not exist.
    pub gallery: Gallery,
    /// Where the gallery is, if not where the pool is. A process that resumes the run must use the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gallery_scope: Option<String>,
    /// Created if it does not exist.
    pub definition: ImageDefinition,
    pub snapshot: SnapshotName,
    pub canary: CanaryName,
    /// The pool's NodeConfig is in its custom data: the recipe keeps it, and the canary gets the donor's copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_custom_data: bool,
    /// Tags of the snapshot and of the version: the user's and the version's provenance.
    pub tags: Tags,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_certificate(join: &JoinMode) -> bool {
    *join == JoinMode::Certificate
}

/// The schema of the journal. Serialises as [`Schema::NUMBER`] and deserialises from nothing else: a journal of another schema is
/// rejected, because a run that misreads its holds could leave a node cordoned or stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schema;

impl Schema {
    /// The schema that this code reads and writes. 2: options and consents in the header, steps named as in the glossary.
    pub const NUMBER: u32 = 2;
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(Self::NUMBER)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (found, known) = (u32::deserialize(deserializer)?, Self::NUMBER);
        let age = match found.cmp(&known) {
            std::cmp::Ordering::Equal => return Ok(Self),
            std::cmp::Ordering::Less => "an older",
            std::cmp::Ordering::Greater => "a newer",
        };
        Err(D::Error::custom(format_args!("written by {age} kiln (schema {found}; this kiln reads schema {known})")))
    }
}
