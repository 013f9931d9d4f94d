//! Single machines, and the leftovers of an interrupted creation.

use kiln_types::{
    MachineDisk, MachineSpec, MachineState, Machines, Priority, Provisioning, Secret, SecurityType, Tags,
};
use serde_json::{Value, json};

use crate::script::{GROUP, Script, Step, azure, on};

const VM: &str = "/virtualMachines/node1";
const NIC: &str = "/networkInterfaces/node1-nic";
const DISK: &str = "/disks/node1-os";

fn spec() -> MachineSpec {
    MachineSpec {
        name: "node1".parse().unwrap(),
        location: "westus2".into(),
        zone: Some("1".into()),
        size: "Standard_D2s_v3".into(),
        image: "/subscriptions/s/image".into(),
        subnet: "/subscriptions/s/subnet".into(),
        security_group: Some("/subscriptions/s/nsg".into()),
        custom_data: Secret::new("#cloud-config\n"),
        admin_user: "azureuser".into(),
        ssh_public_key: "ssh-ed25519 AAAA".into(),
        priority: Priority::Spot,
        identities: vec!["/subscriptions/s/identity".into()],
        disk: MachineDisk {
            kind: "Premium_LRS".into(),
            size_gib: Some(64),
            encryption_set: Some("/subscriptions/s/des".into()),
        },
        security_type: SecurityType::TrustedLaunch,
        encryption_at_host: true,
        tags: Tags::from([("kiln-owner".to_owned(), "me".to_owned())]),
    }
}

fn part(path: &str, tags: &Value) -> Value {
    json!({"id": format!("{GROUP}{path}"), "name": "x", "tags": tags, "properties": {"provisioningState": "Succeeded", "vmId": "v"}})
}

fn owner_tags() -> Value {
    json!({"kiln-owner": "me", "kiln-machine": "node1"})
}

fn missing(path: &'static str) -> Step {
    on("GET", path).fails(404, "ResourceNotFound", "none")
}

fn present(path: &'static str) -> Step {
    on("GET", path).answers(200, &part(path, &owner_tags()))
}

#[tokio::test(start_paused = true)]
async fn creation_puts_the_interface_then_the_vm() {
    let script = Script::new([
        missing(VM),
        missing(NIC),
        on("PUT", NIC).answers(201, &part(NIC, &owner_tags())),
        on("PUT", VM).answers(201, &part(VM, &owner_tags())),
        present(VM),
        present(NIC),
        present(DISK),
    ]);
    let machine = azure(&script).create(&spec()).await.unwrap();
    script.assert_finished();
    assert_eq!(machine.state, MachineState::Present { provisioning: Provisioning::Succeeded, vm_id: Some("v".into()) });
    assert_eq!(machine.parts.len(), 3);

    let request = script.requests();
    assert_eq!(request[2].body["tags"], owner_tags());
    assert_eq!(request[2].body["properties"]["networkSecurityGroup"]["id"], "/subscriptions/s/nsg");
    let vm = &request[3].body;
    assert_eq!(vm["zones"], json!(["1"]));
    assert_eq!(
        vm["identity"],
        json!({"type": "UserAssigned", "userAssignedIdentities": {"/subscriptions/s/identity": {}}})
    );
    let p = &vm["properties"];
    assert_eq!(p["osProfile"]["customData"], "I2Nsb3VkLWNvbmZpZwo=");
    assert_eq!((&p["priority"], &p["evictionPolicy"]), (&json!("Spot"), &json!("Delete")));
    assert_eq!(p["securityProfile"], json!({"securityType": "TrustedLaunch", "encryptionAtHost": true}));
    assert_eq!(p["storageProfile"]["osDisk"]["managedDisk"]["diskEncryptionSet"]["id"], "/subscriptions/s/des");
    assert_eq!(p["networkProfile"]["networkInterfaces"][0]["properties"]["deleteOption"], "Delete");
}

#[tokio::test(start_paused = true)]
async fn interrupted_creation_is_completed_without_a_second_vm() {
    let creating = json!({"id": "x", "tags": owner_tags(), "properties": {"provisioningState": "Creating"}});
    let script = Script::new([
        on("GET", VM).answers(200, &creating),
        on("GET", VM).answers(200, &creating),
        present(VM),
        present(VM),
        present(NIC),
        present(DISK),
    ]);
    azure(&script).create(&spec()).await.unwrap();
    script.assert_finished();
    assert!(script.requests().iter().all(|a| a.method == "GET"));
}

#[tokio::test(start_paused = true)]
async fn list_finds_machines_and_leftovers_of_the_owner_only() {
    let list = |parts: Vec<Value>| json!({ "value": parts });
    let other = json!({"kiln-owner": "you", "kiln-machine": "node9"});
    let unnamed = json!({"kiln-owner": "me"});
    let fragment = json!({"kiln-owner": "me", "kiln-machine": "node2"});
    let script = Script::new([
        on("GET", "/virtualMachines")
            .answers(200, &list(vec![part(VM, &owner_tags()), part("/virtualMachines/node9", &other)])),
        on("GET", "/networkInterfaces").answers(
            200,
            &list(vec![
                part(NIC, &owner_tags()),
                part("/networkInterfaces/node2-nic", &fragment),
                part("/networkInterfaces/by-hand", &unnamed),
            ]),
        ),
        on("GET", "/disks").answers(200, &list(vec![])),
    ]);
    let machines = azure(&script).list("kiln-owner", "me").await.unwrap();
    let found: Vec<_> =
        machines.iter().map(|m| (m.name.as_str(), m.parts.len(), m.state == MachineState::Fragment)).collect();
    assert_eq!(found, [("node1", 2, false), ("node2", 1, true)]);
}

#[tokio::test(start_paused = true)]
async fn deletion_removes_the_vm_first_and_is_idempotent() {
    let script = Script::new([
        present(VM),
        on("DELETE", VM).answers(202, &json!(null)).header("location", "https://arm.example/l"),
        missing(VM),
        on("DELETE", NIC).answers(204, &json!(null)),
        on("DELETE", DISK).fails(404, "ResourceNotFound", "none"),
        missing(VM),
        on("DELETE", VM).answers(204, &json!(null)),
        on("DELETE", NIC).answers(204, &json!(null)),
        on("DELETE", DISK).answers(204, &json!(null)),
    ]);
    let azure = azure(&script);
    for _ in 0..2 {
        azure.delete(&"node1".parse().unwrap()).await.unwrap();
    }
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn resource_of_another_owner_is_not_overwritten() {
    for tags in
        [json!({}), json!({"kiln-machine": "node1", "kiln.dev_owner": "them"}), json!({"kiln-machine": "node2"})]
    {
        let script = Script::new([missing(VM), on("GET", NIC).answers(200, &part(NIC, &tags))]);
        let error = azure(&script).create(&spec()).await.unwrap_err();
        script.assert_finished();
        assert!(error.to_string().ends_with("and is not overwritten"), "{error}");
        let script = Script::new([on("GET", VM).answers(200, &part(VM, &tags))]);
        azure(&script).create(&spec()).await.unwrap_err();
        script.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn confirmation_keeps_other_tags_and_is_written_once() {
    let begun = json!({"kiln-machine": "node1", "kiln.dev_launch": "2026-01-01T00:00:00Z", "team": "a"});
    let done = json!({"kiln-machine": "node1", "kiln.dev_launch": "done", "team": "a"});
    let script = Script::new([
        on("GET", VM).answers(200, &part(VM, &begun)),
        on("PATCH", VM).answers(200, &part(VM, &done)),
        on("GET", VM).answers(200, &part(VM, &done)),
    ]);
    let azure = azure(&script);
    azure.confirm(&"node1".parse().unwrap()).await.unwrap();
    azure.confirm(&"node1".parse().unwrap()).await.unwrap();
    script.assert_finished();
    assert_eq!(script.requests()[1].body["tags"], done);
}

#[tokio::test(start_paused = true)]
async fn collection_checks_each_resource_again_and_skips_foreign_ones() {
    let theirs = json!({"kiln-owner": "you", "kiln-machine": "node1"});
    let script = Script::new([
        on("GET", NIC).answers(200, &part(NIC, &theirs)),
        on("GET", DISK).answers(200, &part(DISK, &owner_tags())),
        on("DELETE", DISK).answers(204, &json!(null)),
    ]);
    let fragment = kiln_types::Machine {
        name: "node1".parse().unwrap(),
        state: MachineState::Fragment,
        parts: [NIC, DISK].map(|path| format!("{GROUP}{path}")).to_vec(),
        tags: Tags::new(),
    };
    azure(&script).collect(&fragment, "kiln-owner", "me").await.unwrap();
    script.assert_finished();
}
