//! Snapshots, full and incremental, of attached and unattached disks.

use http::Method;
use serde_json::{Map, Value, json};

use super::{disk, grammar};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::route;
use crate::world::World;
use crate::world::operation::NewOperation;
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls};

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let body = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => return Ok(disk::delete(world, id)),
        (&Method::PUT, None) => {
            grammar::disk_name(id.name())?;
            new(world, call, id)?
        }
        (&Method::PUT | &Method::PATCH, Some(snapshot)) => changed(call, snapshot)?,
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        _ => return Err(route::not_allowed(call)),
    };
    let copied = match current {
        Some(snapshot) => snapshot.disk.clone(),
        None if is_copy(call) => disk::contents_of(world, disk::source(world, call, id)?),
        None => None,
    };
    disk::store(world, id, body);
    disk::set_contents(world, id, copied);
    let operation = world.begin(NewOperation::settling(id, world.spec.profile.snapshot));
    if call.method == Method::PUT {
        return Ok(Answer::new(202, disk::pending(world, call, id)).started(operation));
    }
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: 202, ..answer }.started(operation))
}

fn new(world: &World, call: &Call, id: &ResourceId) -> Result<Map<String, Value>, ArmError> {
    call.text("location")?;
    let option = call.text("properties.creationData.createOption")?;
    if !matches!(option, "Copy" | "CopyStart" | "Empty" | "Import") {
        let message = format!(
            "The value '{option}' of parameter 'creationData.createOption' is not supported for a snapshot here."
        );
        return Err(ArmError::parameter("creationData.createOption", message));
    }
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    let properties = &mut body["properties"];
    if properties.get("incremental").is_none() {
        properties["incremental"] = json!(false);
    }
    if is_copy(call) {
        let source = disk::source(world, call, id)?;
        for name in COPIED {
            if let Some(value) = source.at(&format!("properties.{name}"))
                && properties.get(name).is_none()
            {
                properties[name] = value.clone();
            }
        }
        properties["creationData"]["sourceUniqueId"] = json!(source.unique_id);
        if let Some(size) = source.at("properties.creationData.logicalSectorSize") {
            properties["creationData"]["logicalSectorSize"] = size.clone();
        }
        if properties["incremental"] == json!(true) {
            // Incremental snapshots of one disk share a family id.
            properties["incrementalSnapshotFamilyId"] = json!(source.unique_id);
        }
    } else if properties.get("diskSizeGB").is_none() {
        if option == "Empty" {
            return Err(ArmError::required("snapshot.diskSizeGB"));
        }
        properties["diskSizeGB"] = json!(disk::DEFAULT_SIZE_GB);
    }
    properties["diskState"] = json!("Unattached");
    if body.get("sku").is_none() {
        body["sku"] = json!({"name": "Standard_LRS"});
    }
    if body["sku"]["name"] == json!("Standard_ZRS") && !has_zones(world, call.text("location")?) {
        return Err(crate::faults::zrs_not_supported(call.text("location")?));
    }
    let Value::Object(body) = body else { return Err(ArmError::required("properties")) };
    Ok(body)
}

/// What a snapshot takes over from its source.
const COPIED: [&str; 6] =
    ["osType", "hyperVGeneration", "diskSizeGB", "supportsHibernation", "supportedCapabilities", "securityProfile"];

/// Whether a new snapshot is a copy of a disk or snapshot.
fn is_copy(call: &Call) -> bool {
    call.field("properties.creationData.createOption")
        .and_then(Value::as_str)
        .is_some_and(|option| matches!(option, "Copy" | "CopyStart"))
}

/// Whether a region has zones, and therefore zone-redundant storage.
pub(super) fn has_zones(world: &World, location: &str) -> bool {
    world.spec.regions.iter().any(|region| region.zones && super::image::same_region(&region.name, location))
}

/// Only tags, sku and access of a snapshot can change.
fn changed(call: &Call, snapshot: &Resource) -> Result<Map<String, Value>, ArmError> {
    for path in [
        "properties.creationData.sourceResourceId",
        "properties.incremental",
        "properties.osType",
        "properties.hyperVGeneration",
    ] {
        let same = |old: &Value, new: &Value| match (old.as_str(), new.as_str()) {
            (Some(old), Some(new)) => old.eq_ignore_ascii_case(new),
            _ => old == new,
        };
        if let (Some(old), Some(new)) = (snapshot.at(path), call.field(path))
            && !same(old, new)
        {
            return Err(ArmError::immutable(path.strip_prefix("properties.").unwrap_or(path)));
        }
    }
    let mut body = snapshot.body.clone();
    merge(&mut body, &call.body);
    Ok(body)
}

/// A snapshot as clients see it. Only a copy that continues in the background has a progress.
pub(crate) fn view(snapshot: &Resource) -> Value {
    let mut view = disk::common_view(snapshot);
    let in_background = snapshot.text("properties.creationData.createOption") == Some("CopyStart")
        || snapshot.at("properties.creationData.logicalSectorSize").is_some();
    if in_background {
        view["properties"]["completionPercent"] =
            json!(if snapshot.state == ProvisioningState::Succeeded { 100.0 } else { 0.0 });
    }
    view
}
