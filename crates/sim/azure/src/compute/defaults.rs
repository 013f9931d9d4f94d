//! What Azure fills into the model of a scale set. It is stored, so a client that writes back what it read does not change the model.

use serde_json::{Map, Value, json};

use crate::world::resource::Resource;

/// Fills in the fields that a client may omit. What cannot be changed keeps its current value.
pub(super) fn fill(body: &mut Map<String, Value>, current: Option<&Resource>) {
    if let Some(Value::Object(sku)) = body.get_mut("sku") {
        sku.entry("tier").or_insert_with(|| json!("Standard"));
    }
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
    if let Some(Value::Object(profile)) = properties.get_mut("virtualMachineProfile") {
        profile.remove("timeCreated");
        fill_profile(profile);
    }
}

fn fill_profile(profile: &mut Map<String, Value>) {
    if let Some(Value::Object(os)) = profile.get_mut("osProfile") {
        os.entry("secrets").or_insert_with(|| json!([]));
        os.entry("allowExtensionOperations").or_insert(json!(true));
        os.entry("requireGuestProvisionSignal").or_insert(json!(true));
    }
    if let Some(Value::Object(disk)) = profile.get_mut("storageProfile").and_then(|storage| storage.get_mut("osDisk")) {
        disk.entry("osType").or_insert_with(|| json!("Linux"));
        disk.entry("diskSizeGB").or_insert(json!(super::disk::DEFAULT_SIZE_GB));
    }
    let network =
        profile.get_mut("networkProfile").and_then(|network| network.get_mut("networkInterfaceConfigurations"));
    for interface in network.and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(Value::Object(interface)) = interface.get_mut("properties") else { continue };
        interface.entry("disableTcpStateTracking").or_insert(json!(false));
        interface.entry("enableIPForwarding").or_insert(json!(false));
        interface.entry("dnsSettings").or_insert_with(|| json!({"dnsServers": []}));
        let addresses = interface.get_mut("ipConfigurations").and_then(Value::as_array_mut);
        for address in addresses.into_iter().flatten() {
            if let Some(Value::Object(address)) = address.get_mut("properties") {
                address.entry("privateIPAddressVersion").or_insert_with(|| json!("IPv4"));
            }
        }
    }
}
