//! Scale sets: the model, its capacity, and how a changed model reaches the instances.

use http::Method;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::{controller, defaults, grammar, image, instance, power};
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

/// Properties that cannot be changed after creation, with their default.
const IMMUTABLE: &[(&str, Option<&str>)] = &[
    ("properties.orchestrationMode", Some("Uniform")),
    ("properties.platformFaultDomainCount", None),
    ("properties.virtualMachineProfile.osProfile.adminUsername", None),
    ("properties.virtualMachineProfile.osProfile.computerNamePrefix", None),
    ("properties.virtualMachineProfile.priority", Some("Regular")),
    ("properties.virtualMachineProfile.storageProfile.osDisk.osType", None),
];

/// Read-only properties. Values that a client sends for them are ignored.
const READ_ONLY: &[&str] = &["provisioningState", "uniqueId", "timeCreated"];

/// Where the states of the orchestration services are stored. Only the instance view shows them.
const SERVICES: &str = "orchestrationServices";

/// Fields that no read returns. `userData` is returned on request.
const HIDDEN_OF_OS_PROFILE: &[&str] = &["customData", "adminPassword"];

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    let mut body = match (&call.method, current) {
        (&Method::PUT, current) => {
            grammar::machine_name(id.name())?;
            check_linked_resources(call, id)?;
            body_after_put(call, current)?
        }
        (&Method::PATCH, None) => return Err(route::not_found(id)),
        (&Method::PATCH, Some(current)) => {
            check_linked_resources(call, id)?;
            let mut body = current.body.clone();
            merge(&mut body, &call.body);
            keep_protected_settings(&mut body, current);
            body
        }
        (&Method::DELETE, None) => return Ok(Answer::empty(204)),
        (&Method::DELETE, Some(_)) => return Ok(delete(world, id)),
        _ => return Err(route::not_allowed(call)),
    };
    complete_image(&mut body, current);
    let body = validated(world, id, body, current)?;
    let created = current.is_none();
    let operation = set_model(world, id, body)?;
    let answer = route::read(world, id, call)?;
    Ok(Answer { status: if created { 201 } else { 200 }, ..answer }.started(operation))
}

/// The body after a PUT: what it contains, plus the fields that clients cannot read and therefore not send.
fn body_after_put(call: &Call, current: Option<&Resource>) -> Result<Map<String, Value>, ArmError> {
    let mut body = Value::Object(call.body.clone());
    strip_nulls(&mut body);
    let Value::Object(mut body) = body else { return Err(route::not_allowed(call)) };
    for name in ["id", "name", "type", "etag"] {
        body.remove(name);
    }
    let Some(current) = current else { return Ok(body) };
    if let Some(services) = current.at(SERVICES) {
        body.insert(SERVICES.to_owned(), services.clone());
    }
    if !body.contains_key("properties") {
        // `az vmss scale` sends only location and sku; everything else is kept.
        for (name, value) in &current.body {
            body.entry(name).or_insert_with(|| value.clone());
        }
        return Ok(body);
    }
    let keep = |body: &mut Map<String, Value>, path: &str, name: &str| {
        let full = format!("{path}.{name}");
        if let (Some(old), Some(object)) = (current.at(&full), object_at(body, path)) {
            object.entry(name).or_insert_with(|| old.clone());
        }
    };
    keep(&mut body, "properties.virtualMachineProfile.storageProfile", "imageReference");
    keep(&mut body, "properties.virtualMachineProfile", "userData");
    for name in HIDDEN_OF_OS_PROFILE {
        keep(&mut body, "properties.virtualMachineProfile.osProfile", name);
    }
    keep_protected_settings(&mut body, current);
    Ok(body)
}

fn object_at<'a>(body: &'a mut Map<String, Value>, path: &str) -> Option<&'a mut Map<String, Value>> {
    path.split('.').try_fold(body, |object, part| object.get_mut(part)?.as_object_mut())
}

/// Completes a reference that contains only a version with the current image, as `az vmss update --set ….imageReference.version` sends it.
fn complete_image(body: &mut Map<String, Value>, current: Option<&Resource>) {
    const IMAGE: &str = "properties.virtualMachineProfile.storageProfile.imageReference";
    let old = current.and_then(|current| current.at(IMAGE)).and_then(Value::as_object);
    let (Some(old), Some(new)) = (old, object_at(body, IMAGE)) else { return };
    let names = |reference: &Map<String, Value>| reference.contains_key("id") || reference.contains_key("publisher");
    if !names(new) && old.contains_key("publisher") {
        for (name, value) in old {
            new.entry(name).or_insert_with(|| value.clone());
        }
    }
}

/// Keeps the protected settings of an extension that is written without them.
fn keep_protected_settings(body: &mut Map<String, Value>, current: &Resource) {
    let Some(profile) = object_at(body, "properties.virtualMachineProfile.extensionProfile") else { return };
    let Some(Value::Array(extensions)) = profile.get_mut("extensions") else { return };
    for extension in extensions {
        let name = extension.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let old = super::extension::find(current, &name)
            .and_then(|old| old.pointer("/properties/protectedSettings"))
            .cloned();
        if let (Some(old), Some(Value::Object(properties))) = (old, extension.get_mut("properties")) {
            properties.entry("protectedSettings").or_insert(old);
        }
    }
}

/// Validates a model as Azure does.
fn validated(
    world: &World,
    id: &ResourceId,
    mut body: Map<String, Value>,
    current: Option<&Resource>,
) -> Result<Map<String, Value>, ArmError> {
    let location = body
        .get("location")
        .and_then(Value::as_str)
        .ok_or_else(|| ArmError::bad("LocationRequired", "The location property is required for this definition."))?
        .to_owned();
    if !world.spec.regions.iter().any(|region| image::same_region(&region.name, &location)) {
        return Err(ArmError::bad(
            "LocationNotAvailableForResourceType",
            format!(
                "The provided location '{location}' is not available for resource type 'Microsoft.Compute/virtualMachineScaleSets'."
            ),
        ));
    }
    if let Some(current) = current
        && !image::same_region(current.location(), &location)
    {
        let message = format!(
            "The resource '{}' already exists in location '{}'. A resource with the same name cannot be created in location '{location}'. Please select a new resource name.",
            current.id.name(),
            current.location()
        );
        return Err(ArmError::conflict("InvalidResourceLocation", message));
    }
    let properties = body.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else { return Err(ArmError::required("properties")) };
    for name in READ_ONLY {
        properties.remove(*name);
    }
    if let Some(profile) = properties.get_mut("virtualMachineProfile").and_then(Value::as_object_mut)
        && profile.get("userData") == Some(&json!(""))
    {
        // Empty user data removes it.
        profile.remove("userData");
    }
    let value = Value::Object(body);
    let at = |path: &str| value.pointer(&format!("/{}", path.replace('.', "/")));
    let capacity = at("sku.capacity")
        .map_or(Some(0), Value::as_u64)
        .ok_or_else(|| ArmError::parameter("sku.capacity", "The capacity must be an integer."))?;
    if at("sku.name").is_none() {
        return Err(ArmError::required("sku.name"));
    }
    if capacity > 1_000 {
        return Err(ArmError::parameter(
            "sku.capacity",
            format!("The requested capacity of {capacity} is more than the 1000 instances that a scale set can have."),
        ));
    }
    let mode = at("properties.upgradePolicy.mode").and_then(Value::as_str);
    match mode {
        None => return Err(ArmError::required("upgradePolicy")),
        Some("Manual" | "Automatic" | "Rolling") => {}
        Some(other) => {
            return Err(ArmError::parameter(
                "upgradePolicy.mode",
                format!("The value '{other}' of parameter 'upgradePolicy.mode' is invalid."),
            ));
        }
    }
    if let Some(data) = at("properties.virtualMachineProfile.userData").and_then(Value::as_str) {
        instance::check_user_data(data)?;
    }
    if let Some(current) = current {
        for (path, default) in IMMUTABLE {
            let default = default.map(|value| json!(value));
            if let (Some(old), Some(new)) = (current.at(path).or(default.as_ref()), at(path))
                && old != new
            {
                return Err(ArmError::immutable(path.strip_prefix("properties.").unwrap_or(path)));
            }
        }
    }
    // A model that no instance can be created from is rejected at once.
    let reference = at("properties.virtualMachineProfile.storageProfile.imageReference");
    image::resolve(world, reference, &location)?;
    controller::check(world, at("sku.name").and_then(Value::as_str).unwrap_or_default(), reference)?;
    let Value::Object(mut body) = value else { return Err(ArmError::required("properties")) };
    defaults::fill(world, id, &mut body, current);
    Ok(body)
}

/// Stores a model, adjusts the capacity, and upgrades instances by the upgrade policy.
pub(super) fn set_model(world: &mut World, id: &ResourceId, body: Map<String, Value>) -> Result<String, ArmError> {
    let key = id.key();
    let old_profile = world.resources.get(&key).and_then(|old| old.at("properties.virtualMachineProfile")).cloned();
    world.put(id, body, ProvisioningState::Updating);
    let set = world.resources.get_mut(&key).ok_or_else(|| route::not_found(id))?;
    let model_changed = set.at("properties.virtualMachineProfile") != old_profile.as_ref();
    set.model += u64::from(model_changed);
    let wanted = usize::try_from(set.at("sku.capacity").and_then(Value::as_u64).unwrap_or(0)).unwrap_or(0);

    let instances: Vec<String> = instance::list_of_set(world, id).iter().map(|resource| resource.id.key()).collect();
    let added = instance::create(world, id, wanted.saturating_sub(instances.len()))?;
    let removed = instance::surplus(world, id, instances.len().saturating_sub(wanted));
    let profile = world.spec.profile.clone();
    let longest = added.iter().map(|key| power::boot_seconds(world, key)).fold(0.0, f64::max);
    let mut lasts = profile.model_update;
    if !added.is_empty() {
        lasts = lasts.max(profile.allocate + longest);
    }
    if !removed.is_empty() {
        lasts = lasts.max(profile.delete);
    }
    let upgrades = if model_changed { upgrades(world, id, &removed) } else { Vec::new() };
    lasts = upgrades.iter().map(|(after, _)| after.as_secs_f64() + profile.reimage).fold(lasts, f64::max);

    let holds =
        [&key].into_iter().chain(&added).chain(&removed).chain(upgrades.iter().map(|(_, key)| key)).cloned().collect();
    let settled = [&key].into_iter().chain(&added).cloned().map(Effect::Settle);
    let effects = settled.chain(removed.iter().cloned().flat_map(|key| instance::removal(world, &key))).collect();
    let operation = world.begin(NewOperation { target: id, seconds: lasts, holds, effects, returns_resource: true });
    for key in added {
        world.step(&operation, seconds(profile.allocate), Effect::PowerOn(key));
    }
    for (after, key) in upgrades {
        world.step(&operation, after + seconds(profile.reimage), Effect::Upgrade(key));
    }
    Ok(operation)
}

/// The instances that a changed model reaches by itself, and when: none (manual), all at once, or in batches.
fn upgrades(world: &World, id: &ResourceId, leaving: &[String]) -> Vec<(SignedDuration, String)> {
    let Some(set) = world.resources.get(&id.key()) else { return Vec::new() };
    let mode = set.text("properties.upgradePolicy.mode").unwrap_or("Manual");
    if mode == "Manual" {
        return Vec::new();
    }
    let policy = |name: &str| set.at(&format!("properties.upgradePolicy.rollingUpgradePolicy.{name}"));
    let outdated: Vec<String> = instance::list_of_set(world, id)
        .into_iter()
        .filter(|resource| resource.model != set.model && !instance::protected_from_actions(resource))
        .map(|resource| resource.id.key())
        .filter(|key| !leaving.contains(key))
        .collect();
    if mode == "Automatic" {
        return outdated.into_iter().map(|key| (SignedDuration::ZERO, key)).collect();
    }
    let percent = policy("maxBatchInstancePercent").and_then(Value::as_u64).unwrap_or(20).clamp(1, 100);
    let batch = (outdated.len() * usize::try_from(percent).unwrap_or(20)).div_ceil(100).max(1);
    let pause = policy("pauseTimeBetweenBatches").and_then(Value::as_str).and_then(iso_seconds).unwrap_or(0.0);
    let each = world.spec.profile.reimage + pause;
    let batches = outdated.chunks(batch).enumerate();
    #[expect(clippy::cast_precision_loss, reason = "a scale set has at most 1000 batches")]
    let timed =
        batches.flat_map(|(number, keys)| keys.iter().map(move |key| (seconds(each * number as f64), key.clone())));
    timed.collect()
}

/// Parses the seconds of an ISO 8601 duration such as `PT5M30S`.
fn iso_seconds(text: &str) -> Option<f64> {
    text.parse::<SignedDuration>().ok().map(|duration| duration.as_secs_f64())
}

fn delete(world: &mut World, id: &ResourceId) -> Answer {
    let key = id.key();
    let keys: Vec<String> =
        instance::list_of_set(world, id).iter().map(|resource| resource.id.key()).chain([key.clone()]).collect();
    for key in &keys {
        world.touch(key, |resource| resource.state = ProvisioningState::Deleting);
    }
    let effects = keys.iter().flat_map(|key| instance::removal(world, key)).chain([Effect::Remove(key)]).collect();
    let delete = world.spec.profile.delete;
    let operation =
        world.begin(NewOperation { target: id, seconds: delete, holds: keys, effects, returns_resource: false });
    Answer::empty(202).started(operation)
}

/// A scale set as clients see it.
pub(crate) fn view(resource: &Resource, call: &Call) -> Value {
    let mut view = resource.envelope();
    view.remove(SERVICES);
    let mut whole = Value::Object(std::mem::take(&mut view));
    if let Some(profile) = whole.pointer_mut("/properties/virtualMachineProfile").and_then(Value::as_object_mut) {
        if !call.query.expands("userData") {
            profile.remove("userData");
        }
        profile.insert("timeCreated".to_owned(), json!(time_text(resource.created)));
        if let Some(os) = profile.get_mut("osProfile").and_then(Value::as_object_mut) {
            for name in HIDDEN_OF_OS_PROFILE {
                os.remove(*name);
            }
        }
    }
    if let Some(Value::Array(list)) = whole.pointer_mut("/properties/virtualMachineProfile/extensionProfile/extensions")
    {
        list.iter_mut().for_each(super::extension::hide);
    }
    whole["properties"]["uniqueId"] = json!(resource.unique_id);
    whole["properties"]["timeCreated"] = json!(time_text(resource.created));
    whole
}

/// Handles actions on a scale set.
pub(crate) fn act(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    match (&call.method, action) {
        (&Method::GET, "instanceview") => Ok(Answer::ok(instance_view(world, id))),
        (&Method::GET, "skus") => Ok(Answer::ok(json!({"value": skus(world, id)}))),
        (&Method::GET, "osupgradehistory") => Ok(Answer::ok(json!({"value": []}))),
        (&Method::POST, "setorchestrationservicestate") => set_service_state(world, call, id),
        (&Method::POST, "extensionrollingupgrade") => {
            world.check_not_locked(&id.key())?;
            let lasts = world.spec.profile.model_update;
            let operation = world.begin(NewOperation { returns_resource: false, ..NewOperation::settling(id, lasts) });
            Ok(Answer::empty(202).started(operation))
        }
        (&Method::POST, "delete") => {
            let keys = power::selected(world, call, id, true)?;
            Ok(instance::delete(world, id, keys))
        }
        (&Method::POST, "manualupgrade") => {
            let keys = power::selected(world, call, id, true)?;
            Ok(power::upgrade(world, id, keys))
        }
        (&Method::POST, _) => {
            let keys = power::selected(world, call, id, false)?;
            power::act(world, call, id, keys, action)
        }
        _ => Err(route::not_allowed(call)),
    }
}

/// The sizes that a scale set can have.
fn skus(world: &World, id: &ResourceId) -> Vec<Value> {
    let set = world.resources.get(&id.key());
    let name = set.and_then(|set| set.text("sku.name")).unwrap_or_default();
    vec![json!({
        "resourceType": id.kind.full(),
        "sku": {"name": name, "tier": "Standard"},
        "capacity": {"minimum": 0, "maximum": 1_000, "defaultCapacity": 1, "scaleType": "Automatic"},
    })]
}

/// Suspends or resumes a service, such as automatic repairs. The services themselves are not simulated.
fn set_service_state(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    world.check_not_locked(&id.key())?;
    let name = call.text("serviceName")?.to_owned();
    let state = if call.text("action")? == "Suspend" { "Suspended" } else { "Running" };
    world.touch(&id.key(), |set| {
        set.object(SERVICES).insert(name, json!(state));
    });
    let lasts = world.spec.profile.model_update;
    let operation = world.begin(NewOperation { returns_resource: false, ..NewOperation::settling(id, lasts) });
    Ok(Answer::empty(202).started(operation))
}

fn instance_view(world: &World, id: &ResourceId) -> Value {
    let mut counts: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    let instances = instance::list_of_set(world, id);
    for resource in &instances {
        *counts.entry(format!("ProvisioningState/{}", resource.state.word().to_lowercase())).or_default() += 1;
        if let Some(vm) = &resource.vm {
            *counts.entry(format!("PowerState/{}", vm.power.word())).or_default() += 1;
        }
    }
    let summary: Vec<Value> = counts.into_iter().map(|(code, count)| json!({"code": code, "count": count})).collect();
    let set = world.resources.get(&id.key());
    let extensions: Vec<Value> = set
        .map(super::extension::all)
        .unwrap_or_default()
        .iter()
        .map(|extension| {
            let ready = instances.iter().filter(|one| one.vm.as_ref().is_some_and(|vm| vm.is_up(world.now))).count();
            json!({"name": extension["name"], "statusesSummary": [{"code": "ProvisioningState/succeeded", "count": ready}]})
        })
        .collect();
    let state = set.map_or("Succeeded", |set| set.state.word());
    let mut view = json!({
        "virtualMachine": {"statusesSummary": summary},
        "statuses": [{
            "code": format!("ProvisioningState/{}", state.to_lowercase()),
            "level": "Info",
            "displayStatus": format!("Provisioning {}", state.to_lowercase()),
            "time": time_text(world.now),
        }],
    });
    if !extensions.is_empty() {
        view["extensions"] = json!(extensions);
    }
    if let Some(Value::Object(services)) = set.and_then(|set| set.at(SERVICES)) {
        let service = |(name, state): (&String, &Value)| json!({"serviceName": name, "serviceState": state});
        view["orchestrationServices"] = services.iter().map(service).collect();
    }
    view
}

/// The scale set of an instance.
pub(super) fn of_instance(world: &World, id: &ResourceId) -> Option<Resource> {
    debug_assert_eq!(id.kind, ResourceKind::Instance);
    world.resources.get(&id.parent()?.key()).cloned()
}
