//! Galleries as others see them: shared with a subscription or tenant, or with everyone as a community gallery.

use http::Method;
use serde_json::{Value, json};

use super::gallery;
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::resource::{ProvisioningState, Resource};

/// Reads below `sharedGalleries` and `communityGalleries` of a region. `path` is what follows: names and types in turn.
pub(crate) fn read(world: &World, call: &Call, location: &str, community: bool, path: &[String]) -> HandlerResult {
    if call.method != Method::GET {
        return Err(route::not_allowed(call));
    }
    let found = path.first().and_then(|name| find(world, community, name));
    let gallery = || found.ok_or_else(|| missing(path));
    let children = |parent: &Resource, kind| world.children(&parent.id, kind);
    let child = |parent: &Resource, kind, name: &str| {
        children(parent, kind)
            .into_iter()
            .find(|one| one.id.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| missing(path))
    };
    let one = |resource: &Resource| Ok(view(world, location, community, resource));
    let list = |resources: Vec<&Resource>| {
        route::page(world, call, &resources, |resource| {
            let mut item = view(world, location, community, resource);
            // A list of galleries has no properties.
            if let (ResourceKind::Gallery, Value::Object(fields)) = (resource.id.kind, &mut item) {
                fields.remove("properties");
            }
            Ok(item)
        })
    };
    let (definition, version) = (ResourceKind::Definition, ResourceKind::Version);
    match path {
        [] => list(galleries(world).filter(|one| is_shared(one, community)).collect()),
        [_] => one(gallery()?).map(Answer::ok),
        [_, _] => list(children(gallery()?, definition)),
        [_, _, name] => one(child(gallery()?, definition, name)?).map(Answer::ok),
        [_, _, name, _] => list(children(child(gallery()?, definition, name)?, version)),
        [_, _, name, _, number] => {
            let definition = child(gallery()?, definition, name)?;
            one(child(definition, version, number)?).map(Answer::ok)
        }
        _ => Err(missing(path)),
    }
}

/// The version that an id such as `/SharedGalleries/G/Images/D/Versions/1.0.0` names.
pub(super) fn version<'a>(world: &'a World, id: &str) -> Option<&'a Resource> {
    let parts: Vec<&str> = id.split('/').collect();
    let ["", kind, name, _, definition, _, version] = parts[..] else { return None };
    let gallery = find(world, kind.eq_ignore_ascii_case("CommunityGalleries"), name)?;
    let id = gallery.id.child(ResourceKind::Definition, definition).child(ResourceKind::Version, version);
    world.resources.get(&id.key()).filter(|version| version.state != ProvisioningState::Creating)
}

fn galleries(world: &World) -> impl Iterator<Item = &Resource> {
    world.resources.iter().map(|(_, resource)| resource).filter(|one| one.id.kind == ResourceKind::Gallery)
}

fn find<'a>(world: &'a World, community: bool, name: &str) -> Option<&'a Resource> {
    galleries(world)
        .filter(|gallery| is_shared(gallery, community))
        .find(|gallery| public_name(gallery, community).eq_ignore_ascii_case(name))
}

fn is_shared(gallery: &Resource, community: bool) -> bool {
    let profile = |path: &str| gallery.at(&format!("properties.sharingProfile.{path}"));
    if community {
        return profile("communityGalleryInfo.communityGalleryEnabled") == Some(&json!(true));
    }
    profile("groups").and_then(Value::as_array).is_some_and(|groups| !groups.is_empty())
}

fn public_name(gallery: &Resource, community: bool) -> String {
    if community { gallery::community_name(gallery) } else { gallery::unique_name(gallery) }
}

fn missing(path: &[String]) -> ArmError {
    ArmError::missing("NotFound", format!("The shared gallery resource '{}' was not found.", path.join("/")))
}

/// A gallery, definition or version without its owner.
fn view(world: &World, location: &str, community: bool, resource: &Resource) -> Value {
    let gallery_id = std::iter::successors(Some(resource.id.clone()), crate::arm::id::ResourceId::parent).last();
    let gallery = gallery_id.and_then(|id| world.resources.get(&id.key()));
    let gallery = gallery.map(|gallery| public_name(gallery, community)).unwrap_or_default();
    let kinds = [if community { "CommunityGalleries" } else { "SharedGalleries" }, "Images", "Versions"];
    let names = std::iter::once(gallery.as_str()).chain(resource.id.names[1..].iter().map(String::as_str));
    let unique = kinds.iter().zip(names).fold(String::new(), |path, (kind, name)| format!("{path}/{kind}/{name}"));
    let at = |path: &str| resource.at(&format!("properties.{path}")).cloned().unwrap_or_default();
    let mut properties = match resource.id.kind {
        ResourceKind::Definition => json!({
            "osType": at("osType"),
            "osState": at("osState"),
            "recommended": {},
            "hyperVGeneration": at("hyperVGeneration"),
            "architecture": at("architecture"),
            "identifier": at("identifier"),
        }),
        ResourceKind::Version => json!({
            "publishedDate": at("publishingProfile.publishedDate"),
            "excludeFromLatest": at("publishingProfile.excludeFromLatest"),
            "storageProfile": storage(resource),
        }),
        _ => json!({}),
    };
    if community {
        properties["disclaimer"] = json!("https://aka.ms/community-gallery-disclaimer");
    }
    let name = if resource.id.kind == ResourceKind::Gallery { gallery.as_str() } else { resource.id.name() };
    json!({"properties": properties, "location": location, "name": name, "identifier": {"uniqueId": unique}})
}

fn storage(version: &Resource) -> Value {
    let disk = |disk: &Value| {
        let mut shown = json!({"diskSizeGB": disk["sizeInGB"], "hostCaching": disk["hostCaching"]});
        if let Some(lun) = disk.get("lun") {
            shown["lun"] = lun.clone();
        }
        shown
    };
    let profile = version.at("properties.storageProfile").cloned().unwrap_or_default();
    let mut shown = json!({"osDiskImage": disk(&profile["osDiskImage"])});
    if let Some(disks) = profile["dataDiskImages"].as_array() {
        shown["dataDiskImages"] = disks.iter().map(disk).collect();
    }
    shown
}
