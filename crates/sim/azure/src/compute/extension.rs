//! Extensions of a scale set. They are part of its model and child resources at the same time.

use http::Method;
use serde_json::{Value, json};

use super::scale_set;
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::resource::{Resource, merge, strip_nulls};

const LIST: &str = "properties.virtualMachineProfile.extensionProfile.extensions";

/// The extensions of a model.
pub(super) fn all(set: &Resource) -> Vec<Value> {
    set.at(LIST).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The extension with this name, ignoring case.
pub(super) fn find<'a>(set: &'a Resource, name: &str) -> Option<&'a Value> {
    set.at(LIST)?.as_array()?.iter().find(|one| is_named(one, name))
}

fn is_named(extension: &Value, name: &str) -> bool {
    extension.get("name").and_then(Value::as_str).is_some_and(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the extension runs a script at first boot.
pub(super) fn is_script(extension: &Value) -> bool {
    extension
        .pointer("/properties/type")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("customscript"))
}

/// Removes the protected settings, which no read returns.
pub(super) fn hide(extension: &mut Value) {
    if let Some(properties) = extension.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("protectedSettings");
    }
}

/// An extension as a resource, which has a state. In the model of the scale set it has none.
fn resource(extension: &Value, id: &str, kind: &str) -> Value {
    let mut view = extension.clone();
    hide(&mut view);
    if let Some(properties) = view.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("provisioningState".to_owned(), json!("Succeeded"));
    }
    view["id"] = json!(id);
    view["type"] = json!(kind);
    view
}

/// An extension as a child resource of its scale set.
fn view(extension: &Value, set: &ResourceId) -> Value {
    let name = extension.get("name").and_then(Value::as_str).unwrap_or_default();
    let id = set.child(ResourceKind::ScaleSetExtension, name).to_string();
    resource(extension, &id, &ResourceKind::ScaleSetExtension.full())
}

/// An extension as an instance shows it.
pub(super) fn of_instance(extension: &Value, instance: &ResourceId, location: &str) -> Value {
    let name = extension.get("name").and_then(Value::as_str).unwrap_or_default();
    let id = format!("{instance}/extensions/{name}");
    let mut view = resource(extension, &id, "Microsoft.Compute/virtualMachines/extensions");
    view["location"] = json!(location);
    view
}

/// The publisher and type of an extension, such as `Microsoft.Azure.Extensions.CustomScript`.
fn full_type(extension: &Value) -> String {
    let text =
        |name: &str| extension.pointer(&format!("/properties/{name}")).and_then(Value::as_str).unwrap_or_default();
    format!("{}.{}", text("publisher"), text("type"))
}

/// The handler of an extension that the agent of a VM reports.
pub(super) fn handler(extension: &Value) -> Value {
    json!({
        "type": full_type(extension),
        "typeHandlerVersion": extension.pointer("/properties/typeHandlerVersion"),
        "status": {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready"},
    })
}

/// The status of an extension on a VM.
pub(super) fn status(extension: &Value, up: bool) -> Value {
    let at = |path: &str| extension.pointer(path).cloned().unwrap_or_default();
    let (code, shown) = if up { ("succeeded", "Provisioning succeeded") } else { ("creating", "Creating") };
    json!({
        "name": at("/name"),
        "type": full_type(extension),
        "typeHandlerVersion": at("/properties/typeHandlerVersion"),
        "statuses": [{"code": format!("ProvisioningState/{code}"), "level": "Info", "displayStatus": shown}],
    })
}

fn set_of<'a>(world: &'a World, id: &ResourceId) -> Result<&'a Resource, ArmError> {
    id.parent().and_then(|set| world.resources.get(&set.key())).ok_or_else(|| route::not_found(id))
}

pub(crate) fn get(world: &World, _call: &Call, id: &ResourceId) -> HandlerResult {
    let set = set_of(world, id)?;
    let extension = find(set, id.name()).ok_or_else(|| route::not_found(id))?;
    Ok(Answer::ok(view(extension, &set.id)))
}

pub(crate) fn list(world: &World, call: &Call, subscription: &str, group: &str, parents: &[String]) -> HandlerResult {
    let [set] = parents else { return Err(route::not_allowed(call)) };
    let id = ResourceId::new(subscription, group, ResourceKind::ScaleSet, &[set]);
    let set = world.resources.get(&id.key()).ok_or_else(|| route::not_found(&id))?;
    route::page(world, call, &all(set), |one| Ok(view(one, &set.id)))
}

/// Writes one extension, which is a write of the model.
pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let set = set_of(world, id)?;
    world.check_not_locked(&set.id.key())?;
    let set_id = set.id.clone();
    let mut list = all(set);
    let position = list.iter().position(|one| is_named(one, id.name()));
    let mut given = Value::Object(call.body.clone());
    strip_nulls(&mut given);
    given["name"] = json!(id.name());
    match (&call.method, position) {
        (&Method::PUT, None) => list.push(given),
        (&Method::PUT, Some(at)) => list[at] = given,
        (&Method::PATCH, Some(at)) => {
            if let (Some(old), Some(patch)) = (list[at].as_object_mut(), given.as_object()) {
                merge(old, patch);
            }
        }
        (&Method::DELETE, Some(at)) => {
            list.remove(at);
        }
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        _ => return Err(route::not_allowed(call)),
    }
    let mut changed = set.clone();
    changed
        .object("properties.virtualMachineProfile.extensionProfile")
        .insert("extensions".to_owned(), Value::Array(list));
    let operation = scale_set::set_model(world, &set_id, changed.body)?;
    if call.method == Method::DELETE {
        return Ok(Answer::empty(202).started(operation));
    }
    let answer = get(world, call, id)?;
    Ok(Answer { status: if position.is_some() { 200 } else { 201 }, ..answer }.started(operation))
}
