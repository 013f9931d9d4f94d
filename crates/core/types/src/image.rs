//! Galleries, image definitions and image versions.

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;
use crate::name::GalleryName;
use crate::operation::Failure;
use crate::pool::Plan;
use crate::tags::Tags;
use crate::version::VersionNumber;

/// A gallery of image definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gallery {
    pub name: GalleryName,
    pub location: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// The name of an image definition: its gallery and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DefinitionName {
    pub gallery: GalleryName,
    pub definition: String,
}

/// An image definition. Generation, architecture, security type and features cannot change after its creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDefinition {
    pub name: DefinitionName,
    pub location: String,
    pub generation: Generation,
    pub architecture: Architecture,
    pub security_type: SecurityType,
    #[serde(default, skip_serializing_if = "ImageFeatures::is_unknown")]
    pub features: ImageFeatures,
    pub identity: DefinitionIdentity,
    pub plan: Option<Plan>,
    pub tags: Tags,
}

/// What the machines of an image may use besides its generation, architecture and security type. As these, it cannot change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFeatures {
    /// `SCSI` and `NVMe`, as Azure writes them. Where there is none, Azure assumes `SCSI`.
    pub disk_controllers: Vec<String>,
    pub accelerated_networking: Option<bool>,
}

impl ImageFeatures {
    /// The name of the newer disk controller. Recent sizes have no other.
    const NVME: &str = "NVMe";

    /// Parses Azure's list of disk controllers, such as `SCSI, NVMe`.
    pub fn new(disk_controllers: Option<&str>, accelerated_networking: Option<bool>) -> Self {
        let names = disk_controllers.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        Self { disk_controllers: names.map(str::to_owned).collect(), accelerated_networking }
    }

    /// The same features, and NVMe. Where no controller is known, SCSI is one, too.
    #[must_use]
    pub fn with_nvme(mut self) -> Self {
        if self.disk_controllers.is_empty() {
            self.disk_controllers.push("SCSI".to_owned());
        }
        if !self.has_nvme() {
            self.disk_controllers.push(Self::NVME.to_owned());
        }
        self
    }

    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a machine with an NVMe disk controller can boot the image.
    pub fn has_nvme(&self) -> bool {
        self.disk_controllers.iter().any(|name| name.eq_ignore_ascii_case(Self::NVME))
    }

    /// Whether the image boots with an NVMe disk controller only.
    pub fn is_nvme_only(&self) -> bool {
        self.has_nvme() && self.disk_controllers.len() == 1
    }
}

/// Publisher, offer and SKU of an image definition, unique in its gallery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionIdentity {
    pub publisher: String,
    pub offer: String,
    pub sku: String,
}

/// The Hyper-V generation of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generation {
    /// BIOS.
    V1,
    /// UEFI.
    V2,
}

/// The processor architecture of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Architecture {
    #[default]
    X64,
    Arm64,
}

/// The security type of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityType {
    #[default]
    Standard,
    TrustedLaunch,
    Confidential,
    /// A value that kiln does not know.
    Other(String),
}

/// How the replicas of a version are stored in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    ZoneRedundant,
    Local,
    PremiumLocal,
}

impl Storage {
    /// The storage to retry with after a failure: local in a region without zones. The failed version keeps its name occupied, so it
    /// must be deleted first.
    pub fn fallback(self, failure: &Failure) -> Option<Self> {
        (self == Self::ZoneRedundant && failure.class == ErrorClass::StorageUnsupported).then_some(Self::Local)
    }
}

/// An image version to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    pub definition: DefinitionName,
    pub number: VersionNumber,
    /// The region of the definition.
    pub location: String,
    /// The resource id of the snapshot.
    pub source: String,
    /// The regions to replicate to, the definition's own first.
    pub regions: Vec<TargetRegion>,
    pub storage: Storage,
    /// Whether `latest` skips it.
    pub excluded: bool,
    /// By resource id.
    pub disk_encryption_set: Option<String>,
    pub tags: Tags,
}

/// A region that a version is replicated to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRegion {
    pub name: String,
    pub replicas: u32,
}

/// The state of an image version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageVersion {
    pub number: VersionNumber,
    pub id: String,
    pub state: VersionState,
    /// Whether `latest` skips it in every region.
    pub excluded: bool,
    pub regions: Vec<RegionProgress>,
    /// The storage kind, if it is the same in all regions.
    pub storage: Option<Storage>,
    pub tags: Tags,
    /// When it was created, as the cloud writes it.
    pub created: Option<String>,
}

/// The provisioning state of an image version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionState {
    Creating,
    Updating,
    Deleting,
    Succeeded,
    /// Unusable, and its name stays occupied until it is deleted.
    Failed,
    /// A value that kiln does not know.
    Other(String),
}

/// The replication of a version to one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionProgress {
    pub region: String,
    /// Whether `latest` skips it in this region.
    pub excluded: bool,
    /// Absent until the cloud reports it.
    pub percent: Option<u8>,
    pub complete: bool,
}

impl ImageVersion {
    /// Whether `latest` can resolve to it in a region.
    pub fn usable_in(&self, region: &str) -> bool {
        let complete = |r: &RegionProgress| same_region(&r.region, region) && r.complete && !r.excluded;
        self.state == VersionState::Succeeded && !self.excluded && self.regions.iter().any(complete)
    }
}

/// Compares regions, which are written `West US 2` as well as `westus2`.
pub fn same_region(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect::<String>();
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> ImageVersion {
        ImageVersion {
            number: "2026.11.15".parse().unwrap(),
            id: String::new(),
            state: VersionState::Succeeded,
            excluded: false,
            regions: vec![RegionProgress {
                region: "West US 2".into(),
                excluded: false,
                percent: Some(100),
                complete: true,
            }],
            storage: Some(Storage::Local),
            tags: Tags::new(),
            created: None,
        }
    }

    #[test]
    fn latest_needs_a_complete_replica_that_is_not_excluded() {
        assert!(version().usable_in("westus2"));
        assert!(!version().usable_in("eastus"));
        assert!(!ImageVersion { excluded: true, ..version() }.usable_in("westus2"));
        assert!(!ImageVersion { state: VersionState::Creating, ..version() }.usable_in("westus2"));
        let mut excluded_there = version();
        excluded_there.regions[0].excluded = true;
        assert!(!excluded_there.usable_in("westus2"));
    }

    #[test]
    fn only_zone_redundant_storage_has_a_fallback() {
        let unsupported =
            Failure { code: "InvalidParameter".into(), message: String::new(), class: ErrorClass::StorageUnsupported };
        assert_eq!(Storage::ZoneRedundant.fallback(&unsupported), Some(Storage::Local));
        assert_eq!(Storage::Local.fallback(&unsupported), None);
        assert_eq!(Storage::ZoneRedundant.fallback(&Failure { class: ErrorClass::Quota, ..unsupported }), None);
    }
}
