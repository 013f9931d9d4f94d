//! Virtual machines outside scale sets.

use http::Method;
use serde_json::{Map, Value, json};

use super::{controller, disk, grammar, image, instance, power};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::permission::check_linked_resources;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::{Effect, NewOperation};
use crate::world::profile::seconds;
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls, time_text};
use crate::world::vm::{Events, Power, Vm};

const IMMUTABLE: &[&str] = &[
    "location",
    "properties.osProfile.computerName",
    "properties.osProfile.adminUsername",
    "properties.storageProfile.imageReference",
];

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    match (&call.method, current) {
        (&Method::DELETE, None) => Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => Ok(delete(world, id)),
        (&Method::PUT, None) => create(world, call, id),
        (&Method::PUT | &Method::PATCH, Some(current)) => {
            for path in IMMUTABLE {
                if let (Some(old), Some(new)) = (current.at(path), call.field(path))
                    && old != new
                {
                    return Err(ArmError::immutable(path.strip_prefix("properties.").unwrap_or(path)));
                }
            }
            let user_data = call.field("properties.userData").and_then(Value::as_str).map(str::to_owned);
            user_data.as_deref().map_or(Ok(()), instance::check_user_data)?;
            let body = call.body.clone();
            world.touch(&id.key(), |resource| {
                merge(&mut resource.body, &body);
                resource.state = ProvisioningState::Updating;
                if let (Some(data), Some(vm)) = (user_data, &mut resource.vm) {
                    vm.user_data = Some(data);
                }
            });
            let operation = world.begin(NewOperation::settling(id, world.spec.profile.instance_update));
            let answer = route::read(world, id, call)?;
            Ok(answer.started(operation))
        }
        (&Method::PATCH, None) => Err(route::not_found(id)),
        _ => Err(route::not_allowed(call)),
    }
}

fn create(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    grammar::machine_name(id.name())?;
    check_linked_resources(call, id)?;
    let location = call.text("location")?.to_owned();
    let size = call.text("properties.hardwareProfile.vmSize")?;
    let computer_name =
        call.field("properties.osProfile.computerName").and_then(Value::as_str).unwrap_or_else(|| id.name()).to_owned();
    if let Some(data) = call.field("properties.userData").and_then(Value::as_str) {
        instance::check_user_data(data)?;
    }
    let interfaces = interfaces(world, call, id)?;
    let reference = call.field("properties.storageProfile.imageReference");
    let image = image::resolve(world, reference, &location)?;
    controller::check(world, size, reference)?;
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    let Value::Object(body) = body else { return Err(ArmError::required("properties")) };
    world.put(id, body, ProvisioningState::Creating);
    let text = |path: &str| call.field(path).and_then(Value::as_str).map(str::to_owned);
    let vm = Vm {
        vm_id: world.meta.ids.uuid(),
        name: id.name().to_owned(),
        computer_name,
        address: world.free_address(),
        power: Power::Starting,
        image: Some(image),
        custom_data: text("properties.osProfile.customData"),
        user_data: text("properties.userData"),
        script: false,
        extensions: Vec::new(),
        boots: 0,
        boot: None,
        cannot_join: None,
        never_ready: None,
        health: None,
        events: Events::default(),
    };
    let key = id.key();
    let model = world.resources.get(&key).cloned().ok_or_else(|| route::not_found(id))?;
    let os_disk = disk::create_for(world, id, &vm, &model);
    if let Some(resource) = world.resources.get_mut(&key) {
        resource
            .object("properties.storageProfile.osDisk.managedDisk")
            .insert("id".to_owned(), json!(os_disk.to_string()));
        resource.vm = Some(vm);
    }
    world.index_one(&key);
    for interface in &interfaces {
        world.touch(interface, |resource| {
            resource.object("properties").insert("virtualMachine".to_owned(), json!({"id": id.to_string()}));
        });
    }
    let allocate = world.spec.profile.allocate;
    let lasts = allocate + power::boot_seconds(world, &key);
    let operation = world.begin(NewOperation::settling(id, lasts));
    world.step(&operation, seconds(allocate), Effect::PowerOn(key.clone()));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: 201, ..answer }.started(operation))
}

/// The interfaces of a new VM. They must exist and be unused.
fn interfaces(world: &World, call: &Call, id: &ResourceId) -> Result<Vec<String>, ArmError> {
    let list = call
        .field("properties.networkProfile.networkInterfaces")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if list.is_empty() {
        return Err(ArmError::required("networkProfile"));
    }
    list.iter()
        .map(|entry| {
            let name = entry.get("id").and_then(Value::as_str).unwrap_or_default();
            let key = ResourceId::parse(name)
                .filter(|id| id.kind == ResourceKind::Interface)
                .map(|id| id.key())
                .unwrap_or_default();
            let interface = world.resources.get(&key).ok_or_else(|| {
                ArmError::bad(
                    "InvalidResourceReference",
                    format!("Resource {name} referenced by resource {id} was not found."),
                )
            })?;
            match interface.text("properties.virtualMachine.id") {
                Some(owner) if !owner.eq_ignore_ascii_case(&id.to_string()) => Err(ArmError::bad(
                    "NicInUse",
                    format!("Network Interface {name} is used by existing resource {owner}."),
                )),
                _ => Ok(key),
            }
        })
        .collect()
}

/// Deletes a VM, its OS disk, and the interfaces with `deleteOption` `Delete`.
fn delete(world: &mut World, id: &ResourceId) -> Answer {
    let key = id.key();
    let Some(resource) = world.resources.get(&key) else { return Answer::empty(204) };
    let entries = resource
        .at("properties.networkProfile.networkInterfaces")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let mut effects = vec![Effect::Remove(key.clone())];
    let goes = |value: Option<&Value>| {
        value.and_then(Value::as_str).is_some_and(|option| option.eq_ignore_ascii_case("Delete"))
    };
    let os_disk =
        resource.text("properties.storageProfile.osDisk.managedDisk.id").unwrap_or_default().to_ascii_lowercase();
    let disk_goes = goes(resource.at("properties.storageProfile.osDisk.deleteOption"));
    if disk_goes {
        effects.push(Effect::Remove(os_disk.clone()));
    }
    for entry in &entries {
        let interface = entry.get("id").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        if goes(entry.pointer("/properties/deleteOption")) {
            effects.push(Effect::Remove(interface));
        } else {
            world.touch(&interface, |resource| {
                resource.object("properties").remove("virtualMachine");
            });
        }
    }
    if !disk_goes {
        world.touch(&os_disk, |disk| {
            disk.body.remove("managedBy");
            disk.object("properties").insert("diskState".to_owned(), json!("Unattached"));
        });
    }
    world.touch(&key, |resource| resource.state = ProvisioningState::Deleting);
    let delete = world.spec.profile.delete;
    let operation =
        world.begin(NewOperation { target: id, seconds: delete, holds: vec![key], effects, returns_resource: false });
    Answer::empty(202).started(operation)
}

/// Handles actions and views of a VM.
pub(crate) fn act(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    let resource = world.resources.get(&id.key()).ok_or_else(|| route::not_found(id))?;
    match (&call.method, action) {
        (&Method::GET, "instanceview") => Ok(Answer::ok(
            resource.vm.as_ref().map_or_else(|| json!({}), |vm| power::instance_view(world, resource, vm)),
        )),
        (&Method::POST, "generalize") => Ok(Answer::empty(200)),
        (&Method::POST, _) => {
            world.check_not_locked(&id.key())?;
            power::act(world, call, id, vec![id.key()], action)
        }
        _ => Err(route::not_allowed(call)),
    }
}

/// A VM as clients see it.
pub(crate) fn view(world: &World, resource: &Resource, call: &Call) -> Value {
    let mut envelope = Value::Object(resource.envelope());
    let Some(vm) = &resource.vm else { return envelope };
    envelope["properties"]["vmId"] = json!(vm.vm_id);
    envelope["properties"]["timeCreated"] = json!(time_text(resource.created));
    envelope["properties"]["storageProfile"]["osDisk"] = disk::reference(world, resource);
    envelope["properties"]["storageProfile"]["imageReference"] = power::image_reference(vm);
    let profile: &mut Map<String, Value> = envelope["properties"].as_object_mut().expect("an envelope has properties");
    profile.insert("osProfile".to_owned(), power::os_profile(resource, &vm.computer_name));
    profile.remove("userData");
    if let (true, Some(data)) = (call.query.expands("userData"), &vm.user_data) {
        profile.insert("userData".to_owned(), json!(data));
    }
    if call.query.expands("instanceView") {
        profile.insert("instanceView".to_owned(), power::instance_view(world, resource, vm));
    }
    envelope
}
