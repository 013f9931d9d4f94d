//! A run: its name, what it was asked, and what was settled before it began.

use std::fmt;

use jiff::Timestamp;
use kiln_types::{CanaryName, Gallery, ImageDefinition, InstanceId, PoolName, SnapshotName, Tags, VersionNumber};
use serde::{Deserialize, Serialize};

/// Text that is no run's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is no run: 1 to 32 lower-case letters or digits")]
pub struct BadRun {
    pub input: String,
}

/// The name of a run, unique among all runs of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRun;

    fn try_from(input: String) -> Result<Self, BadRun> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if (1..=32).contains(&input.len()) && input.bytes().all(plain) {
            Ok(Self(input))
        } else {
            Err(BadRun { input })
        }
    }
}

impl std::str::FromStr for RunId {
    type Err = BadRun;

    fn from_str(input: &str) -> Result<Self, BadRun> {
        Self::try_from(input.to_owned())
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the person who started a run asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line, independent of the others")]
pub struct Policy {
    /// How many usable versions stay.
    pub max_history: u32,
    /// Seconds that a pod gets to leave.
    pub grace_seconds: u32,
    /// What a drain leaves is deleted by force, and pools that others manage are not refused.
    pub force: bool,
    /// A version is proven by one throw-away machine before anybody gets it.
    pub canary: bool,
    /// The model names the version instead of the line.
    pub pin: bool,
    /// The donor's hardware is given back while it is away.
    pub deallocate: bool,
    /// A version of today that nobody uses makes room for a new one.
    pub replace_today: bool,
    /// How many nodes are added at the end.
    pub new_nodes: u32,
    /// Copies of the version in each region.
    pub replicas: u32,
    /// The key by which the version is encrypted.
    pub disk_encryption_set: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_history: 3,
            grace_seconds: 300,
            force: false,
            canary: true,
            pin: false,
            deallocate: false,
            replace_today: false,
            new_nodes: 0,
            replicas: 3,
            disk_encryption_set: None,
        }
    }
}

/// The node that is cloned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Donor {
    /// Its name in Kubernetes.
    pub node: String,
    /// Its id in the pool.
    pub instance: InstanceId,
    /// The id that its firmware shows: another machine under the same names is another donor.
    pub vm_id: String,
    /// Its OS disk.
    pub os_disk: String,
    /// Whether a clone of it resets its identity by itself already.
    pub has_first_boot: bool,
}

/// What is settled when a run opens and does not change afterwards, whoever goes on with it and however late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Of the journal's form.
    pub schema: u32,
    pub pool: PoolName,
    pub donor: Donor,
    /// When the run began.
    pub started: Timestamp,
    /// The version that it makes: its UTC day.
    pub version: VersionNumber,
    /// Who started it.
    pub who: String,
    /// What was asked.
    pub policy: Policy,
    /// The gallery, to be made where it does not exist.
    pub gallery: Gallery,
    /// The line, to be made where it does not exist.
    pub line: ImageDefinition,
    /// The copy of the donor's disk.
    pub snapshot: SnapshotName,
    /// The throw-away pool.
    pub canary: CanaryName,
    /// Tags of the copy and of the version.
    pub tags: Tags,
}

/// The form of the journal that this code writes. A journal of a later form is refused, not guessed at.
pub const SCHEMA: u32 = 1;
