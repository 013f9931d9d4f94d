//! Instances of a scale set: creation, upgrades and views.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Map, Value, json};

use super::{disk, extension, grammar, image, power, scale_set};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::{Effect, NewOperation};
use crate::world::resource::{ProvisioningState, Resource, merge, time_text};
use crate::world::vm::{Events, Power, Vm};

/// The instances of a scale set, by number.
pub(super) fn list_of_set<'a>(world: &'a World, set: &ResourceId) -> Vec<&'a Resource> {
    let mut found = world.children(set, ResourceKind::Instance);
    found.sort_by_key(|resource| number(&resource.id));
    found
}

fn number(id: &ResourceId) -> u64 {
    id.name().parse().unwrap_or(u64::MAX)
}

/// Creates `count` instances from the current model, powered off. Their image is resolved once.
pub(super) fn create(world: &mut World, set_id: &ResourceId, count: usize) -> Result<Vec<String>, ArmError> {
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let set = world.resources.get_mut(&set_id.key()).ok_or_else(|| route::not_found(set_id))?;
        let number = set.next;
        set.next += 1;
        let set = set.clone();
        let image = image::resolve(
            world,
            set.at("properties.virtualMachineProfile.storageProfile.imageReference"),
            set.location(),
        )?;
        keys.push(add(world, &set, number, image));
    }
    Ok(keys)
}

fn add(world: &mut World, set: &Resource, number: u64, image: String) -> String {
    let id = set.id.child(ResourceKind::Instance, &number.to_string());
    let prefix = set
        .text("properties.virtualMachineProfile.osProfile.computerNamePrefix")
        .unwrap_or_else(|| set.id.name())
        .to_owned();
    let name = format!("{}_{number}", set.id.name());
    let vm = Vm {
        vm_id: world.meta.ids.uuid(),
        computer_name: format!("{prefix}{}", grammar::base36(number)),
        address: world.free_address(),
        power: Power::Starting,
        image: Some(image),
        custom_data: set.text("properties.virtualMachineProfile.osProfile.customData").map(str::to_owned),
        user_data: set.text("properties.virtualMachineProfile.userData").map(str::to_owned),
        script: extension::all(set).iter().any(extension::is_script),
        extensions: extension::all(set),
        boots: 0,
        boot: None,
        cannot_join: None,
        never_ready: None,
        health: None,
        events: Events::default(),
        name,
    };
    let os_disk = disk::create_for(world, &id, &vm, set);
    let data_disks = disk::create_data_disks(world, &id, &vm, set);
    let mut body = Map::new();
    for field in ["location", "tags", "sku", "identity", "plan"] {
        if let Some(value) = set.body.get(field) {
            body.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(sku) = body.get_mut("sku").and_then(Value::as_object_mut) {
        sku.remove("capacity");
    }
    if let Some(zone) = set.body.get("zones").and_then(Value::as_array).filter(|zones| !zones.is_empty()) {
        let zone = &zone[usize::try_from(number).unwrap_or(0) % zone.len()];
        body.insert("zones".to_owned(), json!([zone]));
    }
    body.insert("instanceId".to_owned(), json!(id.name()));
    body.insert(
        "properties".to_owned(),
        json!({"storageProfile": {"osDisk": {"managedDisk": {"id": os_disk.to_string()}}, "dataDisks": data_disks}}),
    );
    world.put(&id, body, ProvisioningState::Creating);
    let key = id.key();
    if let Some(resource) = world.resources.get_mut(&key) {
        resource.model = set.model;
        resource.vm = Some(vm);
    }
    world.index_one(&key);
    key
}

/// The instances to delete when `count` are too many: the newest first, without protected ones.
pub(super) fn surplus(world: &mut World, set: &ResourceId, count: usize) -> Vec<String> {
    let flag = |resource: &Resource, name: &str| {
        resource.at(&format!("properties.protectionPolicy.{name}")).and_then(Value::as_bool) == Some(true)
    };
    let protected =
        |resource: &&Resource| !flag(resource, "protectFromScaleIn") && !flag(resource, "protectFromScaleSetActions");
    let keys: Vec<String> = list_of_set(world, set)
        .into_iter()
        .rev()
        .filter(protected)
        .take(count)
        .map(|resource| resource.id.key())
        .collect();
    for key in &keys {
        world.touch(key, |resource| resource.state = ProvisioningState::Deleting);
    }
    keys
}

pub(super) fn protected_from_actions(resource: &Resource) -> bool {
    resource.at("properties.protectionPolicy.protectFromScaleSetActions").and_then(Value::as_bool) == Some(true)
}

/// The effects of removing an instance: it is deleted with the disks that were created for it, and others are detached.
pub(super) fn removal(world: &World, key: &str) -> Vec<Effect> {
    let Some(resource) = world.resources.get(key).filter(|resource| resource.vm.is_some()) else { return Vec::new() };
    let os_disk = resource
        .text("properties.storageProfile.osDisk.managedDisk.id")
        .map(|id| Effect::Remove(id.to_ascii_lowercase()));
    let data_disks = resource.at("properties.storageProfile.dataDisks").and_then(Value::as_array);
    let data_disks = data_disks.into_iter().flatten().filter_map(|entry| {
        let disk = entry.pointer("/managedDisk/id")?.as_str()?.to_ascii_lowercase();
        Some(if entry["createOption"] == "Attach" { Effect::Detach(disk) } else { Effect::Remove(disk) })
    });
    [Effect::Remove(key.to_owned())].into_iter().chain(os_disk).chain(data_disks).collect()
}

/// Deletes instances and lowers the capacity accordingly.
pub(super) fn delete(world: &mut World, set: &ResourceId, keys: Vec<String>) -> Answer {
    for key in &keys {
        world.touch(key, |resource| resource.state = ProvisioningState::Deleting);
    }
    let gone = keys.len() as u64;
    world.touch(&set.key(), |set| {
        let capacity = set.at("sku.capacity").and_then(Value::as_u64).unwrap_or(0).saturating_sub(gone);
        set.object("sku").insert("capacity".to_owned(), json!(capacity));
    });
    let effects = keys.iter().flat_map(|key| removal(world, key)).collect();
    let delete = world.spec.profile.delete;
    let operation =
        world.begin(NewOperation { target: set, seconds: delete, holds: keys, effects, returns_resource: false });
    Answer::empty(202).started(operation)
}

/// Applies the model of the scale set to an instance. A new image means a new OS disk and a boot.
pub(crate) fn upgrade(world: &mut World, key: &str) {
    let Some(id) = world.resources.get(key).map(|resource| resource.id.clone()) else { return };
    let Some(set) = scale_set::of_instance(world, &id) else { return };
    let reference = set.at("properties.virtualMachineProfile.storageProfile.imageReference");
    let image = image::resolve(world, reference, set.location()).ok();
    let (mut renews, mut boots) = (false, false);
    world.touch(key, |resource| {
        resource.model = set.model;
        resource.state = ProvisioningState::Succeeded;
        for field in ["sku", "tags"] {
            if let Some(value) = set.body.get(field) {
                resource.body.insert(field.to_owned(), value.clone());
            }
        }
        if let Some(sku) = resource.body.get_mut("sku").and_then(Value::as_object_mut) {
            sku.remove("capacity");
        }
        let Some(vm) = &mut resource.vm else { return };
        vm.user_data = set.text("properties.virtualMachineProfile.userData").map(str::to_owned);
        vm.extensions = extension::all(&set);
        vm.script = vm.extensions.iter().any(extension::is_script);
        if image.is_some() && image != vm.image {
            vm.image = image;
            vm.custom_data = set.text("properties.virtualMachineProfile.osProfile.customData").map(str::to_owned);
            vm.forget_boots();
            (renews, boots) = (true, vm.power == Power::Running);
        }
    });
    if renews {
        disk::recreate(world, key);
    }
    if boots {
        world.power_on(key);
    }
}

/// Creates a new OS disk from the current image of the instance.
pub(crate) fn reimage(world: &mut World, key: &str) {
    let mut boots = false;
    world.touch(key, |resource| {
        resource.state = ProvisioningState::Succeeded;
        if let Some(vm) = &mut resource.vm {
            vm.forget_boots();
            boots = vm.power == Power::Running;
        }
    });
    disk::recreate(world, key);
    if boots {
        world.power_on(key);
    }
}

/// Updates or deletes an instance.
pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let key = id.key();
    let Some(current) = world.resources.get(&key) else {
        return if call.method == Method::DELETE { Ok(Answer::empty(204)) } else { Err(route::not_found(id)) };
    };
    match call.method {
        Method::DELETE => {
            let set = current.id.parent().ok_or_else(|| route::not_found(id))?;
            Ok(delete(world, &set, vec![key]))
        }
        Method::PUT => {
            if let Some(data) = call.field("properties.userData") {
                let data =
                    data.as_str().ok_or_else(|| ArmError::parameter("userData", "userData must be a string."))?;
                check_user_data(data)?;
            }
            update(world, call, &key);
            attach(world, call, &key);
            let operation = world.begin(NewOperation::settling(id, world.spec.profile.instance_update));
            let answer = route::read(world, id, call)?;
            Ok(answer.started(operation))
        }
        _ => Err(route::not_allowed(call)),
    }
}

/// Applies a PUT of an instance: protection and userData. Everything else belongs to the model, including tags, which Azure accepts and
/// ignores (Azure/azure-sdk-for-go#18278).
fn update(world: &mut World, call: &Call, key: &str) {
    world.touch(key, |resource| {
        resource.state = ProvisioningState::Updating;
        let policy = call.field("properties.protectionPolicy").and_then(Value::as_object);
        if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
            merge(resource.object("properties.protectionPolicy"), policy);
        }
        if let (Some(data), Some(vm)) = (call.field("properties.userData").and_then(Value::as_str), &mut resource.vm) {
            vm.user_data = Some(data.to_owned()).filter(|data| !data.is_empty());
        }
    });
}

/// Attaches the data disks that a PUT of an instance names, and detaches the others, which are shown until the update has ended.
fn attach(world: &mut World, call: &Call, key: &str) {
    let Some(wanted) = call.field("properties.storageProfile.dataDisks").and_then(Value::as_array) else { return };
    let Some(owner) = world.resources.get(key).map(|resource| resource.id.to_string()) else { return };
    let id = |entry: &Value| entry.pointer("/managedDisk/id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let old = world.resources.get(key).map(data_disks).unwrap_or_default();
    let is_wanted = |old: &Value| wanted.iter().any(|entry| id(entry).eq_ignore_ascii_case(&id(old)));
    let (mut attached, detached): (Vec<Value>, Vec<Value>) = old.into_iter().partition(is_wanted);
    let new = wanted.iter().filter(|entry| !attached.iter().any(|old| id(old).eq_ignore_ascii_case(&id(entry))));
    let new: Vec<&Value> = new.collect();
    for mut entry in detached {
        disk::set_owner(world, &id(&entry), None);
        entry["toBeDetached"] = json!(true);
        attached.push(entry);
    }
    for entry in new {
        disk::set_owner(world, &id(entry), Some(&owner));
        let disk = world.resources.get(&id(entry).to_ascii_lowercase());
        let at = |path: &str| disk.and_then(|disk| disk.at(path)).cloned().unwrap_or_default();
        attached.push(json!({
            "lun": entry["lun"],
            "name": disk.map(|disk| disk.id.name().to_owned()).unwrap_or_default(),
            "createOption": "Attach",
            "caching": entry.get("caching").cloned().unwrap_or_else(|| json!("None")),
            "managedDisk": {"storageAccountType": at("sku.name"), "id": id(entry)},
            "diskSizeGB": at("properties.diskSizeGB"),
            "toBeDetached": false,
        }));
    }
    if let Some(resource) = world.resources.get_mut(key) {
        resource.object("properties.storageProfile").insert("dataDisks".to_owned(), json!(attached));
    }
}

/// The data disks of an instance, including those that an unfinished update detaches.
fn data_disks(resource: &Resource) -> Vec<Value> {
    resource.at("properties.storageProfile.dataDisks").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Removes the data disks that the finished update has detached.
pub(crate) fn forget_detached_disks(resource: &mut Resource) {
    if resource.at("properties.storageProfile.dataDisks").is_some()
        && let Some(Value::Array(disks)) = resource.object("properties.storageProfile").get_mut("dataDisks")
    {
        disks.retain(|disk| disk["toBeDetached"] != json!(true));
    }
}

/// Checks that userData is base64 of at most 64 KiB.
pub(super) fn check_user_data(data: &str) -> Result<(), ArmError> {
    let decoded = STANDARD
        .decode(data)
        .map_err(|_| ArmError::parameter("userData", "User data should be in base64 encoded format."))?;
    if decoded.len() > 64 * 1024 {
        return Err(ArmError::parameter("userData", "User data is longer than 64 KB."));
    }
    Ok(())
}

/// Handles actions and views of one instance.
pub(crate) fn act(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    if let (&Method::POST, "*", Some(set)) = (&call.method, id.name(), id.parent()) {
        let keys = power::selected(world, call, &set, false)?;
        return power::act(world, call, &set, keys, action);
    }
    let resource = world.resources.get(&id.key()).ok_or_else(|| route::not_found(id))?;
    match (&call.method, action) {
        (&Method::GET, "instanceview") => Ok(Answer::ok(instance_view(world, resource))),
        (&Method::POST, _) => {
            world.check_not_locked(&id.key())?;
            power::act(world, call, id, vec![id.key()], action)
        }
        _ => Err(route::not_allowed(call)),
    }
}

/// An instance as clients see it: its own fields, and the model it was created from.
pub(crate) fn view(world: &World, resource: &Resource, call: &Call) -> Value {
    let mut view = resource.envelope();
    let (Some(vm), Some(set)) = (&resource.vm, scale_set::of_instance(world, &resource.id)) else {
        return Value::Object(view);
    };
    view.insert("name".to_owned(), json!(vm.name));
    let is_list = call.path.to_ascii_lowercase().ends_with("/virtualmachines");
    if is_list && set.text("properties.orchestrationMode") == Some("Flexible") {
        // The instances of a flexible scale set are VMs. A list only names them.
        view.retain(|name, _| matches!(name.as_str(), "name" | "id" | "type" | "location" | "instanceId" | "zones"));
        view.entry("zones").or_insert_with(|| json!([null]));
        return Value::Object(view);
    }
    let os_disk = disk::reference(world, resource);
    let interfaces = set.at("properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations");
    let interfaces: Vec<Value> = interfaces
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|interface| interface.get("name").and_then(Value::as_str))
        .map(|name| json!({"id": format!("{}/networkInterfaces/{name}", resource.id)}))
        .collect();
    let mut properties = json!({
        "latestModelApplied": resource.model == set.model,
        "modelDefinitionApplied": "VirtualMachineScaleSet",
        "vmId": vm.vm_id,
        "hardwareProfile": {"vmSize": resource.at("sku.name")},
        "provisioningState": resource.state.word(),
        "storageProfile": {"imageReference": power::image_reference(vm), "osDisk": os_disk, "dataDisks": data_disks(resource)},
        "osProfile": power::os_profile(&set, &vm.computer_name),
        "networkProfile": {"networkInterfaces": interfaces},
        "timeCreated": time_text(resource.created),
    });
    // A list omits it, and so do older API versions.
    if !is_list && call.api_version() >= "2024-11-01" {
        properties["resilientVMDeletionStatus"] = json!("Disabled");
    }
    if let Some(network) = set.at("properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations") {
        properties["networkProfileConfiguration"] = json!({"networkInterfaceConfigurations": network});
    }
    let profile = |name: &str| set.at(&format!("properties.virtualMachineProfile.{name}"));
    if let Some(security) = profile("securityProfile").filter(|profile| **profile != json!({})) {
        properties["securityProfile"] = security.clone();
    }
    if let Some(controller) = profile("storageProfile.diskControllerType") {
        properties["storageProfile"]["diskControllerType"] = controller.clone();
    }
    if let Some(policy) = resource.at("properties.protectionPolicy") {
        properties["protectionPolicy"] = policy.clone();
    }
    if let (true, Some(data)) = (call.query.expands("userData"), &vm.user_data) {
        properties["userData"] = json!(data);
    }
    if call.query.expands("instanceView") {
        properties["instanceView"] = instance_view(world, resource);
    }
    view.insert("properties".to_owned(), properties);
    if !vm.extensions.is_empty() {
        let location = resource.location();
        view.insert(
            "resources".to_owned(),
            vm.extensions.iter().map(|one| extension::of_instance(one, &resource.id, location)).collect(),
        );
    }
    Value::Object(view)
}

fn instance_view(world: &World, resource: &Resource) -> Value {
    let Some(vm) = &resource.vm else { return json!({}) };
    let set = scale_set::of_instance(world, &resource.id);
    let mut view = power::instance_view(world, resource, vm);
    view["placementGroupId"] = json!(set.as_ref().map(|set| set.unique_id.clone()).unwrap_or_default());
    view["platformUpdateDomain"] = json!(0);
    view["platformFaultDomain"] = json!(0);
    let up = vm.is_up(world.now);
    if vm.power != Power::Deallocated {
        let handlers = vm.extensions.iter().filter(|_| up).map(extension::handler);
        view["vmAgent"]["extensionHandlers"] = handlers.collect();
    }
    if !vm.extensions.is_empty() {
        view["extensions"] = vm.extensions.iter().map(|one| extension::status(one, up)).collect();
    }
    view
}
