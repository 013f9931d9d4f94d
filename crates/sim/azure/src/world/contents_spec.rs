//! Disk contents in the world file, for a whole pool or for single instances.

use std::collections::{BTreeMap, BTreeSet};

use kiln_types::{DiskUse, FileLine, JoinCredential, SecretPlace};
use serde::{Deserialize, Serialize};

/// Overrides of the default disk contents. Unset fields keep the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContentsSpec {
    /// Whether all of the pool's `updates` are installed and its `images` pulled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub patched: bool,
    /// `PRETTY_NAME` of `/etc/os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// Name and version of the container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Packages to add or to set to another version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Images that need not be pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_images: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// `/etc/fstab` as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fstab: Option<String>,
    /// The join credential. For a pool: the credential of its recipe, or of its image if it has no recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_credential: Option<JoinCredential>,
    /// Files that contain the machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal_host_names: Option<Vec<FileLine>>,
    /// Files that configure a static address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_addresses: Option<Vec<FileLine>>,
    /// Files that give the kubelet a fixed address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ips: Option<Vec<FileLine>>,
    /// Installed kernels in addition to the running one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_kernels: Option<Vec<String>>,
    /// The packages that requested a reboot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot_required: Option<Vec<String>>,
    /// The version of the installed first-boot unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_boot_unit: Option<String>,
    /// Secrets in addition to credential and custom data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<SecretPlace>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defects: Option<BTreeSet<Defect>>,
}

/// The updates that are available to a pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Updates {
    /// The newest kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The newest version of each outdated package.
    pub packages: BTreeMap<String, String>,
}

/// A defect of a disk. Clone defects do not affect the machine they are set on, and stay on its clones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Defect {
    /// After the next boot the kubelet registers, but its node never becomes Ready.
    NeverReady,
    /// The same, on clones.
    CloneNeverReady,
    /// No later boot finishes.
    NeverBoots,
    /// The same, on clones.
    CloneNeverBoots,
    /// A required `/etc/fstab` entry by UUID is not attached, so boots end in emergency mode. Every clone of a disk with such an entry has
    /// this defect.
    MountMissing,
}

impl Defect {
    /// Returns the defect that a clone has.
    pub(crate) fn for_clone(self) -> Self {
        match self {
            Self::NeverReady | Self::CloneNeverReady => Self::NeverReady,
            Self::NeverBoots | Self::CloneNeverBoots => Self::NeverBoots,
            Self::MountMissing => Self::MountMissing,
        }
    }
}
