//! A disk, with the properties that decide which machines can boot it.

use kiln_types::{Architecture, Generation, ImageFeatures, OsDisk};
use serde::Deserialize;

use super::scale_set::security_type;

#[derive(Deserialize)]
pub(crate) struct Disk {
    id: String,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    hyper_v_generation: Option<String>,
    #[serde(rename = "diskSizeGB")]
    size: Option<u32>,
    supported_capabilities: Option<Capabilities>,
    security_profile: Option<Security>,
    encryption: Option<Encryption>,
    encryption_settings_collection: Option<EncryptionSettings>,
}

/// Server-side encryption. With a platform key there is no set.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Encryption {
    disk_encryption_set_id: Option<String>,
}

/// Azure Disk Encryption: an extension encrypts the file system with a key of this disk.
#[derive(Deserialize)]
struct EncryptionSettings {
    enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    architecture: Option<String>,
    disk_controller_types: Option<String>,
    accelerated_network: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Security {
    security_type: Option<String>,
}

impl Disk {
    pub(crate) fn read(self) -> OsDisk {
        let p = self.properties;
        let capabilities = p.supported_capabilities.unwrap_or_default();
        let security = p.security_profile.and_then(|s| s.security_type);
        OsDisk {
            id: self.id,
            generation: generation(p.hyper_v_generation.as_deref()),
            architecture: architecture(capabilities.architecture.as_deref()),
            // The security type of a confidential disk also names its encryption.
            security_type: match security.as_deref() {
                Some(word) if word.starts_with("ConfidentialVM") => kiln_types::SecurityType::Confidential,
                word => security_type(word),
            },
            features: ImageFeatures::new(
                capabilities.disk_controller_types.as_deref(),
                capabilities.accelerated_network,
            ),
            encryption_set: p.encryption.and_then(|encryption| encryption.disk_encryption_set_id),
            encrypted_by_extension: p.encryption_settings_collection.is_some_and(|one| one.enabled == Some(true)),
            size_gib: p.size,
        }
    }
}

/// Resources older than these two properties lack them; those are generation 1 and x64.
pub(crate) fn generation(word: Option<&str>) -> Generation {
    if word == Some("V2") { Generation::V2 } else { Generation::V1 }
}

pub(crate) fn architecture(word: Option<&str>) -> Architecture {
    if word == Some("Arm64") { Architecture::Arm64 } else { Architecture::X64 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_disk_encryption_are_read() {
        let read = |properties: serde_json::Value| {
            let disk: Disk = serde_json::from_value(json!({"id": "/d", "properties": properties})).unwrap();
            let disk = disk.read();
            (disk.encryption_set, disk.encrypted_by_extension)
        };
        let platform = json!({"encryption": {"type": "EncryptionAtRestWithPlatformKey"}, "encryptionSettingsCollection": {"enabled": false}});
        assert_eq!(read(platform), (None, false));
        let customer =
            json!({"encryption": {"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": "/set"}});
        assert_eq!(read(customer), (Some("/set".to_owned()), false));
        let extension = json!({"encryptionSettingsCollection": {"enabled": true, "encryptionSettings": [{}], "encryptionSettingsVersion": "1.1"}});
        assert_eq!(read(extension), (None, true));
    }

    #[test]
    fn disk_has_the_controllers_and_network_of_its_image() {
        let disk: Disk = serde_json::from_value(json!({"id": "/d", "properties": {"supportedCapabilities": {
            "diskControllerTypes": "SCSI, NVMe", "acceleratedNetwork": true, "architecture": "x64",
        }}}))
        .unwrap();
        assert_eq!(disk.read().features, ImageFeatures::new(Some("SCSI, NVMe"), Some(true)));
    }
}
