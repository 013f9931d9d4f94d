//! Request and response bodies of an image definition.

use kiln_types::{
    Architecture, DefinitionIdentity, DefinitionName, Generation, ImageDefinition, ImageFeatures, Plan, SecurityType,
    Tags,
};
use serde::{Deserialize, Serialize};

use super::disk::{architecture, generation};
use super::or_default;
use super::scale_set::security_type;

#[derive(Deserialize)]
pub(crate) struct Definition {
    location: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    hyper_v_generation: Option<String>,
    architecture: Option<String>,
    identifier: Identifier,
    purchase_plan: Option<PurchasePlan>,
    #[serde(default, deserialize_with = "or_default")]
    features: Vec<Feature>,
}

#[derive(Serialize, Deserialize)]
struct Identifier {
    publisher: String,
    offer: String,
    sku: String,
}

#[derive(Serialize, Deserialize)]
struct PurchasePlan {
    name: Option<String>,
    publisher: Option<String>,
    product: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Feature {
    name: String,
    value: String,
}

const SECURITY_FEATURE: &str = "SecurityType";
const CONTROLLER_FEATURE: &str = "DiskControllerTypes";
const NETWORK_FEATURE: &str = "IsAcceleratedNetworkSupported";

/// Azure's spelling of the values of a feature.
fn word(yes: bool) -> &'static str {
    if yes { "True" } else { "False" }
}

impl Definition {
    pub(crate) fn read(self, name: DefinitionName) -> ImageDefinition {
        let p = self.properties;
        let feature = |name: &str| {
            p.features.iter().find(|f| f.name.eq_ignore_ascii_case(name)).map(|feature| feature.value.as_str())
        };
        ImageDefinition {
            name,
            location: self.location,
            generation: generation(p.hyper_v_generation.as_deref()),
            architecture: architecture(p.architecture.as_deref()),
            security_type: security_type(feature(SECURITY_FEATURE)),
            features: ImageFeatures::new(
                feature(CONTROLLER_FEATURE),
                feature(NETWORK_FEATURE).map(|value| value.eq_ignore_ascii_case("true")),
            ),
            identity: DefinitionIdentity {
                publisher: p.identifier.publisher,
                offer: p.identifier.offer,
                sku: p.identifier.sku,
            },
            plan: p.purchase_plan.map(|plan| Plan {
                name: plan.name.unwrap_or_default(),
                publisher: plan.publisher.unwrap_or_default(),
                product: plan.product.unwrap_or_default(),
            }),
            tags: self.tags,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct DefinitionPut<'a> {
    location: &'a str,
    tags: &'a Tags,
    properties: PutProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProperties {
    os_type: &'static str,
    os_state: &'static str,
    hyper_v_generation: &'static str,
    architecture: &'static str,
    identifier: Identifier,
    #[serde(skip_serializing_if = "Option::is_none")]
    purchase_plan: Option<PurchasePlan>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<Feature>,
}

impl<'a> DefinitionPut<'a> {
    pub(crate) fn new(definition: &'a ImageDefinition) -> Self {
        // `TrustedLaunchSupported` would match more machines, but such a definition does not accept a snapshot as source.
        let security = match &definition.security_type {
            SecurityType::Standard => None,
            SecurityType::TrustedLaunch => Some("TrustedLaunch".to_owned()),
            SecurityType::Confidential => Some("ConfidentialVM".to_owned()),
            SecurityType::Other(word) => Some(word.clone()),
        };
        let ImageFeatures { disk_controllers, accelerated_networking } = &definition.features;
        let controllers = (!disk_controllers.is_empty()).then(|| disk_controllers.join(", "));
        let features = [
            (SECURITY_FEATURE, security),
            (CONTROLLER_FEATURE, controllers),
            (NETWORK_FEATURE, accelerated_networking.map(|yes| word(yes).to_owned())),
        ];
        Self {
            location: &definition.location,
            tags: &definition.tags,
            properties: PutProperties {
                os_type: "Linux",
                os_state: "Generalized",
                hyper_v_generation: match definition.generation {
                    Generation::V1 => "V1",
                    Generation::V2 => "V2",
                },
                architecture: match definition.architecture {
                    Architecture::X64 => "x64",
                    Architecture::Arm64 => "Arm64",
                },
                identifier: Identifier {
                    publisher: definition.identity.publisher.clone(),
                    offer: definition.identity.offer.clone(),
                    sku: definition.identity.sku.clone(),
                },
                purchase_plan: definition.plan.as_ref().map(|plan| PurchasePlan {
                    name: Some(plan.name.clone()),
                    publisher: Some(plan.publisher.clone()),
                    product: Some(plan.product.clone()),
                }),
                features: features
                    .into_iter()
                    .filter_map(|(name, value)| Some(Feature { name: name.to_owned(), value: value? }))
                    .collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn features_of_the_disk_are_written_and_read() {
        let shown = |features: serde_json::Value| -> ImageDefinition {
            let definition: Definition = serde_json::from_value(json!({
                "location": "westus2", "properties": {
                    "hyperVGeneration": "V2", "features": features,
                    "identifier": {"publisher": "p", "offer": "o", "sku": "s"},
                },
            }))
            .unwrap();
            definition.read(DefinitionName { gallery: "g".parse().unwrap(), definition: "d".into() })
        };
        let features = json!([
            {"name": "SecurityType", "value": "TrustedLaunch"}, {"name": "DiskControllerTypes", "value": "SCSI, NVMe"},
            {"name": "IsAcceleratedNetworkSupported", "value": "True"},
        ]);
        let read = shown(features.clone());
        assert_eq!(read.features, ImageFeatures::new(Some("SCSI,NVMe"), Some(true)));
        assert_eq!(serde_json::to_value(DefinitionPut::new(&read)).unwrap()["properties"]["features"], features);
        let bare = shown(json!(null));
        assert_eq!(bare.features, ImageFeatures::default());
        assert!(serde_json::to_value(DefinitionPut::new(&bare)).unwrap()["properties"].get("features").is_none());
    }
}
