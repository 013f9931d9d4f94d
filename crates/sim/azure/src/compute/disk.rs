//! Managed disks: the OS disks of VMs, and disks that clients create.

use http::Method;
use serde_json::{Map, Value, json};

use super::image::same_region;
use super::{controller, grammar};
use crate::arm::call::{Answer, Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::contents::Disk;
use crate::world::operation::NewOperation;
use crate::world::resource::{ProvisioningState, Resource, merge, strip_nulls, time_text};
use crate::world::vm::{Power, Vm};

/// The OS disk size of most Linux images.
pub(super) const DEFAULT_SIZE_GB: u64 = 30;

/// Creates the OS disk of a new VM. Its name is the requested one or generated as Azure does.
pub(super) fn create_for(world: &mut World, owner: &ResourceId, vm: &Vm, model: &Resource) -> ResourceId {
    let unique = world.meta.ids.uuid().replace('-', "");
    let given = model.text("properties.storageProfile.osDisk.name").map(str::to_owned);
    let id = owner.sibling(ResourceKind::Disk, &given.unwrap_or_else(|| format!("{}_OsDisk_1_{unique}", vm.name)));
    let os_disk = |name: &str| {
        model
            .at(&format!("properties.virtualMachineProfile.storageProfile.osDisk.{name}"))
            .or_else(|| model.at(&format!("properties.storageProfile.osDisk.{name}")))
    };
    let sku = os_disk("managedDisk.storageAccountType").cloned().unwrap_or_else(|| json!("Premium_LRS"));
    let size = os_disk("diskSizeGB").and_then(Value::as_u64).unwrap_or(DEFAULT_SIZE_GB);
    let image = vm.image.as_deref().unwrap_or_default();
    let mut creation = json!({"createOption": "FromImage"});
    if ResourceId::parse(image).is_some() {
        creation["galleryImageReference"] = json!({"id": image});
    } else {
        let place = image.replacen(':', "/ArtifactTypes/VMImage/Offers/", 1).replacen(':', "/Skus/", 1).replacen(
            ':',
            "/Versions/",
            1,
        );
        creation["imageReference"] = json!({"id": format!("/Subscriptions/{}/Providers/Microsoft.Compute/Locations/{}/Publishers/{place}", owner.subscription, model.location())});
    }
    let mut body = Map::new();
    body.insert("location".to_owned(), json!(model.location()));
    body.insert("sku".to_owned(), json!({"name": sku}));
    body.insert("managedBy".to_owned(), json!(owner.to_string()));
    let generation = image_generation(world, image).unwrap_or("V1").to_owned();
    let machine_size = model.text("sku.name").or_else(|| model.text("properties.hardwareProfile.vmSize"));
    let capabilities = controller::capabilities(world, image, machine_size.unwrap_or_default());
    let mut properties = json!({
        "osType": "Linux", "hyperVGeneration": generation, "creationData": creation, "diskSizeGB": size,
        "diskState": "Attached", "supportedCapabilities": capabilities,
    });
    if let Some(set) = os_disk("managedDisk.diskEncryptionSet.id") {
        properties["encryption"] = json!({"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": set});
    }
    body.insert("properties".to_owned(), properties);
    world.put(&id, body, ProvisioningState::Succeeded);
    let contents = from_image(world, owner, image);
    if let Some(disk) = world.resources.get_mut(&id.key()) {
        disk.state = ProvisioningState::Succeeded;
        disk.disk = Some(contents);
    }
    id
}

/// Creates the data disks of a new instance that its scale set describes, and returns how the instance shows them.
pub(super) fn create_data_disks(world: &mut World, owner: &ResourceId, vm: &Vm, set: &Resource) -> Vec<Value> {
    let list = set.at("properties.virtualMachineProfile.storageProfile.dataDisks").and_then(Value::as_array);
    let mut shown = Vec::new();
    for entry in list.into_iter().flatten() {
        let unique = world.meta.ids.uuid().replace('-', "");
        let number = entry["lun"].as_u64().unwrap_or(0) + 2;
        let id = owner.sibling(ResourceKind::Disk, &format!("{}_disk{number}_{unique}", vm.name));
        let sku = entry.pointer("/managedDisk/storageAccountType").cloned().unwrap_or_else(|| json!("Standard_LRS"));
        let size = entry.get("diskSizeGB").cloned().unwrap_or_else(|| json!(DEFAULT_SIZE_GB));
        let body = json!({
            "location": set.location(),
            "sku": {"name": sku},
            "managedBy": owner.to_string(),
            "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": size, "diskState": "Attached"},
        });
        let Value::Object(body) = body else { continue };
        world.put(&id, body, ProvisioningState::Succeeded);
        if let Some(disk) = world.resources.get_mut(&id.key()) {
            disk.state = ProvisioningState::Succeeded;
        }
        shown.push(json!({
            "lun": entry["lun"],
            "name": id.name(),
            "createOption": entry.get("createOption").cloned().unwrap_or_else(|| json!("Empty")),
            "caching": entry.get("caching").cloned().unwrap_or_else(|| json!("None")),
            "managedDisk": {"storageAccountType": sku, "id": id.to_string()},
            "diskSizeGB": size,
            "toBeDetached": false,
        }));
    }
    shown
}

/// The contents of a new disk: a copy of the image version's, or those of a marketplace image for the pool.
fn from_image(world: &World, owner: &ResourceId, image: &str) -> Disk {
    let version = ResourceId::parse(image).and_then(|id| world.resources.get(&id.key()));
    version.and_then(|version| version.disk.clone()).unwrap_or_else(|| {
        let pool = owner.parent().and_then(|set| world.pool(set.name()));
        Disk::from_image(pool)
    })
}

/// The contents of a disk, snapshot or image version, or of the OS disk of a VM.
pub(super) fn contents_of(world: &World, source: &Resource) -> Option<Disk> {
    let os_disk = || {
        let id = source.text("properties.storageProfile.osDisk.managedDisk.id")?;
        world.resources.get(&id.to_ascii_lowercase())?.disk.clone()
    };
    source.disk.clone().or_else(os_disk)
}

/// Sets the contents of a new disk, snapshot or version.
pub(super) fn set_contents(world: &mut World, id: &ResourceId, disk: Option<Disk>) {
    if let Some(resource) = world.resources.get_mut(&id.key()) {
        resource.disk = disk;
    }
}

fn image_generation<'a>(world: &'a World, image: &str) -> Option<&'a str> {
    let definition = ResourceId::parse(image)?.parent()?;
    world.resources.get(&definition.key())?.text("properties.hyperVGeneration")
}

/// Recreates the OS disk of a VM from its current image.
pub(super) fn recreate(world: &mut World, machine: &str) {
    let Some((owner, disk, image)) = world.resources.get(machine).and_then(|resource| {
        let disk = resource.text("properties.storageProfile.osDisk.managedDisk.id")?.to_ascii_lowercase();
        Some((resource.id.clone(), disk, resource.vm.as_ref()?.image.clone()?))
    }) else {
        return;
    };
    let contents = from_image(world, &owner, &image);
    let unique = world.meta.ids.uuid();
    let now = world.now;
    world.touch(&disk, |resource| {
        if ResourceId::parse(&image).is_some() {
            resource.object("properties").insert(
                "creationData".to_owned(),
                json!({"createOption": "FromImage", "galleryImageReference": {"id": image}}),
            );
        }
        resource.unique_id = unique;
        resource.created = now;
        resource.disk = Some(contents);
    });
}

/// Sets or removes the VM that a data disk is attached to.
pub(crate) fn set_owner(world: &mut World, disk: &str, owner: Option<&str>) {
    world.touch(&disk.to_ascii_lowercase(), |disk| {
        match owner {
            Some(owner) => disk.body.insert("managedBy".to_owned(), json!(owner)),
            None => disk.body.remove("managedBy"),
        };
        let state = if owner.is_some() { "Attached" } else { "Unattached" };
        disk.object("properties").insert("diskState".to_owned(), json!(state));
    });
}

/// The Hyper-V generation of a VM, taken from its OS disk.
pub(super) fn generation(world: &World, machine: &Resource) -> String {
    let disk = machine
        .text("properties.storageProfile.osDisk.managedDisk.id")
        .map(str::to_ascii_lowercase)
        .unwrap_or_default();
    world.resources.get(&disk).and_then(|disk| disk.text("properties.hyperVGeneration")).unwrap_or("V1").to_owned()
}

/// The OS disk in the storage profile of a VM.
pub(super) fn reference(world: &World, machine: &Resource) -> Value {
    let id = machine.text("properties.storageProfile.osDisk.managedDisk.id").unwrap_or_default();
    let disk = world.resources.get(&id.to_ascii_lowercase());
    let at = |path: &str| disk.and_then(|disk| disk.at(path)).cloned().unwrap_or_default();
    json!({
        "osType": "Linux",
        "name": id.rsplit('/').next().unwrap_or_default(),
        "createOption": "FromImage",
        "caching": "ReadWrite",
        "managedDisk": {"id": id, "storageAccountType": at("sku.name")},
        "diskSizeGB": at("properties.diskSizeGB"),
    })
}

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let body = match (&call.method, current) {
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(disk)) => {
            if let Some(owner) = disk.body.get("managedBy").and_then(Value::as_str) {
                let message = format!("Disk {} is attached to VM {owner}.", id.name());
                return Err(ArmError::conflict("OperationNotAllowed", message));
            }
            return Ok(delete(world, id));
        }
        (&Method::PUT, None) => {
            grammar::disk_name(id.name())?;
            new(world, call, id)?
        }
        (&Method::PUT | &Method::PATCH, Some(disk)) => {
            let mut body = disk.body.clone();
            merge(&mut body, &call.body);
            let old = disk.at("properties.diskSizeGB").and_then(Value::as_u64).unwrap_or(0);
            if call.field("properties.diskSizeGB").and_then(Value::as_u64).is_some_and(|size| size < old) {
                return Err(ArmError::conflict(
                    "OperationNotAllowed",
                    format!("Disk {} cannot be shrunk below its {old} GB.", id.name()),
                ));
            }
            body
        }
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        _ => return Err(route::not_allowed(call)),
    };
    let created = current.is_none();
    let is_copy = created && call.field("properties.creationData.createOption") == Some(&json!("Copy"));
    let copied = match current {
        None if is_copy => contents_of(world, source(world, call, id)?),
        None => image(world, call).and_then(|image| contents_of(world, image)),
        Some(disk) => disk.disk.clone(),
    };
    store(world, id, body);
    set_contents(world, id, copied);
    let lasts = world.spec.profile.instance_update;
    let operation = world.begin(NewOperation::settling(id, lasts));
    if created {
        return Ok(Answer::new(202, pending(world, call, id)).started(operation));
    }
    Ok(route::read(world, id, call)?.started(operation))
}

/// Stores the body of a disk or snapshot. Unlike other resources, a new one is `Updating`.
pub(super) fn store(world: &mut World, id: &ResourceId, body: Map<String, Value>) {
    world.put(id, body, ProvisioningState::Updating);
    if let Some(resource) = world.resources.get_mut(&id.key()) {
        resource.state = ProvisioningState::Updating;
    }
}

/// The answer to a PUT of a disk or snapshot: what was sent, without what Azure adds later.
pub(super) fn pending(world: &World, call: &Call, id: &ResourceId) -> Value {
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    for (name, value) in [("id", id.to_string()), ("name", id.name().to_owned()), ("type", id.kind.full())] {
        body[name] = json!(value);
    }
    body["properties"]["provisioningState"] = json!(ProvisioningState::Updating.word());
    if let Some(Value::Object(creation)) = body.pointer_mut("/properties/creationData") {
        creation.remove("provisionedBandwidthCopySpeed");
    }
    let resource = world.resources.get(&id.key());
    let imported = call.field("properties.creationData.createOption") == Some(&json!("Import"));
    if let Some(resource) = resource.filter(|resource| imported || resource.revision > 1) {
        body["properties"]["diskSizeBytes"] = json!(size_bytes(resource));
    }
    body
}

fn size_bytes(disk: &Resource) -> u64 {
    disk.at("properties.diskSizeGB").and_then(Value::as_u64).unwrap_or(0) << 30
}

/// The image version that a new disk is created from, if it is in this subscription.
fn image<'a>(world: &'a World, call: &Call) -> Option<&'a Resource> {
    let reference = call.field("properties.creationData.galleryImageReference")?;
    let names = ["id", "communityGalleryImageId", "sharedGalleryImageId"];
    let name = names.iter().find_map(|name| reference.get(name).and_then(Value::as_str))?;
    let id =
        ResourceId::parse(name).or_else(|| super::shared::version(world, name).map(|version| version.id.clone()))?;
    world.resources.get(&id.key()).filter(|image| image.id.kind == ResourceKind::Version)
}

fn new(world: &World, call: &Call, id: &ResourceId) -> Result<Map<String, Value>, ArmError> {
    call.text("location")?;
    let option = call.text("properties.creationData.createOption")?;
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    match option {
        "Empty" | "Upload" => {
            if call.field("properties.diskSizeGB").is_none()
                && call.field("properties.creationData.uploadSizeBytes").is_none()
            {
                return Err(ArmError::required("disk.diskSizeGB"));
            }
        }
        "Copy" => {
            let source = source(world, call, id)?;
            for name in ["osType", "hyperVGeneration", "diskSizeGB"] {
                if let Some(value) = source.at(&format!("properties.{name}"))
                    && body["properties"].get(name).is_none()
                {
                    body["properties"][name] = value.clone();
                }
            }
        }
        "FromImage" => from_reference(world, call, &mut body["properties"])?,
        other => {
            return Err(ArmError::parameter(
                "creationData.createOption",
                format!("The value '{other}' of parameter 'creationData.createOption' is not supported here."),
            ));
        }
    }
    if body["sku"]["name"] == json!("UltraSSD_LRS") {
        let creation = &mut body["properties"]["creationData"];
        if creation.get("logicalSectorSize").is_none() {
            creation["logicalSectorSize"] = json!(4_096);
        }
    }
    body["properties"]["diskState"] = json!(if option == "Upload" { "ReadyToUpload" } else { "Unattached" });
    let Value::Object(body) = body else { return Err(ArmError::required("properties")) };
    Ok(body)
}

/// Fills in what a disk has from its image: a version of a gallery, or a marketplace image.
fn from_reference(world: &World, call: &Call, properties: &mut Value) -> Result<(), ArmError> {
    const GALLERY: &str = "properties.creationData.galleryImageReference";
    let version = image(world, call);
    if let Some(reference) = call.field(GALLERY) {
        let missing = || {
            let message = format!("The image version of '{reference}' was not found.");
            ArmError::missing("NotFound", message).about("creationData.galleryImageReference")
        };
        version.ok_or_else(missing)?;
        let name = reference.as_object().and_then(|reference| reference.values().next());
        properties["creationData"]["imageReference"] = json!({"id": name});
    } else if call.field("properties.creationData.imageReference.id").is_none() {
        return Err(ArmError::required("creationData.imageReference"));
    }
    let definition = version.and_then(|version| version.id.parent()).and_then(|id| world.resources.get(&id.key()));
    let of_definition = |name: &str| definition.and_then(|one| one.at(&format!("properties.{name}"))).cloned();
    let size = version.and_then(|one| one.at("properties.storageProfile.osDiskImage.sizeInGB")).cloned();
    let mut capabilities = json!({"architecture": of_definition("architecture").unwrap_or_else(|| json!("x64"))});
    if version.is_none() && properties["hyperVGeneration"] == json!("V2") {
        // Marketplace images of generation 2 support everything.
        capabilities["diskControllerTypes"] = json!("SCSI, NVMe");
        capabilities["acceleratedNetwork"] = json!(true);
        properties["supportsHibernation"] = json!(true);
    }
    for (name, value) in [
        ("osType", of_definition("osType").unwrap_or_else(|| json!("Linux"))),
        ("hyperVGeneration", of_definition("hyperVGeneration").unwrap_or_else(|| json!("V1"))),
        ("diskSizeGB", size.unwrap_or_else(|| json!(DEFAULT_SIZE_GB))),
        ("supportedCapabilities", capabilities),
    ] {
        if properties.get(name).is_none() {
            properties[name] = value;
        }
    }
    Ok(())
}

/// The disk or snapshot to copy. Checks the caller's permission to read it.
pub(super) fn source<'a>(world: &'a World, call: &Call, target: &ResourceId) -> Result<&'a Resource, ArmError> {
    let name = call
        .field("properties.creationData.sourceResourceId")
        .or_else(|| call.field("properties.creationData.sourceUri"));
    let name = name.and_then(Value::as_str).ok_or_else(|| ArmError::required("creationData.sourceResourceId"))?;
    let id = ResourceId::parse(name).filter(|id| matches!(id.kind, ResourceKind::Disk | ResourceKind::Snapshot));
    let id = id.ok_or_else(|| {
        ArmError::parameter("creationData.sourceResourceId", format!("'{name}' is not the id of a disk or snapshot."))
    })?;
    for right in ["read", "beginGetAccess/action"] {
        crate::arm::permission::check_linked_action(call, target, &format!("{}/{right}", id.kind.full()), name)?;
    }
    // `CopyStart` copies between regions. For `Copy`, a source in another region does not exist.
    let is_reachable = |source: &&Resource| {
        call.field("properties.creationData.createOption") == Some(&json!("CopyStart"))
            || call
                .field("location")
                .and_then(Value::as_str)
                .is_none_or(|location| same_region(location, source.location()))
    };
    let source = world
        .resources
        .get(&id.key())
        .filter(is_reachable)
        .ok_or_else(|| ArmError::missing("NotFound", format!("Resource {} is not found.", id.name())))?;
    if source.state != ProvisioningState::Succeeded {
        let message =
            format!("The source resource '{name}' is in state {}; it must be Succeeded.", source.state.word());
        return Err(ArmError::conflict("OperationNotAllowed", message));
    }
    Ok(source)
}

/// Deletes a disk or snapshot.
pub(super) fn delete(world: &mut World, id: &ResourceId) -> Answer {
    world.touch(&id.key(), |resource| resource.state = ProvisioningState::Deleting);
    let delete = world.spec.profile.delete;
    let operation = world.begin(NewOperation::removing(id, delete));
    Answer::empty(202).started(operation)
}

/// `beginGetAccess` and `endGetAccess`. The URL that grants access leads nowhere, because the bytes of disks are not simulated.
pub(crate) fn act(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    let state = match (&call.method, action) {
        (&Method::POST, "begingetaccess") => "ActiveSAS",
        (&Method::POST, "endgetaccess") => "Unattached",
        _ => return Err(route::unknown_action(id, action)),
    };
    world.check_not_locked(&id.key())?;
    let key = id.key();
    let owner = world.resources.get(&key).and_then(|disk| running_owner(world, disk));
    if let (Some(owner), "ActiveSAS") = (owner, state) {
        let message =
            format!("Access not permitted because disk {} is currently attached to running VM {owner}.", id.name());
        return Err(ArmError::conflict("Conflict", message));
    }
    world.touch(&key, |resource| {
        resource.object("properties").insert("diskState".to_owned(), json!(state));
        resource.state = ProvisioningState::Updating;
    });
    let lasts = world.spec.profile.snapshot;
    let operation = world.begin(NewOperation { returns_resource: false, ..NewOperation::settling(id, lasts) });
    if state == "ActiveSAS" {
        let unique = world.resources.get(&key).map(|resource| resource.unique_id.clone()).unwrap_or_default();
        let url = format!("{}/disk-contents-are-not-simulated/{unique}", call.base);
        world.set_output(&operation, json!({"accessSAS": url}));
    }
    Ok(Answer::empty(202).started(operation))
}

/// A disk as clients see it.
pub(crate) fn view(world: &World, disk: &Resource) -> Value {
    let mut view = common_view(disk);
    let sku = disk.text("sku.name").unwrap_or("Premium_LRS");
    let (tier, iops, megabytes) =
        performance(sku, disk.at("properties.diskSizeGB").and_then(Value::as_u64).unwrap_or(0));
    let properties = &mut view["properties"];
    for (name, value) in [("diskIOPSReadWrite", iops), ("diskMBpsReadWrite", megabytes)] {
        if properties.get(name).is_none() {
            properties[name] = json!(value);
        }
    }
    if sku == "UltraSSD_LRS" {
        let same = [("diskIOPSReadOnly", "diskIOPSReadWrite"), ("diskMBpsReadOnly", "diskMBpsReadWrite")];
        for (name, from) in same {
            properties[name] = properties[from].clone();
        }
        for (name, value) in [("readOnly", json!(false)), ("maxShares", json!(1))] {
            if properties.get(name).is_none() {
                properties[name] = value;
            }
        }
    }
    if let Some(tier) = tier.filter(|_| properties.get("tier").is_none()) {
        properties["tier"] = json!(tier);
    }
    if disk.body.contains_key("managedBy") {
        let is_attached = running_owner(world, disk).is_some();
        view["properties"]["diskState"] = json!(if is_attached { "Attached" } else { "Reserved" });
    }
    view
}

/// The VM that a disk is attached to, unless the VM is deallocated.
fn running_owner<'a>(world: &World, disk: &'a Resource) -> Option<&'a str> {
    let owner = disk.body.get("managedBy")?.as_str()?;
    let machine = world.resources.get(&owner.to_ascii_lowercase()).and_then(|machine| machine.vm.as_ref());
    let is_deallocated = machine.is_some_and(|vm| vm.power == Power::Deallocated);
    (!is_deallocated).then_some(owner)
}

/// What disks and snapshots have in common.
pub(super) fn common_view(disk: &Resource) -> Value {
    let mut view = Value::Object(disk.envelope());
    if let Some(Value::Object(sku)) = view.get_mut("sku") {
        let name = sku.get("name").and_then(Value::as_str).unwrap_or_default();
        let tier =
            if name.starts_with("UltraSSD") { "Ultra" } else { name.split(['_', 'V']).next().unwrap_or_default() };
        let tier = tier.strip_suffix("SSD").unwrap_or(tier).to_owned();
        sku.entry("tier").or_insert(json!(tier));
    }
    let properties = &mut view["properties"];
    for (name, value) in [
        ("encryption", json!({"type": "EncryptionAtRestWithPlatformKey"})),
        ("networkAccessPolicy", json!("AllowAll")),
        ("publicNetworkAccess", json!("Enabled")),
    ] {
        if properties.get(name).is_none() {
            properties[name] = value;
        }
    }
    properties["timeCreated"] = json!(time_text(disk.created));
    properties["uniqueId"] = json!(disk.unique_id);
    if disk.at("properties.diskSizeGB").is_some() {
        properties["diskSizeBytes"] = json!(size_bytes(disk));
    }
    view
}

/// The tier of a premium disk, and the IOPS and MB/s that a disk of this size has.
fn performance(sku: &str, size: u64) -> (Option<&'static str>, u64, u64) {
    const PREMIUM: [(u64, &str, u64, u64); 8] = [
        (4, "P1", 120, 25),
        (8, "P2", 120, 25),
        (16, "P3", 120, 25),
        (32, "P4", 120, 25),
        (64, "P6", 240, 50),
        (128, "P10", 500, 100),
        (256, "P15", 1_100, 125),
        (512, "P20", 2_300, 150),
    ];
    match sku.split('_').next() {
        Some("Premium") => {
            let row = PREMIUM.iter().find(|(limit, ..)| size <= *limit);
            row.map_or((Some("P30"), 5_000, 200), |&(_, tier, iops, megabytes)| (Some(tier), iops, megabytes))
        }
        Some("UltraSSD") => (None, 2_048, 8),
        _ => (None, 500, 60),
    }
}
