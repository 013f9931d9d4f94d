//! Galleries, image lines and their versions.

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;
use crate::name::GalleryName;
use crate::operation::Failure;
use crate::pool::{Plan, Tags};
use crate::version::VersionNumber;

/// Where image lines live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gallery {
    pub name: GalleryName,
    pub location: String,
    /// What it is for.
    pub description: String,
}

/// A line's place: its gallery and its own name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DefinitionName {
    pub gallery: GalleryName,
    /// The image definition in it.
    pub definition: String,
}

/// A line of images, of which each version is a step. Generation, architecture and security type cannot change later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDefinition {
    pub name: DefinitionName,
    pub location: String,
    /// The firmware that boots its images.
    pub generation: Generation,
    /// The processor that runs them.
    pub architecture: Architecture,
    /// What the firmware vouches for.
    pub security_type: SecurityType,
    /// The names that it is found by.
    pub identity: DefinitionIdentity,
    /// The purchase plan that its images need.
    pub plan: Option<Plan>,
    pub tags: Tags,
}

/// The names that a line is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionIdentity {
    /// Who publishes it.
    pub publisher: String,
    pub offer: String,
    pub sku: String,
}

/// The firmware of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generation {
    /// BIOS.
    V1,
    /// UEFI.
    V2,
}

/// The processor of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Architecture {
    /// 64-bit x86.
    #[default]
    X64,
    /// 64-bit ARM.
    Arm64,
}

/// What the firmware of a machine vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityType {
    /// Nothing.
    #[default]
    Standard,
    /// A measured boot.
    TrustedLaunch,
    /// Encrypted memory.
    Confidential,
    /// A word that this program does not know.
    Other(String),
}

/// How copies of a version are kept in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// In each zone.
    ZoneRedundant,
    /// In one place.
    Local,
    /// In one place, on fast disks.
    PremiumLocal,
}

impl Storage {
    /// What to publish with after a failure: a region without zones takes local copies. The failed version stays and blocks its name, so
    /// it is deleted first.
    pub fn after(self, failure: &Failure) -> Option<Self> {
        (self == Self::ZoneRedundant && failure.class == ErrorClass::StorageUnsupported).then_some(Self::Local)
    }
}

/// A version to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    pub line: DefinitionName,
    pub number: VersionNumber,
    /// The region of the line.
    pub location: String,
    /// The resource id of the snapshot that it is made of.
    pub source: String,
    /// The regions that get copies; the line's own is among them.
    pub regions: Vec<String>,
    /// Copies per region.
    pub replicas: u32,
    /// How they are kept.
    pub storage: Storage,
    /// Whether it is kept out of what `latest` means. Stays a choice here because a line without a reader may publish at once.
    pub excluded: bool,
    /// Keys for the copies, by resource id.
    pub disk_encryption_set: Option<String>,
    pub tags: Tags,
}

/// A version as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageVersion {
    pub number: VersionNumber,
    pub id: String,
    /// How far its making is.
    pub state: VersionState,
    /// Whether it is kept out of what `latest` means, everywhere.
    pub excluded: bool,
    /// How far each region is.
    pub regions: Vec<RegionProgress>,
    /// How copies are kept, where one word is true of all regions.
    pub storage: Option<Storage>,
    pub tags: Tags,
    /// When it was published, as the cloud writes it.
    pub created: Option<String>,
}

/// How far the making of a version is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionState {
    /// Copies are being made.
    Creating,
    /// A property is being written.
    Updating,
    /// It is going.
    Deleting,
    /// It can be used.
    Succeeded,
    /// It cannot be used and blocks its name.
    Failed,
    /// A word that this program does not know.
    Other(String),
}

/// How far a version is in one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionProgress {
    pub region: String,
    /// Whether it is kept out of what `latest` means there.
    pub excluded: bool,
    /// How much is copied; none before the cloud says so.
    pub percent: Option<u8>,
    /// Whether all of it is there.
    pub complete: bool,
}

impl ImageVersion {
    /// Whether `latest` can resolve to it in a region.
    pub fn usable_in(&self, region: &str) -> bool {
        let there = |r: &RegionProgress| same_region(&r.region, region) && r.complete && !r.excluded;
        self.state == VersionState::Succeeded && !self.excluded && self.regions.iter().any(there)
    }
}

/// Regions are written `West US 2` as well as `westus2`.
fn same_region(a: &str, b: &str) -> bool {
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
    fn latest_needs_a_finished_version_that_is_there_and_not_excluded() {
        assert!(version().usable_in("westus2"));
        assert!(!version().usable_in("eastus"));
        assert!(!ImageVersion { excluded: true, ..version() }.usable_in("westus2"));
        assert!(!ImageVersion { state: VersionState::Creating, ..version() }.usable_in("westus2"));
        let mut excluded_there = version();
        excluded_there.regions[0].excluded = true;
        assert!(!excluded_there.usable_in("westus2"));
    }

    #[test]
    fn only_zone_redundant_storage_has_something_to_fall_back_to() {
        let unsupported =
            Failure { code: "InvalidParameter".into(), message: String::new(), class: ErrorClass::StorageUnsupported };
        assert_eq!(Storage::ZoneRedundant.after(&unsupported), Some(Storage::Local));
        assert_eq!(Storage::Local.after(&unsupported), None);
        assert_eq!(Storage::ZoneRedundant.after(&Failure { class: ErrorClass::Quota, ..unsupported }), None);
    }
}
