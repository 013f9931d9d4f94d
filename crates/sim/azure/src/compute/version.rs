//! Image versions: created from a snapshot, replicated over time, included in `latest` or excluded.

use http::Method;
use serde_json::{Map, Value, json};

use super::{disk, grammar, image, snapshot};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::faults::zrs_not_supported;
use crate::world::World;
use crate::world::operation::{NewOperation, PlannedOutcome};
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls, time_text};

const PROFILE: &str = "properties.publishingProfile";

/// Properties that cannot be changed after creation, with the default of those that Azure shows only if they were sent.
const IMMUTABLE: &[(&str, Option<&str>)] = &[
    ("properties.publishingProfile.storageAccountType", None),
    ("properties.publishingProfile.replicationMode", Some("Full")),
    ("properties.storageProfile", None),
];

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let created = current.is_none();
    let body = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => {
            world.touch(&id.key(), |resource| resource.state = ProvisioningState::Deleting);
            let delete = world.spec.profile.delete;
            let operation = world.begin(NewOperation::removing(id, delete));
            return Ok(Answer::empty(202).started(operation));
        }
        (&Method::PUT, None) => {
            grammar::version_number(id.name())?;
            new(world, call, id)?
        }
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        (&Method::PUT | &Method::PATCH, Some(current)) => changed(world, call, current)?,
        _ => return Err(route::not_allowed(call)),
    };
    let storage = text(&body, "storageAccountType").unwrap_or("Standard_LRS").to_owned();
    let bad_region = regions(&body)
        .iter()
        .find(|region| storage_of(region, &storage) == "Standard_ZRS" && !snapshot::has_zones(world, name_of(region)))
        .map(|region| name_of(region).to_owned());
    if let (Some(region), PlannedOutcome::Normal) = (bad_region, &world.planned_outcome) {
        // Azure accepts the request and fails the replication. The version remains in state `Failed`.
        world.planned_outcome = PlannedOutcome::Fails(zrs_not_supported(&region));
    }
    let copied = match world.resources.get(&id.key()) {
        Some(version) => version.disk.clone(),
        None => source_of(world, call, id)?.and_then(|source| disk::contents_of(world, source)),
    };
    world.put(id, body, ProvisioningState::Updating);
    disk::set_contents(world, id, copied);
    let lasts = if created { world.spec.profile.image_version } else { world.spec.profile.version_update };
    let operation = world.begin(NewOperation::settling(id, lasts));
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get("properties")?.get("publishingProfile")?.get(name)?.as_str()
}

fn regions(body: &Map<String, Value>) -> Vec<&Value> {
    let list = body.get("properties").and_then(|value| value.pointer("/publishingProfile/targetRegions"));
    list.and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
}

fn name_of(region: &Value) -> &str {
    region.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn storage_of<'a>(region: &'a Value, default: &'a str) -> &'a str {
    region.get("storageAccountType").and_then(Value::as_str).unwrap_or(default)
}

fn new(world: &World, call: &Call, id: &ResourceId) -> Result<Map<String, Value>, ArmError> {
    let location = call.text("location")?.to_owned();
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    let source = source_of(world, call, id)?;
    if let Some(source) = source {
        check_source(world, id, source)?;
    }
    let profile = &mut body["properties"]["publishingProfile"];
    if !profile.is_object() {
        *profile = json!({});
    }
    let given = |profile: &Value, name: &str, default: Value| profile.get(name).cloned().unwrap_or(default);
    let (replicas, storage) =
        (given(profile, "replicaCount", json!(1)), given(profile, "storageAccountType", json!("Standard_LRS")));
    if !matches!(storage.as_str(), Some("Standard_LRS" | "Standard_ZRS" | "Premium_LRS")) {
        return Err(ArmError::parameter(
            "storageAccountType",
            format!("The value {storage} of parameter 'storageAccountType' is invalid."),
        ));
    }
    if profile.get("targetRegions").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        profile["targetRegions"] = json!([{"name": location}]);
    }
    profile["replicaCount"] = replicas.clone();
    profile["storageAccountType"] = storage.clone();
    profile["excludeFromLatest"] = given(profile, "excludeFromLatest", json!(false));
    profile["publishedDate"] = json!(time_text(world.now));
    complete_regions(world, profile)?;
    fill_storage(world, &mut body["properties"]["storageProfile"], source);
    let safety = &mut body["properties"]["safetyProfile"];
    if !safety.is_object() {
        *safety = json!({});
    }
    safety["reportedForPolicyViolation"] = json!(false);
    if safety.get("allowDeletionOfReplicatedLocations").is_none() {
        safety["allowDeletionOfReplicatedLocations"] = json!(false);
    }
    let Value::Object(body) = body else { return Err(ArmError::required("properties")) };
    Ok(body)
}

/// Fills in size and caching of the disks. Of a VM or managed image they are those of its disks.
fn fill_storage(world: &World, profile: &mut Value, source: Option<&Resource>) {
    let size = |id: Option<&str>| {
        let disk = id.and_then(|id| world.resources.get(&id.to_ascii_lowercase()));
        disk.and_then(|disk| disk.at("properties.diskSizeGB")).cloned().unwrap_or_else(|| json!(disk::DEFAULT_SIZE_GB))
    };
    let whole = source.filter(|_| profile.get("source").is_some());
    if let Some(source) = whole.filter(|source| source.id.kind != ResourceKind::Version) {
        let at = |path: &str| source.at(&format!("properties.storageProfile.{path}"));
        let id = |disk: &Value| disk.pointer("/managedDisk/id").and_then(Value::as_str).map(str::to_owned);
        let os_disk = at("osDisk").cloned().unwrap_or_default();
        profile["osDiskImage"] = json!({"sizeInGB": size(id(&os_disk).as_deref()), "source": {}});
        let disks = at("dataDisks").and_then(Value::as_array).cloned().unwrap_or_default();
        if !disks.is_empty() {
            let image = |disk: &Value| json!({"lun": disk["lun"], "sizeInGB": size(id(disk).as_deref()), "hostCaching": "None"});
            profile["dataDiskImages"] = disks.iter().map(image).collect();
        }
    } else if let Some(source) = whole {
        for name in ["osDiskImage", "dataDiskImages"] {
            if let Some(disks) = source.at(&format!("properties.storageProfile.{name}")) {
                profile[name] = disks.clone();
            }
        }
        profile["osDiskImage"]["source"] = json!({});
    } else {
        profile["osDiskImage"]["sizeInGB"] = size(source.map(|source| source.id.key()).as_deref());
    }
    if profile["osDiskImage"].get("hostCaching").is_none() {
        profile["osDiskImage"]["hostCaching"] = json!("ReadWrite");
    }
    for disk in profile.get_mut("dataDiskImages").and_then(Value::as_array_mut).into_iter().flatten() {
        if disk.get("sizeInGB").is_none() {
            disk["sizeInGB"] = size(disk.pointer("/source/id").and_then(Value::as_str));
        }
        if disk.get("hostCaching").is_none() {
            disk["hostCaching"] = json!("ReadOnly");
        }
    }
}

/// Fills in name, replica count and storage type of each target region from the profile.
fn complete_regions(world: &World, profile: &mut Value) -> Result<(), ArmError> {
    let (replicas, storage) = (profile["replicaCount"].clone(), profile["storageAccountType"].clone());
    let Some(Value::Array(regions)) = profile.get_mut("targetRegions") else { return Ok(()) };
    for region in regions {
        let name = name_of(region).to_owned();
        if !world.spec.regions.iter().any(|known| image::same_region(&known.name, &name)) {
            return Err(ArmError::parameter("targetRegions", format!("The target region '{name}' does not exist.")));
        }
        if region.get("regionalReplicaCount").is_none() {
            region["regionalReplicaCount"] = replicas.clone();
        }
        if region.get("storageAccountType").is_none() {
            region["storageAccountType"] = storage.clone();
        }
        complete_target(region);
    }
    for target in profile.get_mut("targetExtendedLocations").and_then(Value::as_array_mut).into_iter().flatten() {
        if target.get("storageAccountType").is_none() {
            target["storageAccountType"] = json!("StandardSSD_LRS");
        }
        complete_target(target);
    }
    Ok(())
}

/// Azure shows the display names of regions, and a security profile next to each key of an OS disk.
fn complete_target(target: &mut Value) {
    target["name"] = json!(image::display_name(name_of(target)));
    if let Some(Value::Object(encryption)) = target.pointer_mut("/encryption/osDiskImage") {
        encryption.entry("securityProfile").or_insert_with(|| json!({}));
    }
}

/// The source of a new version, or `None` for a blob, which is not simulated.
fn source_of<'a>(world: &'a World, call: &Call, id: &ResourceId) -> Result<Option<&'a Resource>, ArmError> {
    if call.field("properties.storageProfile.osDiskImage.source.uri").is_some() {
        return Ok(None);
    }
    let name = [
        "properties.storageProfile.osDiskImage.source.id",
        "properties.storageProfile.source.id",
        "properties.storageProfile.source.virtualMachineId",
    ];
    let name = name
        .iter()
        .find_map(|path| call.field(path).and_then(Value::as_str))
        .ok_or_else(|| ArmError::required("galleryImageVersion.properties.storageProfile"))?;
    let parsed = ResourceId::parse(name).filter(|source| {
        matches!(
            source.kind,
            ResourceKind::Snapshot
                | ResourceKind::Disk
                | ResourceKind::Machine
                | ResourceKind::Image
                | ResourceKind::Version
        )
    });
    let parsed = parsed
        .ok_or_else(|| ArmError::parameter("source", format!("'{name}' is not the id of a valid image source.")))?;
    crate::arm::permission::check_linked_action(call, id, &format!("{}/read", parsed.kind.full()), name)?;
    let source = world.resources.get(&parsed.key()).ok_or_else(|| {
        ArmError::missing("ResourceNotFound", format!("The source '{name}' was not found.")).about("source")
    })?;
    if source.state != ProvisioningState::Succeeded {
        let message = format!("The source '{name}' is in state {}; it must be Succeeded.", source.state.word());
        return Err(ArmError::conflict("OperationNotAllowed", message));
    }
    Ok(Some(source))
}

/// Checks that the source has the generation of the definition. A `TrustedLaunchSupported` definition does not accept a snapshot.
fn check_source(world: &World, id: &ResourceId, source: &Resource) -> Result<(), ArmError> {
    let Some(definition) = id.parent().and_then(|definition| world.resources.get(&definition.key())) else {
        return Ok(());
    };
    let of = |resource: &Resource| resource.text("properties.hyperVGeneration").unwrap_or("V1").to_owned();
    // A disk without an operating system has no generation.
    let has_one = source.at("properties.hyperVGeneration").is_some();
    if matches!(source.id.kind, ResourceKind::Snapshot | ResourceKind::Disk) && has_one && of(definition) != of(source)
    {
        let message = format!(
            "The source '{}' is of Hyper-V generation {}, the image definition of {}.",
            source.id,
            of(source),
            of(definition)
        );
        return Err(ArmError::parameter("hyperVGeneration", message));
    }
    let features = definition.at("properties.features").and_then(Value::as_array).cloned().unwrap_or_default();
    let supported = features
        .iter()
        .any(|feature| feature["name"] == json!("SecurityType") && feature["value"] == json!("TrustedLaunchSupported"));
    if supported && source.id.kind == ResourceKind::Snapshot {
        let message =
            "An image definition with security type TrustedLaunchSupported does not accept a snapshot as source.";
        return Err(ArmError::bad("BadRequest", message).about("source"));
    }
    Ok(())
}

fn changed(world: &World, call: &Call, current: &Resource) -> Result<Map<String, Value>, ArmError> {
    for (path, default) in IMMUTABLE {
        let default = default.map(|value| json!(value));
        if let (Some(old), Some(new)) = (current.at(path).or(default.as_ref()), call.field(path))
            && !covers(old, new)
        {
            return Err(ArmError::immutable(&format!("galleryImageVersion.{path}")));
        }
    }
    if current.state == ProvisioningState::Failed
        && call.method == Method::PUT
        && call.field(&format!("{PROFILE}.storageAccountType")).is_some()
    {
        // A failed version keeps its name and cannot be fixed by another PUT. It must be deleted first.
        let message = format!(
            "The image version '{}' is in state Failed. Delete it before creating it again.",
            current.id.name()
        );
        return Err(ArmError::conflict("OperationNotAllowed", message));
    }
    let mut body = current.body.clone();
    merge(&mut body, &call.body);
    for name in ["id", "name", "type"] {
        body.remove(name);
    }
    let mut value = Value::Object(body);
    // A write may repeat a part of the disks, which cannot be changed.
    value["properties"]["storageProfile"] = current.at("properties.storageProfile").cloned().unwrap_or_default();
    complete_regions(world, &mut value["properties"]["publishingProfile"])?;
    let Value::Object(body) = value else { return Err(ArmError::required("properties")) };
    Ok(body)
}

/// Whether `old` has everything that `new` contains. Ids are compared case-insensitively.
fn covers(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            new.iter().all(|(key, new)| new.is_null() || old.get(key).is_some_and(|old| covers(old, new)))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| covers(old, new))
        }
        (Value::String(old), Value::String(new)) => old.eq_ignore_ascii_case(new),
        _ => old == new,
    }
}

/// A version as clients see it, with its replication progress on request.
pub(crate) fn view(world: &World, version: &Resource, call: &Call) -> Value {
    let mut view = Value::Object(version.envelope());
    let properties = &mut view["properties"];
    // Older API versions do not have it.
    if version.state != ProvisioningState::Updating && call.api_version() >= "2024-03-03" {
        properties["validationsProfile"] = validations(world, version);
    }
    if let (ProvisioningState::Creating, Some(Value::Object(profile))) =
        (version.state, properties.get_mut("storageProfile"))
    {
        hide_unknown_disks(profile);
    }
    if call.query.expands("ReplicationStatus") {
        view["properties"]["replicationStatus"] = replication(world, version);
    }
    view
}

/// The result of Azure's validation. For a version of a VM it names the marketplace image of the VM.
fn validations(world: &World, version: &Resource) -> Value {
    let mut profile = json!({"validationOperationStatus": "NotExecuted"});
    let source = version.text("properties.storageProfile.source.virtualMachineId");
    let machine = source.and_then(|id| world.resources.get(&id.to_ascii_lowercase()));
    let reference = machine.and_then(|machine| machine.at("properties.storageProfile.imageReference"));
    if let (Some(reference), ProvisioningState::Succeeded) = (reference, version.state) {
        let attribute = |name: &str| {
            let value = reference.get(name)?;
            Some(json!({"name": format!("source_image_{name}"), "value": value}))
        };
        let attributes: Vec<Value> = ["publisher", "offer", "sku"].iter().filter_map(|name| attribute(name)).collect();
        profile["platformAttributes"] = json!(attributes);
    }
    profile
}

/// Removes what Azure does not know before it has copied the disks: their sizes, and all disks of a VM or managed image.
fn hide_unknown_disks(profile: &mut Map<String, Value>) {
    if profile.contains_key("source") {
        profile.retain(|name, _| name == "source");
        return;
    }
    let data = profile.get("dataDiskImages").and_then(Value::as_array).cloned();
    let without_size = |mut disk: Value| {
        if let Value::Object(fields) = &mut disk {
            fields.remove("sizeInGB");
        }
        disk
    };
    if let Some(disk) = profile.get_mut("osDiskImage") {
        *disk = without_size(disk.take());
    }
    if let Some(disks) = data {
        profile.insert("dataDiskImages".to_owned(), disks.into_iter().map(without_size).collect());
    }
}

fn replication(world: &World, version: &Resource) -> Value {
    let operation = version
        .operation
        .as_ref()
        .and_then(|id| world.operations.get(id))
        .filter(|_| version.state == ProvisioningState::Creating);
    let progress = operation.map_or(100, |operation| {
        let whole = operation.ends.duration_since(operation.started).as_secs_f64().max(f64::MIN_POSITIVE);
        let share = world.now.duration_since(operation.started).as_secs_f64() / whole;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=100")]
        let percent = (share * 100.0).clamp(0.0, 100.0) as u64;
        percent
    });
    let failed = version.state == ProvisioningState::Failed;
    let (state, aggregated) = match (failed, operation.is_some()) {
        (true, _) => ("Failed", "Failed"),
        (_, true) => ("Replicating", "InProgress"),
        _ => ("Completed", "Completed"),
    };
    let summary: Vec<Value> = regions(&version.body)
        .iter()
        .map(|region| json!({"region": name_of(region), "state": state, "details": "", "progress": if failed { 0 } else { progress }}))
        .collect();
    json!({"aggregatedState": aggregated, "summary": summary})
}
