//! What Azure fills into the model of a scale set. It is stored, so a client that writes back what it read does not change the model.

use kiln_sim_store::Ids;
use serde_json::{Map, Value, json};

use crate::arm::id::ResourceId;
use crate::world::World;
use crate::world::resource::Resource;

/// Fills in the fields that a client may omit. What cannot be changed keeps its current value.
pub(super) fn fill(world: &World, id: &ResourceId, body: &mut Map<String, Value>, current: Option<&Resource>) {
    // A mix of sizes has no tier.
    if let Some(Value::Object(sku)) = body.get_mut("sku").filter(|sku| sku["name"] != json!("Mix")) {
        sku.entry("tier").or_insert_with(|| json!("Standard"));
    }
    fill_identity(world, id, body);
    let Some(Value::Object(properties)) = body.get_mut("properties") else { return };
    let kept = |name: &str, default: Value| {
        current.and_then(|current| current.at(&format!("properties.{name}"))).cloned().unwrap_or(default)
    };
    properties.entry("orchestrationMode").or_insert_with(|| kept("orchestrationMode", json!("Uniform")));
    let flexible = properties["orchestrationMode"] == json!("Flexible");
    properties.entry("singlePlacementGroup").or_insert_with(|| kept("singlePlacementGroup", json!(!flexible)));
    let domains = if flexible { 1 } else { 5 };
    properties.entry("platformFaultDomainCount").or_insert_with(|| kept("platformFaultDomainCount", json!(domains)));
    if !flexible {
        properties.entry("overprovision").or_insert(json!(true));
        properties.entry("doNotRunExtensionsOnOverprovisionedVMs").or_insert(json!(false));
    }
    if let Some(placement) = current.and_then(|current| current.at("properties.highSpeedInterconnectPlacement")) {
        properties.entry("highSpeedInterconnectPlacement").or_insert_with(|| placement.clone());
    }
    fill_policies(properties, current);
    if let Some(Value::Object(profile)) = properties.get_mut("virtualMachineProfile") {
        profile.remove("timeCreated");
        fill_profile(profile, current);
    }
}

/// The ids of a managed identity, which follow from the scale set. Type `None` removes the identity.
fn fill_identity(world: &World, id: &ResourceId, body: &mut Map<String, Value>) {
    let Some(Value::Object(identity)) = body.get_mut("identity") else { return };
    let kind = identity.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind == "None" {
        body.remove("identity");
        return;
    }
    if kind.contains("SystemAssigned") {
        let principal = Ids::from_name(&format!("{} principalId", id.key())).uuid();
        identity.entry("principalId").or_insert_with(|| json!(principal));
        identity.entry("tenantId").or_insert_with(|| json!(world.spec.tenant_id));
    }
    if let Some(Value::Object(assigned)) = identity.get_mut("userAssignedIdentities") {
        for (name, value) in assigned {
            let of_name = |field: &str| Ids::from_name(&format!("{} {field}", name.to_ascii_lowercase())).uuid();
            fill_missing(value, &json!({"principalId": of_name("principalId"), "clientId": of_name("clientId")}));
        }
    }
}

/// The policies keep what a write omits, and have defaults.
fn fill_policies(properties: &mut Map<String, Value>, current: Option<&Resource>) {
    let upgrade = properties.get_mut("upgradePolicy");
    if let Some(rolling) = upgrade.and_then(|policy| policy.get_mut("rollingUpgradePolicy")) {
        fill_missing(
            rolling,
            &json!({
                "maxBatchInstancePercent": 20,
                "maxUnhealthyInstancePercent": 20,
                "maxUnhealthyUpgradedInstancePercent": 20,
                "pauseTimeBetweenBatches": "PT0S",
                "maxSurge": false,
                "rollbackFailedInstancesOnPolicyBreach": false,
            }),
        );
    }
    let upgrade = properties.get_mut("upgradePolicy");
    if let Some(automatic) = upgrade.and_then(|policy| policy.get_mut("automaticOSUpgradePolicy")) {
        fill_missing(automatic, &json!({"useRollingUpgradePolicy": false, "disableAutomaticRollback": false}));
    }
    if let Some(repairs) = properties.get_mut("automaticRepairsPolicy") {
        fill_missing(repairs, &json!({"repairAction": "Replace"}));
    }
    let resiliency = properties.get_mut("resiliencyPolicy");
    if let Some(zones) = resiliency.and_then(|policy| policy.get_mut("automaticZoneRebalancingPolicy")) {
        fill_missing(zones, &json!({"rebalanceBehavior": "CreateBeforeDelete"}));
    }
    if let (Some(sizes), Some(old)) =
        (properties.get_mut("skuProfile"), current.and_then(|current| current.at("properties.skuProfile")))
    {
        fill_missing(sizes, &json!({"allocationStrategy": old["allocationStrategy"]}));
    }
    if let Some(events) = properties.get_mut("scheduledEventsPolicy") {
        if let Some(old) = current.and_then(|current| current.at("properties.scheduledEventsPolicy")) {
            fill_missing(events, old);
        }
        let approve = json!({"automaticallyApprove": false});
        let off = json!({
            "scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": false}},
            "userInitiatedRedeploy": approve,
            "userInitiatedReboot": approve,
        });
        fill_missing(events, &off);
        if *events == off {
            properties.remove("scheduledEventsPolicy");
        }
    }
}

fn fill_profile(profile: &mut Map<String, Value>, current: Option<&Resource>) {
    if let Some(Value::Object(os)) = profile.get_mut("osProfile") {
        os.entry("secrets").or_insert_with(|| json!([]));
        os.entry("allowExtensionOperations").or_insert(json!(true));
        os.entry("requireGuestProvisionSignal").or_insert(json!(true));
    }
    if let Some(storage) = profile.get_mut("storageProfile") {
        fill_disks(storage);
    }
    let old = |name: &str| current.and_then(|current| current.at(&format!("properties.virtualMachineProfile.{name}")));
    if let Some(security) = profile.get_mut("securityProfile") {
        if security["securityType"] == json!("Standard") {
            *security = json!({});
        } else if let Some(old) = old("securityProfile") {
            fill_missing(security, old);
        }
    }
    if let Some(events) = profile.get_mut("scheduledEventsProfile").and_then(Value::as_object_mut) {
        for notification in events.values_mut() {
            fill_missing(notification, &json!({"enable": true}));
        }
        events.retain(|_, notification| notification["enable"] == json!(true));
    }
    let network = profile.get_mut("networkProfile");
    let interfaces = network.and_then(|network| network.get_mut("networkInterfaceConfigurations"));
    for interface in interfaces.and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(interface) = interface.get_mut("properties") else { continue };
        let defaults =
            json!({"disableTcpStateTracking": false, "enableIPForwarding": false, "dnsSettings": {"dnsServers": []}});
        fill_missing(interface, &defaults);
        let addresses = interface.get_mut("ipConfigurations").and_then(Value::as_array_mut);
        for address in addresses.into_iter().flatten().filter_map(|address| address.get_mut("properties")) {
            fill_missing(address, &json!({"privateIPAddressVersion": "IPv4"}));
        }
    }
}

fn fill_disks(storage: &mut Value) {
    if let Some(disk) = storage.get_mut("osDisk") {
        fill_missing(disk, &json!({"osType": "Linux"}));
        // Azure does not show the size of disks in a storage account.
        if disk.get("vhdContainers").is_none() {
            fill_missing(disk, &json!({"diskSizeGB": super::disk::DEFAULT_SIZE_GB}));
        }
        if let Some(fields) = disk.as_object_mut().filter(|fields| fields.get("diffDiskSettings") == Some(&json!({}))) {
            fields.remove("diffDiskSettings");
        }
    }
    for disk in storage.get_mut("dataDisks").and_then(Value::as_array_mut).into_iter().flatten() {
        fill_missing(disk, &json!({"caching": "None", "managedDisk": {"storageAccountType": "Standard_LRS"}}));
        if disk["managedDisk"]["storageAccountType"] == json!("UltraSSD_LRS") {
            // Close to the recorded values: 650 and 82 for 4 GB, 800 and 102 for 5 GB.
            let iops = disk["diskSizeGB"].as_u64().unwrap_or(4) * 160;
            fill_missing(disk, &json!({"diskIOPSReadWrite": iops, "diskMBpsReadWrite": iops / 8}));
        }
    }
}

/// Adds the fields of `from` that the object does not have, at every depth.
fn fill_missing(object: &mut Value, from: &Value) {
    let (Value::Object(fields), Value::Object(from)) = (object, from) else { return };
    for (name, value) in from.iter().filter(|(_, value)| !value.is_null()) {
        match fields.get_mut(name) {
            Some(known) => fill_missing(known, value),
            None => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_filled_at_every_depth() {
        let mut object = json!({"a": {"b": 1}, "c": []});
        fill_missing(&mut object, &json!({"a": {"b": 2, "d": 3}, "c": [1], "e": null, "f": true}));
        assert_eq!(object, json!({"a": {"b": 1, "d": 3}, "c": [], "f": true}));
    }
}
