//! A disk, with the properties that decide which machines can boot it.

use kiln_types::{Architecture, Generation, OsDisk};
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
}

#[derive(Deserialize)]
struct Capabilities {
    architecture: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Security {
    security_type: Option<String>,
}

impl Disk {
    pub(crate) fn read(self) -> OsDisk {
        let p = self.properties;
        let architecture = p.supported_capabilities.and_then(|c| c.architecture);
        let security = p.security_profile.and_then(|s| s.security_type);
        OsDisk {
            id: self.id,
            generation: generation(p.hyper_v_generation.as_deref()),
            architecture: self::architecture(architecture.as_deref()),
            // The security type of a confidential disk also names its encryption.
            security_type: match security.as_deref() {
                Some(word) if word.starts_with("ConfidentialVM") => kiln_types::SecurityType::Confidential,
                word => security_type(word),
            },
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
