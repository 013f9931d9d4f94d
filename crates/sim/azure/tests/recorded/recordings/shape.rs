//! The paths that most recorded answers of a kind have, in the answers of a default world.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use super::data::{self, shape};
use crate::common::{COMPUTE, Client, DISK, GALLERY, NETWORK, POOL};

/// The share of recorded answers that makes a path part of the shape, in percent.
const COMMON: usize = 80;

/// The answers of each kind with a shape, by type of the target.
fn recorded() -> BTreeMap<String, Vec<Value>> {
    let mut answers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for one in data::all().into_values().flatten() {
        let kind = one.kind();
        let (method, target) = kind.split_once(' ').expect("method and target");
        let Some(body) = one.body.filter(|_| one.status < 300) else { continue };
        if let Some(items) = body["value"].as_array() {
            answers.entry(format!("{target}/*")).or_default().extend(items.iter().cloned());
            continue;
        }
        // A kind is judged twice: over all answers, and over those of a read, which have the fields that Azure adds later.
        if method == "GET" {
            answers.entry(format!("GET {target}")).or_default().push(body.clone());
        }
        answers.entry(target.to_owned()).or_default().push(body);
    }
    answers
}

/// The paths that at least [`COMMON`] percent of the answers have.
fn common(answers: &[Value]) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in answers.iter().flat_map(|answer| shape(answer).into_keys()) {
        *counts.entry(path).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| count * 100 >= answers.len() * COMMON).map(|(path, _)| path).collect()
}

/// The answers of the embedded Azure by type of the target.
fn own() -> BTreeMap<&'static str, Value> {
    let client = Client::instant();
    let set = format!("virtualMachineScaleSets/{POOL}");
    let versions = client.ready_for_version();
    let location = "westus2";
    let interface = format!("{}/providers/Microsoft.Network/networkInterfaces/nic", client.group());
    client.done(client.put(
        &interface,
        NETWORK,
        &json!({"location": location, "properties": {"ipConfigurations": []}}),
    ));
    let empty = json!({"location": location, "sku": {"name": "Premium_LRS"}, "tags": {},
        "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 10}});
    let disk = client.done(client.put(&client.compute("disks/data"), DISK, &empty));
    let machine = json!({"location": location, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D2s_v3"},
        "osProfile": {"computerName": "vm", "adminUsername": "azureuser"},
        "networkProfile": {"networkInterfaces": [{"id": interface}]},
        "storageProfile": {
            "imageReference": {"publisher": "Debian", "offer": "debian-10", "sku": "10", "version": "latest"},
            "osDisk": {"createOption": "FromImage"},
            "dataDisks": [{"lun": 0, "createOption": "Attach", "caching": "None", "managedDisk": {"id": disk.body["id"]}}],
        },
    }});
    client.done(client.put(&client.compute("virtualMachines/vm"), COMPUTE, &machine));
    let source = json!({"id": client.compute("virtualMachines/vm")});
    let image = json!({"location": location, "tags": {}, "properties": {"sourceVirtualMachine": source}});
    let image = client.done(client.put(&client.compute("images/image"), COMPUTE, &image));
    let tagged = |mut body: Value| {
        body["tags"] = json!({});
        body
    };
    let version = format!("{versions}/1.0.0");
    let written = client.done(client.put(&version, GALLERY, &tagged(client.version_body("Standard_LRS", false))));
    let tags = json!({"tags": {"a": "b"}});
    let definition = versions.strip_suffix("/versions").expect("the versions of a definition").to_owned();
    client.done(client.patch(&definition, GALLERY, &tags));
    client.done(client.patch(&client.compute("snapshots/snap"), DISK, &tags));
    let status = |got: &crate::common::Got| client.send(&Method::GET, got.header("azure-asyncoperation"), None).body;
    let read = |path: &str, version: &str| {
        let got = client.get(path, version);
        assert_eq!(got.status, 200, "{path}: {}", got.body);
        got.body
    };
    let compute = |path: &str, version: &str| read(&client.compute(path), version);
    let own = BTreeMap::from([
        ("virtualMachineScaleSets/*", compute(&set, "2024-11-01")),
        ("virtualMachineScaleSets/*/instanceView", compute(&format!("{set}/instanceView"), COMPUTE)),
        ("virtualMachineScaleSets/*/virtualMachines/*", compute(&format!("{set}/virtualMachines/0"), "2024-11-01")),
        (
            "virtualMachineScaleSets/*/virtualMachines/*/instanceView",
            compute(&format!("{set}/virtualMachines/0/instanceView"), COMPUTE),
        ),
        ("galleries/*", compute("galleries/SIG_x", GALLERY)),
        ("galleries/*/images/*", read(&definition, GALLERY)),
        ("galleries/*/images/*/versions/*", read(&version, "2024-03-03")),
        ("snapshots/*", compute("snapshots/snap", DISK)),
        ("disks/*", compute("disks/data", DISK)),
        ("images/*", compute("images/image", COMPUTE)),
        ("locations/*/operations/*", status(&image)),
        ("locations/*/DiskOperations/*", status(&disk)),
        ("locations/*/capsOperations/*", status(&written)),
    ]);
    client.take_findings();
    own
}

#[tokio::test]
async fn answers_have_the_paths_of_most_recorded_answers() {
    let (recorded, own) = (recorded(), own());
    let (mut missing, mut total) = (Vec::new(), 0);
    for (kind, answers) in &recorded {
        let target = kind.strip_prefix("GET ").unwrap_or(kind);
        let Some(answer) = own.get(target) else { continue };
        let paths = shape(answer);
        let wanted = common(answers);
        total += wanted.len();
        missing.extend(wanted.iter().filter(|path| !paths.contains_key(*path)).map(|path| format!("{kind}: {path}")));
    }
    assert!(missing.is_empty(), "{} of {total} paths are missing:\n{}", missing.len(), missing.join("\n"));
    assert!(total > 400, "only {total} paths were compared");
}
