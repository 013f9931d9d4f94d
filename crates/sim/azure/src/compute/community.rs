//! Published images: community galleries, and AKS's list of node images.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::grammar::version_number;
use crate::arm::call::{Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::route;
use crate::world::World;

/// A community image. It is available in every region.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommunityImage {
    /// The public name of the gallery.
    pub gallery: String,
    pub definition: String,
    pub versions: Vec<CommunityVersion>,
}

/// A version of a community image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommunityVersion {
    pub version: String,
    pub published: jiff::Timestamp,
    /// Whether `latest` skips this version.
    #[serde(default)]
    pub exclude_from_latest: bool,
}

impl World {
    fn community(&self, gallery: &str, definition: &str) -> Option<&CommunityImage> {
        self.spec.community_images.iter().find(|image| {
            image.gallery.eq_ignore_ascii_case(gallery) && image.definition.eq_ignore_ascii_case(definition)
        })
    }
}

/// Lists the versions of a community image in a region.
pub(crate) fn list(world: &World, call: &Call, location: &str, gallery: &str, definition: &str) -> HandlerResult {
    let image = world.community(gallery, definition).ok_or_else(|| missing(gallery, definition, location))?;
    route::page(world, call, &image.versions, |version| {
        let id = format!("/CommunityGalleries/{gallery}/Images/{definition}/Versions/{}", version.version);
        Ok(json!({
            "name": version.version,
            "location": location,
            "type": "Microsoft.Compute/Locations/CommunityGalleries/Images/Versions",
            "identifier": {"uniqueId": id},
            "properties": {
                "publishedDate": version.published.to_string(),
                "excludeFromLatest": version.exclude_from_latest,
                "storageProfile": {"osDiskImage": {"diskSizeGB": 30, "hostCaching": "ReadWrite"}},
            },
        }))
    })
}

/// Lists AKS node images: the newest version of each, by OS and SKU.
pub(crate) fn node_images(world: &World, call: &Call) -> HandlerResult {
    let newest: Vec<Value> = world
        .spec
        .community_images
        .iter()
        .filter_map(|image| {
            let (os, _) = image.gallery.split_once('-').unwrap_or((&image.gallery, ""));
            let version =
                &image.versions.iter().max_by_key(|one| version_number(&one.version).unwrap_or_default())?.version;
            let full = format!("{os}-{}-{version}", image.definition);
            Some(json!({"os": os, "sku": image.definition, "version": version, "fullName": full}))
        })
        .collect();
    route::page(world, call, &newest, |one| Ok(one.clone()))
}

/// Resolves a reference to a community image to an exact version.
pub(super) fn resolve(world: &World, id: &str, location: &str) -> Result<String, ArmError> {
    let parts: Vec<&str> = id.trim_matches('/').split('/').collect();
    let (gallery, definition, version) = match parts.as_slice() {
        [_, gallery, _, definition] => (*gallery, *definition, "latest"),
        [_, gallery, _, definition, _, version] => (*gallery, *definition, *version),
        _ => {
            let message = format!("'{id}' is not the id of an image.");
            return Err(ArmError::parameter("imageReference.communityGalleryImageId", message));
        }
    };
    let image = world.community(gallery, definition).ok_or_else(|| missing(gallery, definition, location))?;
    let found = if version.eq_ignore_ascii_case("latest") {
        let open = image.versions.iter().filter(|one| !one.exclude_from_latest);
        open.max_by_key(|one| version_number(&one.version).unwrap_or_default())
    } else {
        image.versions.iter().find(|one| one.version == version)
    };
    let found = found.ok_or_else(|| missing(gallery, definition, location))?;
    Ok(format!("/CommunityGalleries/{}/Images/{}/Versions/{}", image.gallery, image.definition, found.version))
}

fn missing(gallery: &str, definition: &str, location: &str) -> ArmError {
    let message = format!(
        "The gallery image '/CommunityGalleries/{gallery}/Images/{definition}' is not available in '{location}' region. Please contact image owner to replicate to this region, or change your requested region."
    );
    ArmError::missing("GalleryImageNotFound", message).about("imageReference")
}
