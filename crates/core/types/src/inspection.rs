//! A node as seen from the inside, read by `kilnd inspect` before a run holds anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::custom_data::{CustomData, sha256_hex};
use crate::fstab::FstabEntry;
use crate::join_credential::JoinCredential;
use crate::join_mode::RecipeRunner;

/// A node as seen from the inside. Contains no secrets, because it is stored in a `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// From `/etc/hostname`.
    pub host_name: String,
    /// From DMI.
    pub vm_id: String,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os_release: String,
    pub kernel: String,
    pub kubelet_version: String,
    /// `containerd://1.4.3`.
    pub runtime_version: String,
    /// Versions of the installed packages, by name.
    pub packages: BTreeMap<String, String>,
    /// The OS disk.
    pub disk: DiskUse,
    pub fstab: Vec<FstabEntry>,
    /// How the kubelet joined.
    pub join_credential: JoinCredential,
    /// The programs that would run the pool's recipe again on a clone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipe_runners: Vec<RecipeRunner>,
    /// Custom data that the first boot left on the disk.
    #[serde(default)]
    pub custom_data: CustomData,
    /// Lines with the host name, in files that a clone would share.
    #[serde(default)]
    pub literal_host_names: Vec<FileLine>,
    /// Lines that configure a static address.
    #[serde(default)]
    pub static_addresses: Vec<FileLine>,
    /// Names of the identity items that exist.
    #[serde(default)]
    pub identity: Vec<String>,
    /// The unit that resets a clone, if it is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_boot_unit: Option<FirstBootUnit>,
    #[serde(default)]
    pub cached_images: Vec<String>,
    /// The image versions that this disk descends from, oldest first.
    #[serde(default)]
    pub ancestry: Vec<Ancestor>,
    /// Secrets on the disk, by path and kind.
    #[serde(default)]
    pub secrets: Vec<SecretPlace>,
}

/// Size and use of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskUse {
    pub size_bytes: u64,
    pub used_bytes: u64,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileLine {
    pub path: String,
    /// `***` if it may contain a secret.
    pub line: String,
}

/// The first-boot unit of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstBootUnit {
    /// The machine on which it ran last or was installed. Another id at boot means a clone.
    pub recorded_vm_id: String,
    pub version: String,
}

/// An image version that a disk descends from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ancestor {
    pub image_version: String,
    /// The run that created the version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The location of a secret, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretPlace {
    pub path: String,
    /// `client key`, `custom data`, `bootstrap token`, …
    pub kind: String,
}

impl Inspection {
    /// SHA-256 of the package list in hexadecimal digits, equal for nodes with the same packages in the same versions.
    pub fn package_hash(&self) -> String {
        let lines: Vec<String> = self.packages.iter().map(|(name, version)| format!("{name}={version}\n")).collect();
        sha256_hex(lines.concat().as_bytes())
    }
}

impl DiskUse {
    /// The free space.
    pub fn free_bytes(self) -> u64 {
        self.size_bytes.saturating_sub(self.used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SecretBytes;

    fn inspection() -> Inspection {
        Inspection {
            host_name: "node000003".to_owned(),
            vm_id: "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02".to_owned(),
            os_release: "Ubuntu 18.04.5 LTS".to_owned(),
            kernel: "5.4.0-1036-azure".to_owned(),
            kubelet_version: "v1.19.6".to_owned(),
            runtime_version: "containerd://1.4.3".to_owned(),
            packages: BTreeMap::from([("curl".to_owned(), "7.58".to_owned()), ("bash".to_owned(), "4.4".to_owned())]),
            disk: DiskUse { size_bytes: 30, used_bytes: 31 },
            fstab: crate::fstab::parse("UUID=1 / ext4 defaults 0 1"),
            join_credential: JoinCredential::StaticClientCertificate { path: "/client.crt".to_owned() },
            recipe_runners: vec![RecipeRunner::CloudInit],
            custom_data: CustomData::found(SecretBytes::new("hunter2")),
            literal_host_names: vec![FileLine { path: "/etc/x".to_owned(), line: "node000003".to_owned() }],
            static_addresses: Vec::new(),
            identity: vec!["machine-id".to_owned()],
            first_boot_unit: Some(FirstBootUnit { recorded_vm_id: "v".to_owned(), version: "1".to_owned() }),
            cached_images: vec!["pause:3.2".to_owned()],
            ancestry: vec![Ancestor { image_version: "2026.11.15".to_owned(), run: None }],
            secrets: vec![SecretPlace { path: "/client.key".to_owned(), kind: "client key".to_owned() }],
        }
    }

    #[test]
    fn inspection_round_trips_through_json_without_custom_data_bytes() {
        let json = serde_json::to_string(&inspection()).expect("json");
        assert!(!json.contains("hunter2"), "{json}");
        assert!(json.contains("\"recordedVmId\":\"v\""), "{json}");
        let back: Inspection = serde_json::from_str(&json).expect("read back");
        assert_eq!(back.custom_data.sha256(), inspection().custom_data.sha256());
        assert_eq!(Inspection { custom_data: inspection().custom_data, ..back }, inspection());
    }

    #[test]
    fn package_hash_depends_on_names_and_versions_only() {
        let base = inspection();
        let mut other = Inspection { kernel: "6.8".to_owned(), ..base.clone() };
        assert_eq!(base.package_hash(), other.package_hash());
        other.packages.insert("curl".to_owned(), "7.59".to_owned());
        assert_ne!(base.package_hash(), other.package_hash());
        let mut fewer = base.clone();
        fewer.packages.remove("bash");
        assert_ne!(base.package_hash(), fewer.package_hash());
        // printf 'bash=4.4\ncurl=7.58\n' | sha256sum
        assert_eq!(base.package_hash(), "16a181a3c55f6b751b122c43ba4c340b0b95a3300250c771e0a36a22c6096873");
    }

    #[test]
    fn free_space_is_never_negative() {
        assert_eq!(inspection().disk.free_bytes(), 0);
    }
}
