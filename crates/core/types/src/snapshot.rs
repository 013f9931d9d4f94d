//! Snapshots of OS disks.

use serde::{Deserialize, Serialize};

use crate::image::{Architecture, Generation, ImageFeatures, SecurityType};
use crate::name::SnapshotName;
use crate::pool::Provisioning;
use crate::tags::Tags;

/// An OS disk, with the properties that an image definition has to match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsDisk {
    pub id: String,
    pub generation: Generation,
    pub architecture: Architecture,
    pub security_type: SecurityType,
    pub features: ImageFeatures,
    /// The resource id of the disk encryption set with the customer-managed key, if it has one.
    pub encryption_set: Option<String>,
    /// Whether its file system is encrypted by the cloud's extension (Azure Disk Encryption).
    pub encrypted_by_extension: bool,
    pub size_gib: Option<u32>,
}

/// A snapshot to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    pub name: SnapshotName,
    /// The region of the disk.
    pub location: String,
    /// The resource id of the disk.
    pub disk: String,
    /// The resource id of the disk encryption set. A copy of a disk must have the keys of the disk.
    #[serde(default)]
    pub encryption_set: Option<String>,
    pub tags: Tags,
}

/// The state of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub name: SnapshotName,
    pub id: String,
    /// The resource id of the disk.
    pub source: Option<String>,
    pub provisioning: Provisioning,
    /// As the cloud writes it.
    pub created: Option<String>,
    pub tags: Tags,
}
