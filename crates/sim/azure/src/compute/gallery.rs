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

/// A gallery as clients see it.
pub(crate) fn view(gallery: &Resource) -> Value {
    let mut view = Value::Object(gallery.envelope());
    view["properties"]["identifier"] =
        json!({"uniqueName": format!("{}-{}", gallery.id.subscription, gallery.id.name().to_uppercase())});
    view
}
