//! Creates what the recordings leave out: resource groups, VMs, and scale sets that a template deployment created.

use http::Method;
use serde_json::{Value, json};

use super::data::Interaction;
use crate::common::{Client, with_version};

const COMPUTE: &str = "2024-11-01";
const DISK: &str = "2023-10-02";
const NETWORK: &str = "2023-09-01";

/// Creates what the recorded request with this index needs, with generated names replaced. Returns whether anything was created.
pub(super) fn plant(client: &Client, recorded: &[Interaction], index: usize, rename: &dyn Fn(&str) -> String) -> bool {
    let one = &recorded[index];
    let group = group(client, one.path());
    if one.status >= 400 {
        return group;
    }
    let set = scale_set(client, recorded, one, rename);
    let machines = one.request.as_ref().map(machine_ids).unwrap_or_default();
    let machines = machines.iter().filter(|id| machine(client, recorded, id, one)).count();
    group || set || machines > 0
}

fn exists(client: &Client, id: &str) -> bool {
    client.sim.stored().keys().any(|known| known.eq_ignore_ascii_case(id))
}

fn put(client: &Client, path: &str, version: &str, body: &Value) {
    let got = client.send(&Method::PUT, &with_version(path, version), Some(body));
    assert!(got.status < 300, "cannot seed {path}: {} {}\n{body}", got.status, got.body);
}

fn group(client: &Client, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let in_group = parts.get(3).is_some_and(|part| part.eq_ignore_ascii_case("resourceGroups"));
    let (true, Some(path)) = (in_group, parts.get(..5).map(|parts| parts.join("/"))) else { return false };
    if client.get(&path, "2022-09-01").status == 200 {
        return false;
    }
    put(client, &path, "2022-09-01", &json!({"location": "westus"}));
    true
}

/// A scale set as its first recorded answer shows it.
fn scale_set(client: &Client, recorded: &[Interaction], one: &Interaction, rename: &dyn Fn(&str) -> String) -> bool {
    let Some(id) = super::replay::scale_set(one.path()).filter(|id| !exists(client, id)) else { return false };
    let answers = recorded.iter().flat_map(|one| {
        let answer = one.answer();
        answer["value"].as_array().map_or_else(|| vec![answer], |items| items.iter().collect())
    });
    let first =
        answers.into_iter().find(|answer| answer["id"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(&id)));
    let mut body = first.cloned().unwrap_or_else(|| small_scale_set(recorded, &id));
    if body.pointer("/properties/virtualMachineProfile").is_none() {
        // A flexible set for VMs of any kind, which is not simulated.
        return false;
    }
    let Value::Object(fields) = &mut body else { panic!("{id} is not an object") };
    for name in ["id", "name", "type", "etag", "resources"] {
        fields.remove(name);
    }
    if let Some(Value::Object(identity)) = fields.get_mut("identity") {
        identity.retain(|name, _| name == "type" || name == "userAssignedIdentities");
    }
    put(client, &id, COMPUTE, &serde_json::from_str(&rename(&body.to_string())).expect("json"));
    true
}

/// A scale set of which only instances were recorded.
fn small_scale_set(recorded: &[Interaction], id: &str) -> Value {
    let items = recorded.iter().flat_map(|one| one.answer()["value"].as_array().cloned().unwrap_or_default());
    let prefix = format!("{id}/").to_ascii_lowercase();
    let instances: Vec<Value> = items
        .filter(|item| item["id"].as_str().is_some_and(|known| known.to_ascii_lowercase().starts_with(&prefix)))
        .collect();
    // Instances of flexible sets are VMs, which show nothing of their set.
    let Some(instance) = instances.iter().find(|instance| instance.get("sku").is_some()) else {
        let mode = if instances.is_empty() { "Uniform" } else { "Flexible" };
        return json!({"location": "westus", "tags": {}, "sku": {"name": "Standard_DS1_v2", "tier": "Standard", "capacity": 2},
            "properties": {"orchestrationMode": mode, "upgradePolicy": {"mode": "Manual"}, "virtualMachineProfile": {"storageProfile": {"imageReference":
                {"publisher": "Debian", "offer": "debian-10", "sku": "10", "version": "latest"}}}}});
    };
    let at = |path: &str| instance.pointer(path).cloned().unwrap_or_default();
    let numbers: std::collections::BTreeSet<&str> =
        instances.iter().filter_map(|item| item["instanceId"].as_str()).collect();
    json!({
        "location": instance["location"],
        "tags": instance["tags"],
        "sku": {"name": instance["sku"]["name"], "tier": "Standard", "capacity": numbers.len()},
        "properties": {
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {
                "storageProfile": {
                    "imageReference": at("/properties/storageProfile/imageReference"),
                    "diskControllerType": at("/properties/storageProfile/diskControllerType"),
                    "osDisk": {"osType": at("/properties/storageProfile/osDisk/osType"), "createOption": "FromImage", "caching": "ReadWrite",
                        "managedDisk": {"storageAccountType": at("/properties/storageProfile/osDisk/managedDisk/storageAccountType")}, "diskSizeGB": 30},
                },
                "securityProfile": at("/properties/securityProfile"),
                "osProfile": {
                    "computerNamePrefix": "seed",
                    "adminUsername": at("/properties/osProfile/adminUsername"),
                    "linuxConfiguration": at("/properties/osProfile/linuxConfiguration"),
                    "windowsConfiguration": at("/properties/osProfile/windowsConfiguration"),
                },
                "networkProfile": at("/properties/networkProfileConfiguration"),
            },
        },
    })
}

/// The VMs that a request refers to.
fn machine_ids(body: &Value) -> Vec<String> {
    match body {
        Value::String(text) if text.contains("/Microsoft.Compute/virtualMachines/") => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(machine_ids).collect(),
        Value::Object(fields) => fields.values().flat_map(machine_ids).collect(),
        _ => Vec::new(),
    }
}

/// A VM with as many data disks as the images and image versions of the recording have.
fn machine(client: &Client, recorded: &[Interaction], id: &str, one: &Interaction) -> bool {
    if exists(client, id) {
        return false;
    }
    let (group, name) = id.split_once("/providers/Microsoft.Compute/virtualMachines/").expect("the id of a VM");
    let location = &one.answer()["location"];
    let interface = format!("{group}/providers/Microsoft.Network/networkInterfaces/{name}");
    put(client, &interface, NETWORK, &json!({"location": location, "properties": {"ipConfigurations": []}}));
    let count = |answer: &Value| {
        let disks =
            ["dataDisks", "dataDiskImages"].map(|name| answer.pointer(&format!("/properties/storageProfile/{name}")));
        disks.into_iter().flatten().filter_map(Value::as_array).map(Vec::len).max()
    };
    let disks: Vec<Value> = (0..recorded.iter().filter_map(|one| count(one.answer())).max().unwrap_or(0))
        .map(|lun| {
            let disk = format!("{group}/providers/Microsoft.Compute/disks/{name}_disk{}", lun + 2);
            let body = json!({"location": location, "sku": {"name": "Premium_LRS"},
                "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 10}});
            put(client, &disk, DISK, &body);
            json!({"lun": lun, "createOption": "Attach", "caching": "None", "managedDisk": {"id": disk, "storageAccountType": "Premium_LRS"}})
        })
        .collect();
    let body = json!({"location": location, "properties": {
        "hardwareProfile": {"vmSize": "Standard_DS1_v2"},
        "osProfile": {"computerName": name, "adminUsername": "clitest1"},
        "networkProfile": {"networkInterfaces": [{"id": interface}]},
        "storageProfile": {
            "imageReference": {"publisher": "Debian", "offer": "debian-10", "sku": "10", "version": "latest"},
            "osDisk": {"osType": "Linux", "createOption": "FromImage", "caching": "ReadWrite", "managedDisk": {"storageAccountType": "Premium_LRS"}},
            "dataDisks": disks,
        },
    }});
    put(client, id, COMPUTE, &body);
    true
}
