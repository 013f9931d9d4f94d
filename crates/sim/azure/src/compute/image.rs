//! Resolution of image references.

use serde_json::Value;

use super::grammar::version_number;
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::world::World;
use crate::world::resource::{ProvisioningState, Resource};

/// The version that `latest` resolves to for marketplace images. No newer ones are published here.
const MARKETPLACE_LATEST: &str = "18.04.202101120";

/// Resolves a reference now: an id to an exact version, or a marketplace URN.
pub(super) fn resolve(world: &World, reference: Option<&Value>, location: &str) -> Result<String, ArmError> {
    let reference = reference.ok_or_else(|| ArmError::required("imageReference"))?;
    let text = |name: &str| reference.get(name).and_then(Value::as_str);
    if let Some(id) = text("communityGalleryImageId") {
        return super::community::resolve(world, id, location);
    }
    if let Some(id) = text("sharedGalleryImageId") {
        let version = super::shared::version(world, id).filter(|version| replicated(version, location));
        let missing = || ArmError::missing("GalleryImageNotFound", format!("The shared image '{id}' was not found."));
        return version.map(|version| version.id.to_string()).ok_or_else(missing);
    }
    let Some(id) = text("id") else {
        let part = |name| text(name).ok_or_else(|| ArmError::required(&format!("imageReference.{name}")));
        let version = match part("version")? {
            "latest" => MARKETPLACE_LATEST,
            version => version,
        };
        return Ok(format!("{}:{}:{}:{version}", part("publisher")?, part("offer")?, part("sku")?));
    };
    if text("publisher").is_some() || text("offer").is_some() || text("sku").is_some() {
        let message =
            "The property 'imageReference.id' cannot be specified together with publisher, offer, sku or version.";
        return Err(ArmError::parameter("imageReference", message));
    }
    let parsed = ResourceId::parse(id)
        .ok_or_else(|| ArmError::parameter("imageReference.id", format!("'{id}' is not the id of an image.")))?;
    match parsed.kind {
        ResourceKind::Version => exact(world, &parsed, location),
        ResourceKind::Definition => latest(world, &parsed, location),
        ResourceKind::Image => managed(world, &parsed),
        _ => Err(ArmError::parameter("imageReference.id", format!("'{id}' is not the id of an image."))),
    }
}

fn exact(world: &World, id: &ResourceId, location: &str) -> Result<String, ArmError> {
    let version = world.resources.get(&id.key()).ok_or_else(|| missing(id, location))?;
    // An exact version can be used even if it is excluded from `latest`. Canaries depend on that.
    if version.state == ProvisioningState::Creating
        || version.state == ProvisioningState::Failed
        || !replicated(version, location)
    {
        return Err(missing(id, location));
    }
    Ok(version.id.to_string())
}

fn managed(world: &World, id: &ResourceId) -> Result<String, ArmError> {
    let image = world.resources.get(&id.key()).filter(|image| image.state == ProvisioningState::Succeeded);
    image.map(|image| image.id.to_string()).ok_or_else(|| {
        ArmError::missing("NotFound", format!("The image '{id}' cannot be found.")).about("imageReference")
    })
}

/// The highest version that is ready, replicated in the region and not excluded.
fn latest(world: &World, id: &ResourceId, location: &str) -> Result<String, ArmError> {
    world.resources.get(&id.key()).ok_or_else(|| missing(id, location))?;
    let usable = |version: &&Resource| {
        matches!(version.state, ProvisioningState::Succeeded | ProvisioningState::Updating)
            && replicated(version, location)
            && !excluded(version, location)
    };
    let versions = world.children(id, ResourceKind::Version);
    let best =
        versions.into_iter().filter(usable).max_by_key(|version| version_number(version.id.name()).unwrap_or_default());
    best.map(|version| version.id.to_string()).ok_or_else(|| {
        let message = format!("The gallery image '{id}' has no version that is available in region '{location}' and not excluded from latest.");
        ArmError::missing("GalleryImageNotFound", message).about("imageReference")
    })
}

fn missing(id: &ResourceId, location: &str) -> ArmError {
    let message = format!(
        "The gallery image '{id}' is not available in '{location}' region. Please contact image owner to replicate to this region, or change your requested region."
    );
    ArmError::missing("GalleryImageNotFound", message).about("imageReference")
}

/// The entry of the region among a version's target regions.
pub(super) fn target_region<'a>(version: &'a Resource, location: &str) -> Option<&'a Value> {
    let regions = version.at("properties.publishingProfile.targetRegions")?.as_array()?;
    regions
        .iter()
        .find(|region| region.get("name").and_then(Value::as_str).is_some_and(|name| same_region(name, location)))
}

/// The display name of a region, such as `West US 2`. An unknown word makes it the name itself.
pub(super) fn display_name(region: &str) -> String {
    const WORDS: [&str; 24] = [
        "southeast",
        "northeast",
        "southwest",
        "northwest",
        "south",
        "north",
        "east",
        "west",
        "central",
        "us",
        "euap",
        "europe",
        "asia",
        "uk",
        "france",
        "germany",
        "sweden",
        "poland",
        "italy",
        "canada",
        "brazil",
        "australia",
        "japan",
        "india",
    ];
    let plain = region.replace(' ', "").to_ascii_lowercase();
    let (mut words, mut rest) = (Vec::new(), plain.as_str());
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = if digits > 0 {
            digits
        } else {
            let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) else { return region.to_owned() };
            word.len()
        };
        let (word, after) = rest.split_at(length);
        let capitals = if matches!(word, "us" | "uk" | "euap") { word.len() } else { 1 };
        words.push(format!("{}{}", word[..capitals].to_ascii_uppercase(), &word[capitals..]));
        rest = after;
    }
    words.join(" ")
}

/// Azure accepts `West US 2` for `westus2`.
pub(super) fn same_region(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.replace(' ', "").to_ascii_lowercase();
    plain(a) == plain(b)
}

fn replicated(version: &Resource, location: &str) -> bool {
    target_region(version, location).is_some()
}

fn excluded(version: &Resource, location: &str) -> bool {
    let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
    flag(version.at("properties.publishingProfile.excludeFromLatest"))
        || flag(target_region(version, location).and_then(|region| region.get("excludeFromLatest")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_of_regions_have_words() {
        for (name, shown) in [
            ("westus2", "West US 2"),
            ("centraluseuap", "Central US EUAP"),
            ("northeurope", "North Europe"),
            ("southcentralus", "South Central US"),
            ("Southeast Asia", "Southeast Asia"),
            ("mars", "mars"),
        ] {
            assert_eq!(display_name(name), shown);
            assert!(same_region(&display_name(name), name));
        }
    }
}
