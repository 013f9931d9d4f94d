//! Resources that are only stored: networks, security groups, load balancers, interfaces, identities, clusters.

use http::Method;
use kiln_sim_store::Ids;
use serde_json::{Map, Value, json};

use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::permission::check_linked_resources;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::NewOperation;
use crate::world::resource::{ProvisioningState, merge, strip_nulls};

/// Reads a subnet. Subnets are part of the network's body and can also be written as resources.
pub(crate) fn get_subnet(world: &World, id: &ResourceId) -> HandlerResult {
    if let Some(resource) = world.resources.get(&id.key()) {
        return Ok(Answer::ok(Value::Object(resource.envelope())));
    }
    let network =
        id.parent().and_then(|network| world.resources.get(&network.key())).ok_or_else(|| route::not_found(id))?;
    let subnets = network.at("properties.subnets").and_then(Value::as_array).cloned().unwrap_or_default();
    let found = subnets.into_iter().find(|subnet| {
        subnet.get("name").and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case(id.name()))
    });
    let mut subnet = found.ok_or_else(|| route::not_found(id))?;
    subnet["id"] = json!(id.to_string());
    subnet["type"] = json!(id.kind.full());
    Ok(Answer::ok(subnet))
}

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let body = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(resource)) => {
            if let Some(owner) = resource.text("properties.virtualMachine.id") {
                let message = format!(
                    "Network interface '{id}' is used by existing resource '{owner}'. In order to delete it, it must be dissociated first."
                );
                return Err(ArmError::bad("NicInUse", message));
            }
            world.touch(&id.key(), |resource| resource.state = ProvisioningState::Deleting);
            let delete = world.spec.profile.delete;
            let operation = world.begin(NewOperation::removing(id, delete));
            return Ok(Answer::empty(202).started(operation));
        }
        (&Method::PUT, _) => {
            check_linked_resources(call, id)?;
            if id.kind != ResourceKind::Subnet && id.kind != ResourceKind::AgentPool {
                call.text("location")?;
            }
            let mut body = Value::Object(call.body.clone());
            strip_nulls(&mut body);
            // Clients cannot set the owner of an interface.
            if let (Some(owner), Some(properties)) = (
                current.and_then(|old| old.at("properties.virtualMachine")),
                body.get_mut("properties").and_then(Value::as_object_mut),
            ) {
                properties.insert("virtualMachine".to_owned(), owner.clone());
            }
            let Value::Object(mut body) = body else { return Err(ArmError::required("properties")) };
            for name in ["id", "name", "type", "etag"] {
                body.remove(name);
            }
            fill_assigned_fields(world, id, &mut body);
            body
        }
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
    if id.kind == ResourceKind::Interface && created {
        assign_address(world, id);
    }
    let lasts = world.spec.profile.instance_update;
    let operation = world.begin(NewOperation::settling(id, lasts));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

/// Fills in the fields that Azure assigns to a network or identity. They are derived from the id, so a second PUT does not change them; a
/// world file can set them.
fn fill_assigned_fields(world: &World, id: &ResourceId, body: &mut Map<String, Value>) {
    let names: &[&str] = match id.kind {
        ResourceKind::Network => &["resourceGuid"],
        ResourceKind::Identity => &["clientId", "principalId"],
        _ => return,
    };
    let properties = body.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    for name in names {
        properties.entry(*name).or_insert_with(|| json!(Ids::from_name(&format!("{} {name}", id.key())).uuid()));
    }
    if id.kind == ResourceKind::Identity {
        properties.entry("tenantId").or_insert_with(|| json!(world.spec.tenant_id));
    }
}

/// Assigns a dynamic address to each configuration of a new interface.
fn assign_address(world: &mut World, id: &ResourceId) {
    let address = world.free_address();
    world.touch(&id.key(), |resource| {
        if let Some(Value::Array(configurations)) = resource.object("properties").get_mut("ipConfigurations") {
            for configuration in configurations {
                if configuration.pointer("/properties/privateIPAddress").is_none() {
                    configuration["properties"]["privateIPAddress"] = json!(address.to_string());
                    configuration["properties"]["privateIPAllocationMethod"] = json!("Dynamic");
                }
            }
        }
    });
}
