//! Changed leaves of a scale set. There is no type for the PUT of one that exists.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_cloud::{RecipeChange, Tags};
use serde::Serialize;

use super::image_reference::ImageReference;
use crate::arm::{BadResourceId, Scope};

#[derive(Serialize)]
pub(crate) struct TagPatch {
    tags: Tags,
}

impl TagPatch {
    /// All tags go along: whether a patch of tags merges them or replaces them depends on the provider.
    pub(crate) fn of(present: &Tags, changes: &Tags) -> Self {
        let mut tags = present.clone();
        tags.extend(changes.clone());
        Self { tags }
    }
}

#[derive(Serialize)]
pub(crate) struct CapacityPatch {
    sku: SkuPatch,
}

#[derive(Serialize)]
struct SkuPatch {
    capacity: u32,
}

impl CapacityPatch {
    pub(crate) fn to(capacity: u32) -> Self {
        Self { sku: SkuPatch { capacity } }
    }
}

#[derive(Serialize)]
pub(crate) struct RecipePatch {
    properties: PropertiesPatch,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PropertiesPatch {
    virtual_machine_profile: ProfilePatch,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfilePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_profile: Option<StoragePatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_profile: Option<OsPatch>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoragePatch {
    image_reference: ImageReference,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsPatch {
    custom_data: String,
}

impl RecipePatch {
    pub(crate) fn of(change: &RecipeChange, scope: &Scope) -> Result<Self, BadResourceId> {
        let image_reference = change.image.as_ref().map(|image| ImageReference::of(image, scope)).transpose()?;
        Ok(Self {
            properties: PropertiesPatch {
                virtual_machine_profile: ProfilePatch {
                    storage_profile: image_reference.map(|image_reference| StoragePatch { image_reference }),
                    os_profile: change
                        .custom_data
                        .as_ref()
                        .map(|data| OsPatch { custom_data: STANDARD.encode(data.expose()) }),
                },
            },
        })
    }
}

/// The instances that an action is for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceIds<'a> {
    pub(crate) instance_ids: Vec<&'a str>,
}

#[cfg(test)]
mod tests {
    use kiln_cloud::{ImageSource, SecretText};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_holds_the_changed_leaves_and_nothing_else() {
        let scope = Scope::new("s", "g").unwrap();
        let change = RecipeChange { image: None, custom_data: Some(SecretText::new("#cloud-config\n")) };
        let patch = serde_json::to_value(RecipePatch::of(&change, &scope).unwrap()).unwrap();
        assert_eq!(
            patch,
            json!({"properties": {"virtualMachineProfile": {"osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="}}}})
        );
        let change = RecipeChange { image: Some(ImageSource::Other("/subscriptions/s/x/y".into())), custom_data: None };
        let patch = serde_json::to_value(RecipePatch::of(&change, &scope).unwrap()).unwrap();
        let expected = json!({"storageProfile": {"imageReference": {"id": "/subscriptions/s/x/y"}}});
        assert_eq!(patch["properties"]["virtualMachineProfile"], expected);
    }
}
