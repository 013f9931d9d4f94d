//! Copies of a disk.

use serde::{Deserialize, Serialize};

use crate::image::{Architecture, Generation, SecurityType};
use crate::name::SnapshotName;
use crate::pool::{Provisioning, Tags};

/// What an OS disk says of the machine that can boot it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsDisk {
    pub id: String,
    /// The firmware that boots it.
    pub generation: Generation,
    /// The processor that runs it.
    pub architecture: Architecture,
    /// What the firmware vouches for.
    pub security_type: SecurityType,
    /// Its size in GiB.
    pub size_gib: Option<u32>,
}

/// A copy to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    pub name: SnapshotName,
    /// The region of the disk.
    pub location: String,
    /// The resource id of the disk.
    pub disk: String,
    pub tags: Tags,
}

/// A copy as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub name: SnapshotName,
    pub id: String,
    /// The disk that it was made of.
    pub source: Option<String>,
    /// Whether it is whole.
    pub provisioning: Provisioning,
    /// When it was made, as the cloud writes it.
    pub created: Option<String>,
    pub tags: Tags,
}
