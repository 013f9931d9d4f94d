//! Galleries.

use http::Method;
use serde_json::{Map, Value, json};

use super::grammar;
use crate::arm::call::{Answer, Call, Handled};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::Kind;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::Begin;
use crate::world::resource::{Resource, State, merge, strip_nulls};

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> Handled {
    if call.method == Method::PUT {
        grammar::gallery_name(id.name())?;
        if world.resources.get(&id.key()).is_none() {
            call.text("location")?;
            unique_in_subscription(world, id)?;
        }
    }
    let lasts = world.spec.profile.gallery;
    write_nested(world, call, id, Kind::Definition, lasts)
}

/// A gallery's name is taken in the whole subscription, not in its group alone.
fn unique_in_subscription(world: &World, id: &ResourceId) -> Result<(), ArmError> {
    let prefix = format!("/subscriptions/{}/", id.subscription).to_ascii_lowercase();
    let taken = world
        .resources
        .below(&prefix)
        .find(|(_, other)| other.id.kind == Kind::Gallery && other.id.name().eq_ignore_ascii_case(id.name()));
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

/// PUT, PATCH and DELETE of what others are nested in.
pub(super) fn write_nested(world: &mut World, call: &Call, id: &ResourceId, nested: Kind, lasts: f64) -> Handled {
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
            world.touch(&id.key(), |resource| resource.state = State::Deleting);
            let delete = world.spec.profile.delete;
            let operation = world.begin(Begin::removing(id, delete));
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
    world.put(id, body, State::Updating);
    let operation = world.begin(Begin::settling(id, lasts));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

fn replaced(call: &Call, current: Option<&Resource>) -> Map<String, Value> {
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    if body.get("properties").is_none() {
        body["properties"] = json!({});
    }
    // The location of what exists stays, also where a PUT leaves it out.
    if let (Some(current), None) = (current, body.get("location")) {
        body["location"] = json!(current.location());
    }
    let Value::Object(mut body) = body else { return Map::new() };
    for name in ["id", "name", "type"] {
        body.remove(name);
    }
    body
}

/// A gallery as clients read it.
pub(crate) fn view(gallery: &Resource) -> Value {
    let mut view = Value::Object(gallery.envelope());
    view["properties"]["identifier"] =
        json!({"uniqueName": format!("{}-{}", gallery.id.subscription, gallery.id.name().to_uppercase())});
    view
}
