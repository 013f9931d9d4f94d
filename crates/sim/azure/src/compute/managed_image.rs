//! Managed images: the disks of a generalized VM, as a source of VMs and image versions.

use http::Method;
use serde_json::{Map, Value, json};

use super::{disk, grammar};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::NewOperation;
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls};

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let created = current.is_none();
    let (body, copied) = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => {
            world.touch(&id.key(), |resource| resource.state = ProvisioningState::Deleting);
            let operation = world.begin(NewOperation::removing(id, world.spec.profile.delete));
            return Ok(Answer::empty(202).started(operation));
        }
        (&Method::PUT, None) => {
            grammar::disk_name(id.name())?;
            let source = source(world, call, id)?;
            (new(world, call, source)?, disk::contents_of(world, source))
        }
        (&Method::PUT | &Method::PATCH, Some(current)) => {
            let mut body = current.body.clone();
            merge(&mut body, &call.body);
            (body, current.disk.clone())
        }
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        _ => return Err(route::not_allowed(call)),
    };
    world.put(id, body, ProvisioningState::Updating);
    disk::set_contents(world, id, copied);
    let operation = world.begin(NewOperation::settling(id, world.spec.profile.snapshot));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

/// The VM, disk or snapshot that an image is created from.
fn source<'a>(world: &'a World, call: &Call, target: &ResourceId) -> Result<&'a Resource, ArmError> {
    let paths = [
        "properties.sourceVirtualMachine.id",
        "properties.storageProfile.osDisk.snapshot.id",
        "properties.storageProfile.osDisk.managedDisk.id",
    ];
    let name = paths.iter().find_map(|path| call.field(path).and_then(Value::as_str));
    let name = name.ok_or_else(|| ArmError::required("image.storageProfile"))?;
    let known =
        |id: &ResourceId| matches!(id.kind, ResourceKind::Machine | ResourceKind::Disk | ResourceKind::Snapshot);
    let id = ResourceId::parse(name)
        .filter(known)
        .ok_or_else(|| ArmError::parameter("source", format!("'{name}' is not the id of a VM, disk or snapshot.")))?;
    crate::arm::permission::check_linked_action(call, target, &format!("{}/read", id.kind.full()), name)?;
    world
        .resources
        .get(&id.key())
        .ok_or_else(|| ArmError::missing("NotFound", format!("Resource {} is not found.", id.name())).about("source"))
}

fn new(world: &World, call: &Call, source: &Resource) -> Result<Map<String, Value>, ArmError> {
    call.text("location")?;
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    let properties = &mut body["properties"];
    if properties.get("hyperVGeneration").is_none() {
        properties["hyperVGeneration"] = json!(disk::generation(world, source));
    }
    if source.id.kind == ResourceKind::Machine {
        let os_disk = disk::reference(world, source);
        let data_disks = source.at("properties.storageProfile.dataDisks").and_then(Value::as_array);
        properties["storageProfile"] = json!({
            "osDisk": {
                "osType": os_disk["osType"],
                "osState": "Generalized",
                "diskSizeGB": os_disk["diskSizeGB"],
                "managedDisk": {"id": os_disk["managedDisk"]["id"]},
                "caching": os_disk["caching"],
                "storageAccountType": os_disk["managedDisk"]["storageAccountType"],
            },
            "dataDisks": data_disks.into_iter().flatten().map(|one| data_disk(world, one)).collect::<Vec<_>>(),
        });
    }
    let Value::Object(body) = body else { return Err(ArmError::required("properties")) };
    Ok(body)
}

fn data_disk(world: &World, entry: &Value) -> Value {
    let id = entry.pointer("/managedDisk/id").and_then(Value::as_str).unwrap_or_default();
    let disk = world.resources.get(&id.to_ascii_lowercase());
    let at = |path: &str| disk.and_then(|disk| disk.at(path)).cloned();
    json!({
        "lun": entry["lun"],
        "diskSizeGB": at("properties.diskSizeGB"),
        "managedDisk": {"id": id},
        "caching": entry.get("caching").cloned().unwrap_or_else(|| json!("None")),
        "storageAccountType": at("sku.name"),
    })
}

/// An image as clients see it. The sizes of its disks are known when it is finished.
pub(crate) fn view(image: &Resource) -> Value {
    let mut view = Value::Object(image.envelope());
    if image.state != ProvisioningState::Creating {
        return view;
    }
    let profile = &mut view["properties"]["storageProfile"];
    let disks = profile.get_mut("dataDisks").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let without_size = |mut disk: Value| {
        if let Value::Object(fields) = &mut disk {
            fields.remove("diskSizeGB");
        }
        disk
    };
    profile["dataDisks"] = disks.into_iter().map(without_size).collect();
    profile["osDisk"] = without_size(profile["osDisk"].take());
    view
}
