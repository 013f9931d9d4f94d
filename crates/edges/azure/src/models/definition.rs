//! Request and response bodies of an image definition.

use kiln_types::{
    Architecture, DefinitionIdentity, DefinitionName, Generation, ImageDefinition, Plan, SecurityType, Tags,
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

impl Definition {
    pub(crate) fn read(self, name: DefinitionName) -> ImageDefinition {
        let p = self.properties;
        let feature = p.features.iter().find(|f| f.name.eq_ignore_ascii_case(SECURITY_FEATURE));
        ImageDefinition {
            name,
            location: self.location,
            generation: generation(p.hyper_v_generation.as_deref()),
            architecture: architecture(p.architecture.as_deref()),
            security_type: security_type(feature.map(|f| f.value.as_str())),
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
                features: security
                    .map(|value| Feature { name: SECURITY_FEATURE.to_owned(), value })
                    .into_iter()
                    .collect(),
            },
        }
    }
}
