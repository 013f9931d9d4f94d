//! The contents of an OS disk that matter to clients: software, credentials, identity. Copies of a disk have the same contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_types::{
    Ancestor, CustomData, DiskUse, FileLine, FirstBootUnit, FstabEntry, JoinCredential, SecretPlace, parse_fstab,
};
use serde::{Deserialize, Serialize};

use super::contents_spec::{ContentsSpec, Defect};
use super::packages;
use super::pool::PoolSpec;

/// The contents of an OS disk. They contain no secrets: custom data is represented by size and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// The pool that the disk was first created for. Empty outside the pools of the world file.
    pub pool: String,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os_release: String,
    pub kernel: String,
    pub kubelet_version: String,
    /// Name and version of the container runtime.
    pub runtime_version: String,
    /// Installed packages by name.
    pub packages: BTreeMap<String, String>,
    /// Images that need not be pulled.
    pub cached_images: BTreeSet<String>,
    pub disk: DiskUse,
    /// The mounts of `/etc/fstab`.
    pub fstab: Vec<FstabEntry>,
    /// The join credential of the kubelet. None until a recipe or an image provides one.
    pub join_credential: Option<JoinCredential>,
    /// Custom data that a first boot left behind.
    pub custom_data: CustomData,
    /// Files that contain the machine's name and that a clone would share.
    pub literal_host_names: Vec<FileLine>,
    /// Files that configure a static address.
    pub static_addresses: Vec<FileLine>,
    /// Files that give the kubelet a fixed address.
    #[serde(default)]
    pub node_ips: Vec<FileLine>,
    /// Installed kernels that no boot has used yet.
    #[serde(default)]
    pub installed_kernels: Vec<String>,
    /// The packages that requested a reboot.
    #[serde(default)]
    pub reboot_required: Option<Vec<String>>,
    /// The identity items on the disk, each with a value that identifies its machine.
    pub identity: BTreeMap<String, String>,
    /// The version of the first-boot unit, which resets the identity of a clone.
    pub first_boot_unit: Option<FirstBootUnit>,
    /// The image versions that the disk descends from.
    pub ancestry: Vec<Ancestor>,
    /// Secrets in addition to credential and custom data.
    pub secrets: Vec<SecretPlace>,
    pub defects: BTreeSet<Defect>,
    /// The number of boots. On a machine that is not a clone, a boot changes nothing else.
    pub logs: u64,
    /// The VM that last booted from the disk and whose identity it has. Empty before the first boot.
    pub owner: String,
    /// Whether the kubelet has its own certificate and needs no join credential.
    pub joined: bool,
}

impl Default for Contents {
    /// The image of kamino's walkthrough: Ubuntu 18.04 of January 2021. The kubelet has the version of the embedded API server.
    fn default() -> Self {
        Self {
            pool: String::new(),
            os_release: "Ubuntu 18.04.5 LTS".to_owned(),
            kernel: packages::OLD_KERNEL.to_owned(),
            kubelet_version: "v1.33.0".to_owned(),
            runtime_version: "containerd://1.7.27".to_owned(),
            packages: packages::installed(),
            cached_images: BTreeSet::new(),
            disk: DiskUse { size_bytes: 30 << 30, used_bytes: 9 << 30 },
            fstab: parse_fstab(
                "UUID=3c8f2b0a-6f0e-4a52-9c1e-5d7f0b1a2c3d / ext4 defaults,discard 0 1\n\
                 LABEL=UEFI /boot/efi vfat umask=0077 0 1\n\
                 /dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,x-systemd.requires=cloud-init.service 0 2\n",
            ),
            join_credential: None,
            custom_data: CustomData::absent(),
            literal_host_names: Vec::new(),
            static_addresses: Vec::new(),
            node_ips: Vec::new(),
            installed_kernels: Vec::new(),
            reboot_required: None,
            identity: BTreeMap::new(),
            first_boot_unit: None,
            ancestry: Vec::new(),
            secrets: Vec::new(),
            defects: BTreeSet::new(),
            logs: 0,
            owner: String::new(),
            joined: false,
        }
    }
}

impl Contents {
    /// The host name on the disk, which the kubelet registers with.
    pub fn host_name(&self) -> Option<&str> {
        self.identity.get("host-name").map(String::as_str)
    }

    /// An image of a pool before the first boot.
    pub(crate) fn from_image(pool: Option<&PoolSpec>) -> Self {
        let mut contents = Self::default();
        let Some(pool) = pool else { return contents };
        contents.pool.clone_from(&pool.name);
        contents.overlay(&pool.contents, pool);
        if pool.has_recipe() {
            // The recipe provides it.
            contents.join_credential = None;
        } else {
            contents.join_credential.get_or_insert_with(default_credential);
        }
        contents
    }

    /// Applies the fields that a part of the world file sets.
    pub(crate) fn overlay(&mut self, with: &ContentsSpec, pool: &PoolSpec) {
        fn set<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        if with.patched {
            self.patch(pool);
        }
        set(&mut self.os_release, with.os_release.as_ref());
        set(&mut self.kernel, with.kernel.as_ref());
        set(&mut self.kubelet_version, with.kubelet_version.as_ref());
        set(&mut self.runtime_version, with.runtime_version.as_ref());
        set(&mut self.cached_images, with.cached_images.as_ref());
        set(&mut self.disk, with.disk.as_ref());
        set(&mut self.literal_host_names, with.literal_host_names.as_ref());
        set(&mut self.static_addresses, with.static_addresses.as_ref());
        set(&mut self.node_ips, with.node_ips.as_ref());
        set(&mut self.installed_kernels, with.installed_kernels.as_ref());
        set(&mut self.secrets, with.secrets.as_ref());
        if with.reboot_required.is_some() {
            self.reboot_required.clone_from(&with.reboot_required);
        }
        set(&mut self.defects, with.defects.as_ref());
        self.packages.extend(with.packages.clone());
        if let Some(fstab) = &with.fstab {
            self.fstab = parse_fstab(fstab);
        }
        if let Some(credential) = &with.join_credential {
            self.join_credential = Some(credential.clone());
        }
        if let Some(version) = &with.first_boot_unit {
            self.first_boot_unit = Some(FirstBootUnit { recorded_vm_id: self.owner.clone(), version: version.clone() });
        }
    }

    /// Installs all updates that are available to this pool, and pulls the pool's images.
    pub(crate) fn patch(&mut self, pool: &PoolSpec) {
        if let Some(kernel) = &pool.updates.kernel {
            self.kernel.clone_from(kernel);
        }
        self.packages.extend(pool.updates.packages.clone());
        self.cached_images.extend(pool.images.iter().cloned());
    }

    /// The number of outdated packages.
    pub(crate) fn outdated_packages(&self, pool: &PoolSpec) -> u32 {
        let newer = |(name, version): &(&String, &String)| self.packages.get(*name) != Some(*version);
        u32::try_from(pool.updates.packages.iter().filter(newer).count()).unwrap_or(u32::MAX)
    }

    /// The number of the pool's images that are missing.
    pub(crate) fn missing_images(&self, pool: &PoolSpec) -> u32 {
        let missing = pool.images.iter().filter(|image| !self.cached_images.contains(*image)).count();
        u32::try_from(missing).unwrap_or(u32::MAX)
    }
}

/// The credential that the custom data of AKS Engine writes.
pub(crate) fn default_credential() -> JoinCredential {
    JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".to_owned() }
}

/// The contents of a disk, snapshot or image version, with the custom data itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Disk {
    #[serde(with = "shared")]
    pub(crate) contents: Arc<Contents>,
    /// In base64, as sent to ARM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) custom_data: Option<String>,
}

impl Disk {
    pub(crate) fn from_image(pool: Option<&PoolSpec>) -> Self {
        Self { contents: Arc::new(Contents::from_image(pool)), custom_data: None }
    }

    pub(crate) fn change(&mut self) -> &mut Contents {
        Arc::make_mut(&mut self.contents)
    }
}

/// Serialization of shared contents. Copies share them in memory, and each is written out in full.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Contents;

    pub(super) fn serialize<S: Serializer>(contents: &Arc<Contents>, serializer: S) -> Result<S::Ok, S::Error> {
        Contents::serialize(contents, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Contents>, D::Error> {
        Contents::deserialize(deserializer).map(Arc::new)
    }
}
