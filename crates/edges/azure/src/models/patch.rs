//! PATCH bodies of a scale set. A type for the PUT of an existing one is missing on purpose.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{RecipeChange, SecretBytes, Tags};
use serde::{Deserialize, Serialize};

use super::image_reference::{ImagePatch, ImageReference};
use super::or_default;
use crate::arm::{BadResourceId, Scope};

#[derive(Serialize)]
pub(crate) struct TagPatch {
    tags: Tags,
}

impl TagPatch {
    /// Sends all tags, because it depends on the provider whether a PATCH merges or replaces them.
    pub(crate) fn new(present: &Tags, changes: &Tags) -> Self {
        let mut tags = present.clone();
        tags.extend(changes.clone());
        Self { tags }
    }
}

/// The tags in the response to a [`TagPatch`].
#[derive(Deserialize)]
pub(crate) struct Tagged {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
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

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfilePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_profile: Option<StoragePatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_profile: Option<OsPatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoragePatch {
    image_reference: ImagePatch,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsPatch {
    custom_data: String,
}

impl RecipePatch {
    pub(crate) fn new(change: &RecipeChange, scope: &Scope) -> Result<Self, BadResourceId> {
        let image_reference =
            change.image.as_ref().map(|image| ImageReference::from_source(image, scope)).transpose()?;
        Ok(Self {
            properties: PropertiesPatch {
                virtual_machine_profile: ProfilePatch {
                    storage_profile: image_reference.map(|image| StoragePatch { image_reference: image.into() }),
                    os_profile: change
                        .custom_data
                        .as_ref()
                        .map(|data| OsPatch { custom_data: STANDARD.encode(data.expose()) }),
                    user_data: None,
                },
            },
        })
    }

    /// Replaces the user data. An empty text removes it.
    pub(crate) fn user_data(user_data: &SecretBytes) -> Self {
        let user_data = Some(STANDARD.encode(user_data.expose()));
        let virtual_machine_profile = ProfilePatch { user_data, ..ProfilePatch::default() };
        Self { properties: PropertiesPatch { virtual_machine_profile } }
    }
}

/// The instances that an action applies to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceIds<'a> {
    pub(crate) instance_ids: Vec<&'a str>,
}

#[cfg(test)]
mod tests {
    use kiln_types::{ImageSource, MarketplaceImage, Secret};
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_contains_the_changed_fields_only() {
        let scope = Scope::new("s", "g").unwrap();
        let change = RecipeChange { image: None, custom_data: Some(Secret::new("#cloud-config\n")) };
        let patch = serde_json::to_value(RecipePatch::new(&change, &scope).unwrap()).unwrap();
        assert_eq!(
            patch,
            json!({"properties": {"virtualMachineProfile": {"osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="}}}})
        );
        let change = RecipeChange { image: Some(ImageSource::Other("/subscriptions/s/x/y".into())), custom_data: None };
        let patch = serde_json::to_value(RecipePatch::new(&change, &scope).unwrap()).unwrap();
        let profile = &patch["properties"]["virtualMachineProfile"];
        assert_eq!(profile["storageProfile"]["imageReference"]["id"], "/subscriptions/s/x/y");
        assert!(profile.get("osProfile").is_none());
        let patch = serde_json::to_value(RecipePatch::user_data(&SecretBytes::new("{}"))).unwrap();
        assert_eq!(patch, json!({"properties": {"virtualMachineProfile": {"userData": "e30="}}}));
    }

    #[test]
    fn image_patch_works_whether_azure_merges_or_replaces_the_reference() {
        let scope = Scope::new("s", "g").unwrap();
        let market = ImageSource::Marketplace(MarketplaceImage {
            publisher: "p".into(),
            offer: "o".into(),
            sku: "k".into(),
            version: "latest".into(),
        });
        let names = [
            (market, json!({"publisher": "p", "offer": "o", "sku": "k", "version": "latest"})),
            (ImageSource::Other("/subscriptions/s/x".into()), json!({"id": "/subscriptions/s/x"})),
            (
                ImageSource::Other("/CommunityGalleries/c/Images/i".into()),
                json!({"communityGalleryImageId": "/CommunityGalleries/c/Images/i"}),
            ),
        ];
        for (_, before) in &names {
            for (source, after) in &names {
                let change = RecipeChange { image: Some(source.clone()), custom_data: None };
                let patch = serde_json::to_value(RecipePatch::new(&change, &scope).unwrap()).unwrap();
                let reference = &patch["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"];
                for start in [before.clone(), json!({})] {
                    let mut merged = start;
                    kiln_types::json::merge_patch(&mut merged, reference);
                    assert_eq!(&merged, after, "over {before}");
                }
            }
        }
    }
}
