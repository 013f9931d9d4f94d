//! What a world file says of disks: of all in a pool, and of single ones.

use std::collections::{BTreeMap, BTreeSet};

use kiln_types::{DiskUse, JoinCredential, Place, SecretPlace};
use serde::{Deserialize, Serialize};

/// Facts of a disk that differ from the default ones. What is not said stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContentsSpec {
    /// Everything that the pool's `updates` and `images` name is there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub patched: bool,
    /// `PRETTY_NAME` of `/etc/os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_release: Option<String>,
    /// The kernel that it boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Kubelet's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// The container runtime's name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Packages that are added or have another version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Images that need not be pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_images: Option<BTreeSet<String>>,
    /// How full it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// `/etc/fstab` as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fstab: Option<String>,
    /// How kubelet gets in. In a pool: what its recipe, or its image where there is no recipe, brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_credential: Option<JoinCredential>,
    /// Where a machine's own name stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal_host_names: Option<Vec<Place>>,
    /// Where an address of a machine's own is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_addresses: Option<Vec<Place>>,
    /// The version of the first-boot unit that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_boot_unit: Option<String>,
    /// Secrets besides credential and custom data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<SecretPlace>>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defects: Option<BTreeSet<Defect>>,
}

/// What the distribution and the pods of a pool ask for by now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Updates {
    /// The newest kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The newest version of each package that has one newer than the image's.
    pub packages: BTreeMap<String, String>,
}

/// A fault of a disk. Those of clones spare the machine that they were planted on, and stay with a clone for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Defect {
    /// From the next boot on kubelet registers and its node never becomes Ready.
    NeverReady,
    /// The same, on clones.
    CloneNeverReady,
    /// From the next boot on no boot ends.
    NeverBoots,
    /// The same, on clones.
    CloneNeverBoots,
    /// What `/etc/fstab` names by UUID and does not let fail is not attached: boots end in emergency mode. Every clone of a disk with
    /// such a line has it.
    MountMissing,
}

impl Defect {
    /// What it is on a clone.
    pub(crate) fn on_a_clone(self) -> Self {
        match self {
            Self::NeverReady | Self::CloneNeverReady => Self::NeverReady,
            Self::NeverBoots | Self::CloneNeverBoots => Self::NeverBoots,
            Self::MountMissing => Self::MountMissing,
        }
    }
}
