//! Disk contents of copies, and the effect of a boot on them.

mod common;

use std::collections::BTreeSet;

use common::{COMPUTE, Client, DISK, GALLERY, start};
use jiff::SignedDuration;
use kiln_node_plan::Treatment::{Keep, Remove, Reset};
use kiln_node_plan::identity::with;
use kiln_sim_azure::{ContentsSpec, Defect, MachineView, Options, Sim, WorldSpec};
use serde_json::{Value, json};

const UNIT: &str = "pools: [{name: p, capacity: 2, customData: '#!/bin/sh join', contents: {firstBootUnit: '1'}}]";

fn client_for(text: &str) -> Client {
    Client::with_options(WorldSpec::parse("world", text).expect("a world file"), Options::instant(start()))
}

fn machine(client: &Client, name: &str) -> MachineView {
    let all = client.sim.machines();
    let found = all.iter().find(|machine| machine.computer_name == name);
    found
        .unwrap_or_else(|| panic!("no machine {name} in {:?}", all.iter().map(|one| &one.name).collect::<Vec<_>>()))
        .clone()
}

fn instance(number: u32) -> String {
    format!("virtualMachineScaleSets/p/virtualMachines/{number}")
}

/// Creates an image version from an instance: stop, snapshot, start, version.
fn snapshot(client: &Client, donor: u32, version: &str) -> String {
    let path = client.compute(&instance(donor));
    client.done(client.post(&format!("{path}/powerOff"), COMPUTE, None));
    let body = client.get(&path, COMPUTE).body;
    let disk = &body["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"];
    let snapshot = json!({"location": "westus2", "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": disk}}});
    let name = format!("snapshots/{}", version.replace('.', "-"));
    client.done(client.put(&client.compute(&name), DISK, &snapshot));
    client.done(client.post(&format!("{path}/start"), COMPUTE, None));
    let plain = json!({"location": "westus2", "properties": {}});
    client.done(client.put(&client.compute("galleries/g"), GALLERY, &plain));
    let definition = json!({"location": "westus2", "properties": {"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V1",
        "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}});
    client.done(client.put(&client.compute("galleries/g/images/d"), GALLERY, &definition));
    let id = client.compute(&format!("galleries/g/images/d/versions/{version}"));
    let body = json!({"location": "westus2", "properties": {"storageProfile": {"osDiskImage": {"source": {"id": client.compute(&name)}}}}});
    client.done(client.put(&id, GALLERY, &body));
    id
}

/// Applies kamino's recipe: the image, and custom data without effect.
fn recipe(client: &Client, image: &str) {
    let profile = json!({"storageProfile": {"imageReference": {"id": image}}, "osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="}});
    let patch = json!({"properties": {"virtualMachineProfile": profile}});
    client.sim.change_scale_set("p", &patch).expect("a model");
}

fn restart(client: &Client, number: u32) {
    client.done(client.post(&format!("{}/powerOff", client.compute(&instance(number))), COMPUTE, None));
    client.done(client.post(&format!("{}/start", client.compute(&instance(number))), COMPUTE, None));
}

fn stages(machine: &MachineView) -> Vec<&str> {
    machine.boot.as_ref().expect("a boot").stages.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn clones_and_clones_of_clones_have_distinct_identities() {
    let client = client_for(UNIT);
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    client.sim.scale("p", 4).expect("two clones");
    recipe(&client, &snapshot(&client, 2, "2.0.0"));
    client.sim.scale("p", 5).expect("a clone of a clone");
    let family = ["p000000", "p000002", "p000003", "p000004"].map(|name| machine(&client, name));
    for item in with(Reset) {
        let values: BTreeSet<_> = family.iter().map(|one| one.contents.identity.get(item.name)).collect();
        assert!(values.len() == 4 && !values.contains(&None), "{}: {values:?}", item.name);
    }
    for item in with(Keep) {
        let values: BTreeSet<_> = family.iter().map(|one| one.contents.identity.get(item.name)).collect();
        assert!(values.len() == 1 && !values.contains(&None), "{}: {values:?}", item.name);
    }
    for item in with(Remove) {
        assert!(family[0].contents.identity.contains_key(item.name), "{}", item.name);
        assert!(family[1..].iter().all(|clone| !clone.contents.identity.contains_key(item.name)), "{}", item.name);
    }
    for one in &family {
        assert_eq!((one.host_name(), &one.cannot_join), (one.computer_name.as_str(), &None));
        assert_eq!(one.contents.first_boot_unit.as_ref().expect("the unit").recorded_vm_id, one.vm_id);
    }
    let has_custom_data = |one: &MachineView| (one.custom_data.is_some(), one.contents.custom_data.present());
    assert_eq!(family.each_ref().map(has_custom_data), [(true, true), (false, false), (false, false), (false, false)]);
    let line: Vec<&str> =
        family[3].contents.ancestry.iter().filter_map(|one| one.image_version.rsplit('/').next()).collect();
    assert_eq!(line, ["1.0.0", "2.0.0"]);
}

#[tokio::test]
async fn clone_without_the_unit_has_the_donors_name() {
    let client = client_for("pools: [{name: p, customData: '#!/bin/sh join'}]");
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    client.sim.scale("p", 2).expect("a clone");
    let (donor, clone) = (machine(&client, "p000000"), machine(&client, "p000001"));
    assert_eq!(clone.host_name(), "p000000");
    assert_eq!(clone.contents.identity, donor.contents.identity);
    assert_eq!(clone.cannot_join, None, "the clone has the donor's certificate");
    assert!(clone.contents.ancestry.is_empty(), "the ancestors were not recorded");
}

#[tokio::test]
async fn snapshot_changes_only_logs_on_the_donors_disk() {
    let client = client_for(UNIT);
    let before = machine(&client, "p000000");
    snapshot(&client, 0, "1.0.0");
    let after = machine(&client, "p000000");
    assert!(after.contents.logs > before.contents.logs);
    let mut same = (*after.contents).clone();
    same.logs = before.contents.logs;
    assert_eq!(same, *before.contents);
    assert_eq!((after.custom_data, after.vm_id), (before.custom_data, before.vm_id));
}

#[tokio::test]
async fn second_boot_of_a_clone_changes_only_logs() {
    let client = client_for(UNIT);
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    client.sim.scale("p", 3).expect("a clone");
    let before = machine(&client, "p000002");
    restart(&client, 2);
    let after = machine(&client, "p000002");
    assert_eq!(after.contents.logs, before.contents.logs + 1);
    let mut same = (*after.contents).clone();
    same.logs = before.contents.logs;
    assert_eq!(same, *before.contents);
}

#[tokio::test]
async fn clone_joins_after_token_revocation_only_with_a_lasting_credential() {
    for (credential, joins) in [
        ("{kind: staticClientCertificate, path: /etc/kubernetes/certs/client.crt}", true),
        ("{kind: execPlugin, command: /usr/bin/azure-credential}", true),
        ("{kind: bootstrapToken, tokenId: abcdef, renewedBy: token-renewer}", true),
        ("{kind: bootstrapToken, tokenId: abcdef}", false),
        ("{kind: nodeCertificate, path: /etc/kubernetes/kubelet.conf}", false),
        ("{kind: unknown, why: nothing under /etc/kubernetes}", false),
    ] {
        let client = client_for(&format!(
            "pools: [{{name: p, customData: '#!/bin/sh join', contents: {{firstBootUnit: '1', joinCredential: {credential}}}}}]"
        ));
        recipe(&client, &snapshot(&client, 0, "1.0.0"));
        let began = client.sim.now();
        client.sim.pass(SignedDuration::from_hours(30 * 24)).expect("time passes");
        client.sim.revoke_token("abcdef".parse().expect("an id")).expect("revoked");
        client.sim.scale("p", 2).expect("a clone");
        let clone = machine(&client, "p000001");
        assert!(client.sim.now() >= began + SignedDuration::from_hours(30 * 24));
        assert_eq!(clone.cannot_join.is_none(), joins, "{credential}: {:?}", clone.cannot_join);
        assert!(clone.up, "the clone boots anyway");
        restart(&client, 0);
        assert_eq!(machine(&client, "p000000").cannot_join, None, "the donor has its own certificate: {credential}");
    }
}

#[tokio::test]
async fn clone_joins_with_the_donors_token_while_it_is_valid() {
    let client = client_for(
        "pools: [{name: p, customData: '#!/bin/sh join', contents: {firstBootUnit: '1', joinCredential: {kind: bootstrapToken, tokenId: abcdef}}}]",
    );
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    client.sim.scale("p", 2).expect("a clone");
    assert_eq!(machine(&client, "p000001").cannot_join, None);
    client.sim.revoke_token("abcdef".parse().expect("an id")).expect("revoked");
    client.sim.scale("p", 3).expect("a clone");
    let why = machine(&client, "p000002").cannot_join.expect("it cannot join");
    assert!(why.contains("`abcdef`") && why.contains("revoked"), "{why}");
    restart(&client, 1);
    assert_eq!(machine(&client, "p000001").cannot_join, None, "the first clone joined before the revocation");
}

#[tokio::test]
async fn marketplace_image_joins_only_with_a_recipe() {
    let client = client_for("pools: [{name: p, customData: '#!/bin/sh join'}]");
    assert_eq!(machine(&client, "p000000").cannot_join, None);
    let no_op = json!({"properties": {"virtualMachineProfile": {"osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="}}}});
    client.sim.change_scale_set("p", &no_op).expect("a model");
    client.sim.scale("p", 2).expect("a machine");
    let lost = machine(&client, "p000001");
    let why = lost.cannot_join.as_deref().expect("it cannot join");
    assert!(lost.up && why.contains("no join credential"), "{why}");
    // A script is as good as custom data.
    let script = json!({"name": "s", "properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.0"}});
    let path = client.compute("virtualMachineScaleSets/p/extensions/s");
    client.done(client.put(&path, COMPUTE, &script));
    client.sim.scale("p", 3).expect("a machine");
    assert_eq!(machine(&client, "p000002").cannot_join, None);
}

#[tokio::test]
async fn recipe_with_revoked_token_creates_no_node() {
    let client = client_for(
        "revokedTokens: [abcdef]\npools: [{name: p, customData: '#!/bin/sh join', contents: {joinCredential: {kind: bootstrapToken, tokenId: abcdef}}}]",
    );
    assert!(machine(&client, "p000000").cannot_join.is_some_and(|why| why.contains("revoked")));
}

#[tokio::test]
async fn image_of_a_pool_without_recipe_joins_by_itself() {
    let client = client_for("pools: [{name: p}]");
    assert_eq!(machine(&client, "p000000").cannot_join, None);
}

#[tokio::test]
async fn clone_has_patches_and_images_but_no_script_or_custom_data() {
    let client = Client::instant();
    let pool = common::POOL;
    let old = machine(&client, &format!("{pool}000001"));
    let patched = machine(&client, &format!("{pool}000000"));
    assert_ne!(old.contents.kernel, patched.contents.kernel);
    client.sim.install_first_boot(&patched.vm_id, "1").expect("the unit");
    let versions = client.ready_for_version();
    let version = format!("{versions}/1.2.3");
    client.done(client.put(&version, GALLERY, &client.version_body("Standard_LRS", false)));
    client.sim.scale(pool, 11).expect("scale out with the old recipe");
    let profile = json!({"storageProfile": {"imageReference": {"id": version}}, "osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="},
        "extensionProfile": {"extensions": []}});
    client.sim.change_scale_set(pool, &json!({"properties": {"virtualMachineProfile": profile}})).expect("a model");
    client.sim.scale(pool, 12).expect("scale out with the new recipe");
    let (slow, fast) = (machine(&client, &format!("{pool}00000A")), machine(&client, &format!("{pool}00000B")));
    assert_eq!(stages(&slow), ["kernel", "network-online", "cloud-init", "script-extension", "kubelet"]);
    assert_eq!(stages(&fast), ["kernel", "network-online", "kubelet"]);
    let owed = |one: &MachineView| one.boot.as_ref().map(|boot| (boot.packages_behind, boot.images_to_pull));
    assert_eq!((owed(&slow), owed(&fast)), (Some((41, 5)), Some((0, 0))));
    assert_eq!(fast.contents.kernel, patched.contents.kernel);
    assert_eq!(fast.inspection().package_hash(), patched.inspection().package_hash());
    assert_ne!(slow.inspection().package_hash(), patched.inspection().package_hash());
}

#[tokio::test]
async fn boot_stages_can_install_updates_and_pull_images() {
    let client = client_for(
        "profile: {boot: [{name: patches, seconds: 2, when: packages}, {name: pull, seconds: 4, when: images}, {name: kubelet, seconds: 5}]}\n\
         pools: [{name: p, updates: {kernel: '6.8', packages: {curl: '9', jq: '9'}}, images: [a, b, c]}]",
    );
    let one = machine(&client, "p000000");
    assert_eq!(stages(&one), ["patches", "pull", "kubelet"]);
    let boot = one.boot.as_ref().expect("a boot");
    let lasted = boot.stages.last().expect("stages").1.duration_since(boot.started).as_secs();
    assert_eq!(lasted, 2 * 2 + 3 * 4 + 5);
    assert_eq!((one.contents.kernel.as_str(), one.contents.packages["curl"].as_str()), ("6.8", "9"));
    restart(&client, 0);
    assert_eq!(stages(&machine(&client, "p000000")), ["kubelet"]);
}

#[tokio::test]
async fn upgrade_and_reimage_restore_the_contents_of_the_image() {
    let client = client_for(UNIT);
    client
        .sim
        .alter_machine("p000000", &ContentsSpec { kernel: Some("6.8".to_owned()), ..ContentsSpec::default() })
        .expect("changed");
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    assert_ne!(machine(&client, "p000001").contents.kernel, "6.8");
    let upgrade = client.compute("virtualMachineScaleSets/p/manualUpgrade");
    client.done(client.post(&upgrade, COMPUTE, Some(&json!({"instanceIds": ["1"]}))));
    let upgraded = machine(&client, "p000001");
    assert_eq!((upgraded.contents.kernel.as_str(), upgraded.host_name()), ("6.8", "p000001"));
    client
        .sim
        .alter_machine("p000001", &ContentsSpec { kernel: Some("7.0".to_owned()), ..ContentsSpec::default() })
        .expect("changed");
    client.done(client.post(&format!("{}/reimage", client.compute(&instance(1))), COMPUTE, None));
    let again = machine(&client, "p000001");
    assert_eq!(again.contents.kernel, "6.8");
    assert_eq!(again.contents.identity, upgraded.contents.identity, "the same VM has the same identity");
}

#[tokio::test]
async fn clone_defect_spares_the_donor_and_stays_on_the_clone() {
    let client = client_for(UNIT);
    let defects = Some(BTreeSet::from([Defect::CloneNeverReady]));
    client.sim.alter_machine("p000000", &ContentsSpec { defects, ..ContentsSpec::default() }).expect("planted");
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    assert_eq!(machine(&client, "p000000").never_ready, None, "the donor was restarted");
    client.sim.scale("p", 3).expect("a clone");
    assert!(machine(&client, "p000002").never_ready.is_some());
    restart(&client, 2);
    assert!(machine(&client, "p000002").never_ready.is_some());
    let hangs = ContentsSpec { defects: Some(BTreeSet::from([Defect::NeverBoots])), ..ContentsSpec::default() };
    client.sim.alter_machine("p000001", &hangs).expect("planted");
    assert!(machine(&client, "p000001").up, "the clone has not booted since");
    restart(&client, 1);
    assert!(!machine(&client, "p000001").up);
}

#[tokio::test]
async fn clone_hangs_on_a_disk_that_only_the_donor_has() {
    let fstab = "UUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 defaults 0 2\n";
    let with = |fstab: &str| ContentsSpec { fstab: Some(fstab.to_owned()), ..ContentsSpec::default() };
    let client = client_for(UNIT);
    client.sim.alter_machine("p000000", &with(fstab)).expect("planted");
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    assert!(machine(&client, "p000000").up, "the data disk of the donor is attached");
    client.sim.scale("p", 3).expect("a clone");
    let clone = machine(&client, "p000002");
    let why = clone.boot.as_ref().and_then(|boot| boot.hangs.as_deref()).expect("the boot hangs");
    assert!(!clone.up && why.contains("`/data`"), "{why}");
    restart(&client, 2);
    assert!(!machine(&client, "p000002").up);

    let client = client_for(UNIT);
    client
        .sim
        .alter_machine("p000000", &with(&fstab.replace("/data ext4 defaults", "/data ext4 nofail")))
        .expect("planted");
    recipe(&client, &snapshot(&client, 0, "1.0.0"));
    client.sim.scale("p", 3).expect("a clone");
    assert!(machine(&client, "p000002").up);
}

#[tokio::test]
async fn inspection_reports_all_facts_and_its_json_no_secrets() {
    let client = client_for(
        "pools:\n- name: p\n  customData: '#!/bin/sh\n\n    join hunter2'\n  contents:\n    osRelease: Test OS 1\n    kernel: 6.8-test\n    kubeletVersion: v1.32.1\n    \
         runtimeVersion: containerd://2.0.0\n    packages: {planted: '1.2'}\n    cachedImages: [planted-image]\n    disk: {sizeBytes: 100, usedBytes: 99}\n    \
         fstab: |\n      UUID=1 / ext4 defaults 0 1\n      UUID=2 /data ext4 defaults 0 2\n    literalHostNames: [{path: /etc/systemd/system/a.service, line: p000000}]\n    \
         staticAddresses: [{path: /etc/netplan/1.yaml, line: 10.0.0.4}]\n    firstBootUnit: '7'\n    secrets: [{path: /etc/key, kind: private key}]\n    \
         joinCredential: {kind: bootstrapToken, tokenId: abcdef, renewedBy: r}\n",
    );
    let one = machine(&client, "p000000");
    let found = one.inspection();
    let value: Value = serde_json::to_value(&found).expect("json");
    for (pointer, planted) in [
        ("/hostName", json!("p000000")),
        ("/vmId", json!(one.vm_id)),
        ("/osRelease", json!("Test OS 1")),
        ("/kernel", json!("6.8-test")),
        ("/kubeletVersion", json!("v1.32.1")),
        ("/runtimeVersion", json!("containerd://2.0.0")),
        ("/packages/planted", json!("1.2")),
        ("/cachedImages", json!(["planted-image"])),
        ("/disk", json!({"sizeBytes": 100, "usedBytes": 99})),
        ("/fstab/1/mountPoint", json!("/data")),
        ("/literalHostNames/0/line", json!("p000000")),
        ("/staticAddresses/0/line", json!("10.0.0.4")),
        ("/firstBootUnit", json!({"recordedVmId": one.vm_id, "version": "7"})),
        ("/joinCredential", json!({"kind": "bootstrapToken", "tokenId": "abcdef", "renewedBy": "r"})),
        ("/customData/present", json!(true)),
    ] {
        assert_eq!(value.pointer(pointer), Some(&planted), "{pointer}");
    }
    assert!(found.fstab[1].holds_up_a_clone());
    assert!(found.identity.iter().any(|name| name == "machine-id"));
    let kinds: Vec<&str> = found.secrets.iter().map(|secret| secret.kind.as_str()).collect();
    assert_eq!(kinds, ["bootstrap token", "kubelet's certificate", "custom data", "private key"]);
    assert_eq!(found.custom_data.bytes().map(|bytes| bytes.expose().ends_with(b"join hunter2")), Some(true));
    for text in [value.to_string(), format!("{one:?}"), format!("{found:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("am9pbiBodW50ZXIy"), "{text}");
    }
}

#[test]
fn reference_documents_exactly_the_disk_keys_and_defects() {
    let page = include_str!("../../../../docs/reference/embedded-azure.md");
    let table = page.split("\n| of a disk |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the table");
    let cells = |row: usize| -> BTreeSet<&str> {
        let rows = table.lines().skip(2).filter_map(|line| line.split('|').nth(row));
        rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
    };
    // The parser lists all names in the error about an unknown one.
    let known = |text: &str| -> BTreeSet<String> {
        let error = WorldSpec::parse("w", text).expect_err("a misspelt name");
        let line = error
            .lines()
            .next()
            .and_then(|line| line.split_once("expected one of "))
            .unwrap_or_else(|| panic!("{error}"));
        line.1.split(", ").map(|name| name.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()).collect()
    };
    let keys = known("pools: [{name: p, contents: {misspelt: 1}}]");
    assert_eq!(cells(1), keys.iter().map(String::as_str).collect());
    let defects = known("pools: [{name: p, contents: {defects: [misspelt]}}]");
    let documented = cells(3);
    assert!(defects.iter().all(|defect| documented.contains(defect.as_str())), "{defects:?} {documented:?}");
}

#[tokio::test]
async fn disk_contents_are_restored_from_the_state_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "pools: [{name: p, customData: '#!/bin/sh join', contents: {firstBootUnit: '1', joinCredential: {kind: bootstrapToken, tokenId: abcdef}}}]";
    let spec = || WorldSpec::parse("world", text).expect("a world file");
    let open = || Client::for_sim(Sim::open(folder.path(), spec(), Options::instant(start())).expect("a simulation"));
    let before = {
        let client = open();
        recipe(&client, &snapshot(&client, 0, "1.0.0"));
        client.sim.scale("p", 2).expect("a clone");
        client.sim.revoke_token("abcdef".parse().expect("an id")).expect("revoked");
        client.sim.machines()
    };
    let client = open();
    assert_eq!(client.sim.machines(), before);
    // The contents of the version and the revocation are restored too.
    client.sim.scale("p", 3).expect("a clone");
    let clone = machine(&client, "p000002");
    assert_eq!(clone.contents.ancestry.len(), 1);
    assert!(clone.cannot_join.is_some_and(|why| why.contains("revoked")));
}

#[tokio::test]
async fn control_scales_changes_the_model_and_deletes_machines() {
    let client = client_for(UNIT);
    let path = client.compute("virtualMachineScaleSets/p");
    let before = client.get(&path, COMPUTE).body["etag"].clone();
    client.sim.change_scale_set("p", &json!({"tags": {"by": "other"}})).expect("changed");
    let set = client.get(&path, COMPUTE).body;
    assert_ne!(set["etag"], before);
    assert_eq!((&set["tags"]["by"], &set["sku"]["capacity"]), (&json!("other"), &json!(2)));
    let donor = machine(&client, "p000000");
    client.sim.delete_machine(&donor.vm_id).expect("deleted");
    assert_eq!(client.get(&client.compute(&instance(0)), COMPUTE).status, 404);
    let error = client.sim.delete_machine("p000000").expect_err("the machine is deleted").to_string();
    assert!(error.contains("p000000"), "{error}");
    let error = client.sim.scale("none", 3).expect_err("no such pool").to_string();
    assert!(error.contains("none") && error.contains("NotFound"), "{error}");
}

#[tokio::test]
async fn installing_the_unit_records_the_vm_and_changes_nothing_else() {
    let client = client_for("pools: [{name: p, customData: '#!/bin/sh join'}]");
    let before = machine(&client, "p000000");
    client.sim.install_first_boot("p000000", "9").expect("installed");
    client.sim.install_first_boot(&before.id, "10").expect("the unit is already installed");
    let after = machine(&client, "p000000");
    let unit = after.contents.first_boot_unit.clone().expect("the unit");
    assert_eq!((unit.recorded_vm_id.as_str(), unit.version.as_str()), (before.vm_id.as_str(), "9"));
    let mut same = (*after.contents).clone();
    same.first_boot_unit = None;
    assert_eq!(same, *before.contents);
    restart(&client, 0);
    assert_eq!(machine(&client, "p000000").contents.identity, before.contents.identity);
}
