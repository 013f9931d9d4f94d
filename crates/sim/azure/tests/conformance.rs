//! Conformance to Azure's OpenAPI files, operation by operation. The client checks each exchange when it is dropped.

mod common;

use common::{COMPUTE, Client, DISK, GALLERY, NETWORK, POOL, RESOURCES, SUBSCRIPTIONS};
use serde_json::json;

#[tokio::test]
async fn life_cycle_of_pool_and_image_conforms_to_the_specifications() {
    let client = Client::instant();
    let set = client.compute(&format!("virtualMachineScaleSets/{POOL}"));
    for path in [
        "",
        "/virtualMachines",
        "/virtualMachines/0",
        "/virtualMachines/0/instanceView",
        "/instanceView",
        "/extensions",
        "/extensions/vmssCSE",
    ] {
        assert_eq!(client.get(&format!("{set}{path}"), COMPUTE).status, 200, "{path}");
    }
    assert_eq!(client.get(&format!("{set}?$expand=userData"), COMPUTE).status, 200);
    assert_eq!(client.get(&format!("{set}/virtualMachines/0?$expand=instanceView"), COMPUTE).status, 200);
    assert_eq!(client.get(&client.compute("virtualMachineScaleSets"), COMPUTE).status, 200);

    let versions = client.ready_for_version();
    client.done(client.put(&format!("{versions}/2026.11.15"), GALLERY, &client.version_body("Standard_ZRS", true)));
    assert_eq!(client.get(&format!("{versions}/2026.11.15?$expand=ReplicationStatus"), GALLERY).status, 200);
    client.done(client.patch(
        &format!("{versions}/2026.11.15"),
        GALLERY,
        &json!({"properties": {
            "publishingProfile": {"excludeFromLatest": false},
            "storageProfile": {"osDiskImage": {"source": {"id": client.compute("snapshots/snap")}}},
        }}),
    ));
    for path in [
        "galleries",
        "galleries/SIG_x",
        "galleries/SIG_x/images",
        "galleries/SIG_x/images/def",
        "galleries/SIG_x/images/def/versions",
    ] {
        assert_eq!(client.get(&client.compute(path), GALLERY).status, 200, "{path}");
    }
    for path in ["snapshots", "snapshots/snap", "disks"] {
        assert_eq!(client.get(&client.compute(path), DISK).status, 200, "{path}");
    }
    let image = client.compute("galleries/SIG_x/images/def");
    client.done(client.patch(
        &set,
        COMPUTE,
        &json!({"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {"id": image}}}}}),
    ));
    client.done(client.patch(
        &set,
        COMPUTE,
        &json!({"sku": {"name": "Standard_D2s_v3", "tier": "Standard", "capacity": 12}}),
    ));
    let ids = json!({"instanceIds": ["0"]});
    for action in ["powerOff", "start", "deallocate", "start", "restart", "reimage", "redeploy"] {
        client.done(client.post(&format!("{set}/{action}"), COMPUTE, Some(&ids)));
        assert_eq!(
            client.get(&format!("{set}/virtualMachines/0?$expand=instanceView"), COMPUTE).status,
            200,
            "{action}"
        );
    }
    for action in ["powerOff", "start", "deallocate", "start", "restart", "redeploy"] {
        client.done(client.post(&format!("{set}/virtualMachines/1/{action}"), COMPUTE, None));
    }
    client.done(client.post(&format!("{set}/manualupgrade"), COMPUTE, Some(&ids)));
    let protect = json!({"location": "westus2", "properties": {"protectionPolicy": {"protectFromScaleIn": true}, "userData": "aGk="}});
    client.done(client.put(&format!("{set}/virtualMachines/0"), COMPUTE, &protect));
    client.done(client.post(&format!("{set}/delete"), COMPUTE, Some(&json!({"instanceIds": ["11"]}))));
    let script = json!({"properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.0", "settings": {}, "protectedSettings": {"commandToExecute": "true"}}});
    client.done(client.put(&format!("{set}/extensions/extra"), COMPUTE, &script));
    client.done(client.delete(&format!("{set}/extensions/extra"), COMPUTE));

    client.done(client.delete(&client.compute("snapshots/snap"), DISK));
    client.done(client.delete(&format!("{set}/virtualMachines/10"), COMPUTE));
    client.done(client.delete(&set, COMPUTE));
    client.done(client.delete(&format!("{versions}/2026.11.15"), GALLERY));
    client.done(client.delete(&image, GALLERY));
    client.done(client.delete(&client.compute("galleries/SIG_x"), GALLERY));
}

#[tokio::test]
async fn subscriptions_groups_and_errors_conform_to_the_specifications() {
    let client = Client::instant();
    let spec = client.sim.spec();
    let subscription = format!("/subscriptions/{}", spec.subscription_id);
    for (path, version) in [
        ("/subscriptions".to_owned(), SUBSCRIPTIONS),
        (subscription.clone(), SUBSCRIPTIONS),
        (format!("{subscription}/locations"), SUBSCRIPTIONS),
        (format!("{subscription}/resourcegroups"), RESOURCES),
        (client.group(), RESOURCES),
        (format!("{}/resources", client.group()), RESOURCES),
        (format!("{subscription}/resources"), RESOURCES),
        (format!("{subscription}/providers/Microsoft.Compute"), RESOURCES),
    ] {
        let got = client.get(&path, version);
        assert_eq!(got.status, 200, "{path} {}", got.body);
    }
    client.done(client.put(
        &format!("{subscription}/resourcegroups/other"),
        RESOURCES,
        &json!({"location": "eastus", "tags": {"a": "b"}}),
    ));
    client.done(client.patch(&format!("{subscription}/resourcegroups/other"), RESOURCES, &json!({"tags": {"a": "c"}})));
    client.done(client.delete(&format!("{subscription}/resourcegroups/other"), RESOURCES));
    assert_eq!(client.get(&format!("{subscription}/resourcegroups/other"), RESOURCES).code(), "ResourceGroupNotFound");
    for (path, version) in [
        ("virtualMachineScaleSets/none", COMPUTE),
        ("galleries/none", GALLERY),
        ("snapshots/none", DISK),
        ("disks/none", DISK),
    ] {
        let got = client.get(&client.compute(path), version);
        assert_eq!((got.status, got.code()), (404, "ResourceNotFound"), "{path}");
    }
}

#[tokio::test]
async fn machines_disks_and_interfaces_conform_to_the_specifications() {
    let client = Client::instant();
    let network = format!("{}/providers/Microsoft.Network", client.group());
    let subnet = format!("{network}/virtualNetworks/k8s-vnet/subnets/k8s-subnet");
    assert_eq!(client.get(&subnet, NETWORK).status, 200);
    let nic = json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "a", "properties": {"subnet": {"id": subnet}}}]}});
    client.done(client.put(&format!("{network}/networkInterfaces/nic"), NETWORK, &nic));
    let machine = client.compute("virtualMachines/vm");
    let body = json!({"location": "westus2", "tags": {"k": "v"}, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D2s_v3"},
        "osProfile": {"computerName": "vm", "adminUsername": "u", "customData": "aGk=", "linuxConfiguration": {"disablePasswordAuthentication": true}},
        "storageProfile": {"imageReference": {"publisher": "p", "offer": "o", "sku": "s", "version": "latest"},
            "osDisk": {"name": "vm-os", "createOption": "FromImage", "deleteOption": "Delete"}},
        "networkProfile": {"networkInterfaces": [{"id": format!("{network}/networkInterfaces/nic"), "properties": {"deleteOption": "Delete"}}]},
        "userData": "aGk="}});
    client.done(client.put(&machine, COMPUTE, &body));
    assert_eq!(client.get(&client.compute("disks/vm-os"), DISK).status, 200);
    for path in ["", "?$expand=userData", "?$expand=instanceView", "/instanceView"] {
        assert_eq!(client.get(&format!("{machine}{path}"), COMPUTE).status, 200);
    }
    for action in ["powerOff", "start", "deallocate", "start", "restart"] {
        client.done(client.post(&format!("{machine}/{action}"), COMPUTE, None));
    }
    assert_eq!(client.get(&client.compute("virtualMachines"), COMPUTE).status, 200);
    client.done(client.patch(&machine, COMPUTE, &json!({"tags": {"k": "w"}})));
    client.done(client.delete(&machine, COMPUTE));
    assert_eq!(client.get(&format!("{network}/networkInterfaces/nic"), NETWORK).status, 404);

    let disk = client.compute("disks/data");
    client.done(client.put(
        &disk,
        DISK,
        &json!({"location": "westus2", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8}}),
    ));
    client.done(client.patch(&disk, DISK, &json!({"tags": {"a": "b"}})));
    assert_eq!(client.get(&disk, DISK).status, 200);
    client.done(client.delete(&disk, DISK));
}
