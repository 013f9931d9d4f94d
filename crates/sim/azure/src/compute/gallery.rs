//! Galleries.

use http::Method;
use serde_json::{Map, Value, json};

use super::grammar;
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::NewOperation;
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls};

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    if call.method == Method::PUT {
        grammar::gallery_name(id.name())?;
        if world.resources.get(&id.key()).is_none() {
            call.text("location")?;
            unique_in_subscription(world, id)?;
        }
    }
    let lasts = world.spec.profile.gallery;
    write_nested(world, call, id, ResourceKind::Definition, lasts)
}

/// Checks that the name is unique in the subscription; the resource group does not matter.
fn unique_in_subscription(world: &World, id: &ResourceId) -> Result<(), ArmError> {
    let prefix = format!("/subscriptions/{}/", id.subscription).to_ascii_lowercase();
    let taken = world
        .resources
        .below(&prefix)
        .find(|(_, other)| other.id.kind == ResourceKind::Gallery && other.id.name().eq_ignore_ascii_case(id.name()));
    match taken {
        Some((_, other)) => Err(ArmError::conflict(
            "Conflict",
            format!(
                "A gallery with the name '{}' exists already in resource group '{}' of this subscription.",
                id.name(),
                other.id.group
            ),
        )),
        None => Ok(()),
    }
}

/// Handles PUT, PATCH and DELETE of a resource with child resources.
pub(super) fn write_nested(
    world: &mut World,
    call: &Call,
    id: &ResourceId,
    nested: ResourceKind,
    lasts: f64,
) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let body = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => {
            if !world.children(id, nested).is_empty() {
                let message = format!(
                    "Can not delete resource before nested resources are deleted: '{}' still holds resources of type '{}'.",
                    id.name(),
                    nested.types()
                );
                return Err(ArmError::conflict("CannotDeleteResource", message));
            }
            world.touch(&id.key(), |resource| resource.state = ProvisioningState::Deleting);
            let delete = world.spec.profile.delete;
            let operation = world.begin(NewOperation::removing(id, delete));
            return Ok(Answer::empty(202).started(operation));
        }
        (&Method::PUT, _) => replaced(call, current),
        (&Method::PATCH, Some(current)) => {
            let mut body = current.body.clone();
            merge(&mut body, &call.body);
            body
        }
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        _ => return Err(route::not_allowed(call)),
    };
    let created = current.is_none();
    world.put(id, body, ProvisioningState::Updating);
    let operation = world.begin(NewOperation::settling(id, lasts));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

fn replaced(call: &Call, current: Option<&Resource>) -> Map<String, Value> {
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    if body.get("properties").is_none() {
        body["properties"] = json!({});
    }
    // An existing resource keeps its location even if a PUT omits it.
    if let (Some(current), None) = (current, body.get("location")) {
        body["location"] = json!(current.location());
    }
    let Value::Object(mut body) = body else { return Map::new() };
    for name in ["id", "name", "type"] {
        body.remove(name);
    }
    body
}

/// A gallery as clients see it. The groups it is shared with are shown on request.
pub(crate) fn view(gallery: &Resource, call: &Call) -> Value {
    let mut view = Value::Object(gallery.envelope());
    view["properties"]["identifier"] = json!({"uniqueName": unique_name(gallery)});
    let selected = call.query.get("$select").is_some_and(|select| select.eq_ignore_ascii_case("Permissions"));
    if let Some(profile) = view["properties"].get_mut("sharingProfile").and_then(Value::as_object_mut) {
        if !selected {
            profile.remove("groups");
        }
        if let Some(Value::Object(community)) = profile.get_mut("communityGalleryInfo") {
            community.insert("publicNames".to_owned(), json!([community_name(gallery)]));
            community.entry("communityGalleryEnabled").or_insert(json!(false));
        }
    }
    view
}

/// The name of a community gallery: its prefix and an id.
pub(super) fn community_name(gallery: &Resource) -> String {
    let prefix = gallery.text("properties.sharingProfile.communityGalleryInfo.publicNamePrefix").unwrap_or_default();
    format!("{prefix}-{}", gallery.unique_id)
}

/// The name of a gallery that is unique in Azure.
pub(super) fn unique_name(gallery: &Resource) -> String {
    format!("{}-{}", gallery.id.subscription, gallery.id.name().to_uppercase())
}

/// `share`: who may use the gallery.
pub(crate) fn act(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    if (&call.method, action) != (&Method::POST, "share") {
        return Err(route::unknown_action(id, action));
    }
    world.check_not_locked(&id.key())?;
    let operation_type = call.text("operationType")?.to_owned();
    let groups = call.field("groups").and_then(Value::as_array).cloned().unwrap_or_default();
    let key = id.key();
    let mut profile = world
        .resources
        .get(&key)
        .and_then(|gallery| gallery.at("properties.sharingProfile"))
        .cloned()
        .unwrap_or_else(|| json!({"permissions": "Private"}));
    match operation_type.as_str() {
        "Add" => groups.iter().for_each(|group| share_with(&mut profile, group)),
        "Remove" => groups.iter().for_each(|group| stop_sharing_with(&mut profile, group)),
        "Reset" => profile = json!({"permissions": "Private"}),
        "EnableCommunity" => profile["communityGalleryInfo"]["communityGalleryEnabled"] = json!(true),
        other => {
            return Err(ArmError::parameter(
                "operationType",
                format!("The value '{other}' of parameter 'operationType' is invalid."),
            ));
        }
    }
    world.touch(&key, |gallery| {
        gallery.object("properties").insert("sharingProfile".to_owned(), profile);
        gallery.state = ProvisioningState::Updating;
    });
    let lasts = world.spec.profile.gallery;
    let operation = world.begin(NewOperation { returns_resource: false, ..NewOperation::settling(id, lasts) });
    Ok(Answer::empty(202).started(operation))
}

fn share_with(profile: &mut Value, group: &Value) {
    let mut groups = profile["groups"].as_array().cloned().unwrap_or_default();
    match groups.iter_mut().find(|known| known["type"] == group["type"]) {
        Some(known) => {
            let mut ids = known["ids"].as_array().cloned().unwrap_or_default();
            let added = group["ids"].as_array().cloned().unwrap_or_default();
            ids.extend(added.into_iter().filter(|id| !known["ids"].as_array().is_some_and(|ids| ids.contains(id))));
            known["ids"] = json!(ids);
        }
        None => groups.push(group.clone()),
    }
    profile["groups"] = json!(groups);
}

fn stop_sharing_with(profile: &mut Value, group: &Value) {
    let Some(groups) = profile.get_mut("groups").and_then(Value::as_array_mut) else { return };
    for known in groups.iter_mut().filter(|known| known["type"] == group["type"]) {
        if let Some(ids) = known["ids"].as_array_mut() {
            ids.retain(|id| !group["ids"].as_array().is_some_and(|removed| removed.contains(id)));
        }
    }
    groups.retain(|known| known["ids"].as_array().is_some_and(|ids| !ids.is_empty()));
}
