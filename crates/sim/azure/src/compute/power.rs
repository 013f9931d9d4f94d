//! Power, boots and views, for VMs inside and outside scale sets.

use serde_json::{Value, json};

use super::instance;
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::{Effect, NewOperation};
use crate::world::profile::seconds;
use crate::world::resource::{ProvisioningState, Resource, time_text};
use crate::world::vm::{Power, Vm};

/// The duration of the VM's next boot.
pub(super) fn boot_seconds(world: &World, key: &str) -> f64 {
    let Some(mut vm) = world.resources.get(key).and_then(|resource| resource.vm.clone()) else { return 0.0 };
    let facts = world.boot(key).map(|(_, _, facts)| facts).unwrap_or_default();
    vm.power_on(&world.spec.profile, world.now, &facts);
    vm.boot.map_or(0.0, |boot| boot.ends().duration_since(boot.started).as_secs_f64())
}

/// The instances that the body names, or all without protection if it names none.
pub(super) fn selected(world: &World, call: &Call, set: &ResourceId, required: bool) -> Result<Vec<String>, ArmError> {
    let ids = match call.field("instanceIds") {
        None if required => return Err(ArmError::required("instanceIds")),
        None => None,
        Some(Value::Array(ids)) => Some(
            ids.iter()
                .map(|id| {
                    id.as_str().ok_or_else(|| ArmError::parameter("instanceIds", "Instance ids must be strings."))
                })
                .collect::<Result<Vec<_>, _>>()?,
        ),
        Some(_) => return Err(ArmError::parameter("instanceIds", "instanceIds must be a list.")),
    };
    let keys: Vec<String> = match ids {
        Some(ids) if ids != ["*"] => ids
            .into_iter()
            .map(|id| {
                let key = set.child(ResourceKind::Instance, id).key();
                let message = || {
                    format!("The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId.")
                };
                world.resources.get(&key).map(|_| key).ok_or_else(|| ArmError::parameter("instanceIds", message()))
            })
            .collect::<Result<_, _>>()?,
        _ => instance::list_of_set(world, set)
            .into_iter()
            .filter(|resource| !instance::protected_from_actions(resource))
            .map(|resource| resource.id.key())
            .collect(),
    };
    keys.iter().try_for_each(|key| world.check_not_locked(key))?;
    Ok(keys)
}

/// `start`, `powerOff`, `deallocate`, `restart`, `redeploy` or `reimage` of these VMs.
pub(super) fn act(
    world: &mut World,
    call: &Call,
    target: &ResourceId,
    keys: Vec<String>,
    action: &str,
) -> HandlerResult {
    let profile = world.spec.profile.clone();
    // Power off without a guest shutdown is fast. Its duration is not published.
    let skip_shutdown = call.query.get("skipShutdown").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let (lasts, passing, effect): (f64, Option<Power>, fn(String) -> Effect) = match action {
        "start" => (profile.start, Some(Power::Starting), Effect::PowerOn),
        "poweroff" if skip_shutdown => {
            (profile.power_off / 10.0, Some(Power::Stopping), |key| Effect::PowerOff(key, Power::Stopped))
        }
        "poweroff" => (profile.power_off, Some(Power::Stopping), |key| Effect::PowerOff(key, Power::Stopped)),
        "deallocate" => {
            (profile.deallocate, Some(Power::Deallocating), |key| Effect::PowerOff(key, Power::Deallocated))
        }
        "restart" | "redeploy" => (profile.start, None, Effect::PowerOn),
        "reimage" | "reimageall" => (profile.reimage, None, Effect::Reimage),
        _ => return Err(route::unknown_action(target, action)),
    };
    let off = |world: &World, key: &str| {
        let power = world.resources.get(key).and_then(|resource| resource.vm.as_ref()).map(|vm| vm.power);
        matches!(power, Some(Power::Stopped | Power::Deallocated))
    };
    if action == "restart"
        && let Some(key) = keys.iter().find(|key| off(world, key))
    {
        let name = world.resources.get(key).map(|resource| resource.id.name().to_owned()).unwrap_or_default();
        return Err(ArmError::conflict(
            "OperationNotAllowed",
            format!("Cannot restart VM '{name}': it is not running."),
        ));
    }
    // A VM that is already in the desired state is unchanged: starting it again causes no boot, stopping it again takes no time.
    let works = |world: &World, key: &str| {
        let power = world.resources.get(key).and_then(|resource| resource.vm.as_ref()).map(|vm| vm.power);
        match action {
            "start" => power != Some(Power::Running),
            "poweroff" => !matches!(power, Some(Power::Stopped | Power::Deallocated)),
            "deallocate" => power != Some(Power::Deallocated),
            _ => true,
        }
    };
    let (busy, _): (Vec<String>, Vec<String>) = keys.into_iter().partition(|key| works(world, key));
    for key in &busy {
        world.touch(key, |resource| {
            resource.state = ProvisioningState::Updating;
            if let (Some(power), Some(vm)) = (passing, &mut resource.vm) {
                vm.power = power;
            }
        });
    }
    let lasts = if busy.is_empty() { 1.0 } else { lasts };
    let effects = busy.iter().flat_map(|key| [effect(key.clone()), Effect::Settle(key.clone())]).collect();
    let operation = world.begin(NewOperation { target, seconds: lasts, holds: busy, effects, returns_resource: false });
    Ok(Answer::empty(202).started(operation))
}

/// `manualUpgrade` of these instances.
pub(super) fn upgrade(world: &mut World, set: &ResourceId, keys: Vec<String>) -> Answer {
    for key in &keys {
        world.touch(key, |resource| resource.state = ProvisioningState::Updating);
    }
    let lasts = world.spec.profile.reimage;
    let operation = world.begin(NewOperation {
        target: set,
        seconds: lasts,
        holds: keys.clone(),
        effects: keys.iter().cloned().map(Effect::Settle).collect(),
        returns_resource: false,
    });
    for key in keys {
        world.step(&operation, seconds(lasts), Effect::Upgrade(key));
    }
    Answer::empty(202).started(operation)
}

/// The image reference in the storage profile of a VM.
pub(super) fn image_reference(vm: &Vm) -> Value {
    let image = vm.image.as_deref().unwrap_or_default();
    if let Some(id) = ResourceId::parse(image) {
        if id.kind == ResourceKind::Image {
            return json!({"id": image});
        }
        return json!({"id": image, "exactVersion": id.name()});
    }
    if let Some((_, version)) = image.rsplit_once("/Versions/") {
        return json!({"communityGalleryImageId": image, "exactVersion": version});
    }
    let mut parts = image.splitn(4, ':');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (publisher, offer, sku, version) = (part(), part(), part(), part());
    json!({"publisher": publisher, "offer": offer, "sku": sku, "version": version, "exactVersion": version})
}

/// The OS profile of a VM: its own name, and the visible part of the model.
pub(super) fn os_profile(model: &Resource, computer_name: &str) -> Value {
    let from = |name: &str| {
        model
            .at(&format!("properties.virtualMachineProfile.osProfile.{name}"))
            .or_else(|| model.at(&format!("properties.osProfile.{name}")))
            .cloned()
    };
    let mut profile = json!({"computerName": computer_name, "allowExtensionOperations": true, "requireGuestProvisionSignal": true, "secrets": []});
    for name in ["adminUsername", "linuxConfiguration", "windowsConfiguration"] {
        if let Some(value) = from(name) {
            profile[name] = value;
        }
    }
    profile
}

/// Power state, agent status and disks of a VM.
pub(super) fn instance_view(world: &World, resource: &Resource, vm: &Vm) -> Value {
    let state = resource.state.word();
    let disk = resource
        .text("properties.storageProfile.osDisk.managedDisk.id")
        .and_then(|id| id.rsplit('/').next())
        .unwrap_or_default();
    let mut view = json!({
        "hyperVGeneration": super::disk::generation(world, resource),
        "disks": [{"name": disk, "statuses": [{"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded", "time": time_text(resource.created)}]}],
        "statuses": [
            {"code": format!("ProvisioningState/{}", state.to_lowercase()), "level": "Info", "displayStatus": format!("Provisioning {}", state.to_lowercase()), "time": time_text(resource.created)},
            vm.power.status(),
        ],
    });
    // Without hardware there is no guest to ask.
    if vm.power != Power::Deallocated {
        view["computerName"] = json!(vm.computer_name);
        view["osName"] = json!("ubuntu");
        view["osVersion"] = json!("18.04");
        view["vmAgent"] = vm.agent(world.now);
    }
    view
}
