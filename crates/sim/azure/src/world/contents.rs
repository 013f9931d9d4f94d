//! What is on an OS disk, as far as anybody asks: software, credentials, identity. Copies of a disk carry it along.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_types::{
    Ancestor, CustomData, DiskUse, FirstBootUnit, FstabEntry, JoinCredential, Place, SecretPlace, parse_fstab,
};
use serde::{Deserialize, Serialize};

use super::contents_spec::{ContentsSpec, Defect};
use super::packages;
use super::pool::PoolSpec;

/// What is on an OS disk. No secret: custom data is told by size and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// The pool that the disk was first made for; empty outside the world file's pools.
    pub pool: String,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os_release: String,
    /// The kernel that it boots.
    pub kernel: String,
    /// Kubelet's version.
    pub kubelet_version: String,
    /// The container runtime's name and version.
    pub runtime_version: String,
    /// Installed packages by name.
    pub packages: BTreeMap<String, String>,
    /// Images that need not be pulled.
    pub cached_images: BTreeSet<String>,
    /// How full it is.
    pub disk: DiskUse,
    /// The mounts of `/etc/fstab`.
    pub fstab: Vec<FstabEntry>,
    /// How kubelet is to get in; none until a recipe or an image says it.
    pub join_credential: Option<JoinCredential>,
    /// Custom data that a first boot left.
    pub custom_data: CustomData,
    /// Where a machine's own name stands in files that a clone would share.
    pub literal_host_names: Vec<Place>,
    /// Where an address of a machine's own is configured.
    pub static_addresses: Vec<Place>,
    /// The identity items that are there, each with a value that tells whose it is.
    pub identity: BTreeMap<String, String>,
    /// The unit that lets a clone clean itself.
    pub first_boot_unit: Option<FirstBootUnit>,
    /// The image versions that the disk went through.
    pub ancestry: Vec<Ancestor>,
    /// Secrets that lie on it besides credential and custom data.
    pub secrets: Vec<SecretPlace>,
    /// What is wrong with it.
    pub defects: BTreeSet<Defect>,
    /// Grows with every boot: the one thing that a boot may change on a machine that is no clone.
    pub logs: u64,
    /// The machine whose disk it is: it booted from it, and nothing has made it anybody else's since. Empty before the first boot.
    pub owner: String,
    /// Kubelet has a certificate of its own and needs no credential to come back.
    pub joined: bool,
}

impl Default for Contents {
    /// An image as it was published with kamino's walkthrough: Ubuntu 18.04 of January 2021. Kubelet is of the version whose API the
    /// embedded server speaks.
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
    /// The host name on the disk: what kubelet registers under.
    pub fn host_name(&self) -> Option<&str> {
        self.identity.get("host-name").map(String::as_str)
    }

    /// An image of a pool before any machine booted from it.
    pub(crate) fn of_image(pool: Option<&PoolSpec>) -> Self {
        let mut contents = Self::default();
        let Some(pool) = pool else { return contents };
        contents.pool.clone_from(&pool.name);
        contents.overlay(&pool.contents, pool);
        if pool.has_recipe() {
            // The recipe brings it.
            contents.join_credential = None;
        } else {
            contents.join_credential.get_or_insert_with(default_credential);
        }
        contents
    }

    /// Changes what a part of the world file says, and nothing else.
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
        set(&mut self.secrets, with.secrets.as_ref());
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

    /// Installs what the distribution offers to this pool, and has the pool's images pulled.
    pub(crate) fn patch(&mut self, pool: &PoolSpec) {
        if let Some(kernel) = &pool.updates.kernel {
            self.kernel.clone_from(kernel);
        }
        self.packages.extend(pool.updates.packages.clone());
        self.cached_images.extend(pool.images.iter().cloned());
    }

    /// How many packages the distribution has newer for this pool.
    pub(crate) fn behind(&self, pool: &PoolSpec) -> u32 {
        let newer = |(name, version): &(&String, &String)| self.packages.get(*name) != Some(*version);
        u32::try_from(pool.updates.packages.iter().filter(newer).count()).unwrap_or(u32::MAX)
    }

    /// How many of the pool's images would have to be pulled.
    pub(crate) fn to_pull(&self, pool: &PoolSpec) -> u32 {
        let missing = pool.images.iter().filter(|image| !self.cached_images.contains(*image)).count();
        u32::try_from(missing).unwrap_or(u32::MAX)
    }
}

/// What AKS Engine's custom data writes.
pub(crate) fn default_credential() -> JoinCredential {
    JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".to_owned() }
}

/// The contents of a disk, snapshot or image version, with the custom data itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Disk {
    #[serde(with = "shared")]
    pub(crate) contents: Arc<Contents>,
    /// base64, as ARM got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) custom_data: Option<String>,
}

impl Disk {
    pub(crate) fn of_image(pool: Option<&PoolSpec>) -> Self {
        Self { contents: Arc::new(Contents::of_image(pool)), custom_data: None }
    }

    pub(crate) fn change(&mut self) -> &mut Contents {
        Arc::make_mut(&mut self.contents)
    }
}

/// Contents are shared in memory and written out one by one.
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
