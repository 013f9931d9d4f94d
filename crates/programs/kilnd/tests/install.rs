//! `kilnd install`: the files that it adds to a donor without kilnd, and that clones of the disk then reset their identity.

mod identity_donor;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use identity_donor::{DONOR, DONOR_NAME, Disk, donor, printed};
use kiln_node_plan::Findings;
use kilnd::commands::inspect::inspect;
use kilnd::commands::install::{GATE, InstallError, PROGRAM, UNIT, install};
use serde_json::{Value, json};

const CLONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const LINK: &str = "/etc/systemd/system/sysinit.target.wants/kiln-identity.service";
const VM_ID: &str = "/var/lib/kiln/vm-id";

/// A donor without kilnd.
fn bare() -> Disk {
    let disk = donor();
    for path in [UNIT, LINK, VM_ID, "/var/lib/kiln/state.json"] {
        fs::remove_file(disk.at(path)).expect("removed");
    }
    fs::remove_dir_all(disk.at("/etc/kiln/generations")).expect("removed");
    fs::remove_file(disk.at("/etc/kiln/current")).expect("removed");
    disk
}

fn clone_kind(disk: &Disk) -> String {
    let clone = disk.copy();
    clone.set_vm_id(CLONE);
    let output = clone.kilnd(&["identity", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let record: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    if record["kind"] == "clone" {
        assert_ne!(clone.text("/etc/hostname").trim(), DONOR_NAME);
        assert!(!clone.has("/var/lib/kubelet/pki/kubelet-client-current.pem"));
        assert_eq!(clone.text(VM_ID).trim(), CLONE, "the clone's VM id is recorded");
    }
    record["kind"].as_str().expect("a kind").to_owned()
}

#[test]
fn install_adds_kilnd_changes_nothing_else_and_clones_reset_their_identity() {
    let disk = bare();
    let before = disk.everything();
    assert_eq!(inspect(&disk.node()).expect("inspected").first_boot_unit, None);
    let output = disk.kilnd(&["install", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer, json!({"recordedVmId": DONOR, "version": env!("CARGO_PKG_VERSION")}));

    let mut after = disk.everything();
    for path in [PROGRAM, UNIT, GATE, LINK, VM_ID] {
        assert!(after.remove(path).is_some(), "{path} is missing");
    }
    assert!(after == before, "no other file changes");
    assert_eq!(fs::metadata(disk.at(PROGRAM)).expect("there").permissions().mode() & 0o7777, 0o755);
    assert!(fs::read(disk.at(PROGRAM)).expect("read") == fs::read(env!("CARGO_BIN_EXE_kilnd")).expect("read"));
    assert!(disk.text(GATE).contains("ConditionPathExists=/run/kiln/boot.json"));
    let unit = inspect(&disk.node()).expect("inspected").first_boot_unit.expect("the unit");
    assert_eq!(unit.recorded_vm_id, DONOR);

    let again = disk.kilnd(&["identity"]);
    assert_eq!(printed(&again).lines().next(), Some("again boot"), "{}", printed(&again));
    assert!(disk.has("/run/kiln/boot.json"), "the gate is open for the donor's kubelet");
    assert_eq!(clone_kind(&disk), "clone");
}

#[test]
fn interrupted_install_never_enables_the_unit_without_a_recorded_vm_id() {
    for step in 0.. {
        let disk = bare();
        let node = disk.node();
        node.root.stop_after(Some(step));
        let ended = install(&node, b"program").is_ok();
        let node = disk.node();
        if let Some(unit) = inspect(&node).expect("inspected").first_boot_unit {
            assert_eq!(unit.recorded_vm_id, DONOR, "interrupted at {step}");
            assert_eq!(disk.text(PROGRAM), "program", "interrupted at {step}");
            assert!(disk.has(GATE), "interrupted at {step}");
            assert_eq!(clone_kind(&disk), "clone", "interrupted at {step}");
        }
        if ended {
            assert!(step > 5, "several operations are needed");
            break;
        }
        install(&node, b"program").unwrap_or_else(|error| panic!("interrupted at {step}: {error}"));
        assert_eq!(inspect(&node).expect("inspected").first_boot_unit.expect("the unit").recorded_vm_id, DONOR);
    }
}

#[test]
fn second_install_writes_nothing() {
    let disk = bare();
    install(&disk.node(), b"older program").expect("installed");
    let before = disk.everything();
    let node = disk.node();
    install(&node, b"newer program").expect("installed");
    assert_eq!(node.root.counts().total(), 0, "nothing is written");
    assert!(disk.everything() == before);
}

#[test]
fn install_fails_on_a_foreign_disk_or_without_a_vm_id() {
    let foreign = bare();
    foreign.write(VM_ID, CLONE);
    let without_id = bare();
    fs::remove_file(without_id.at("/sys/class/dmi/id/product_uuid")).expect("removed");
    for disk in [&foreign, &without_id] {
        let before = disk.everything();
        let error = install(&disk.node(), b"program").expect_err("refused");
        assert!(matches!(error, InstallError::Clone { .. } | InstallError::Machine(_)), "{error}");
        assert!(disk.everything() == before);
        let output = disk.kilnd(&["install"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn inspect_encrypts_custom_data_to_the_given_key() {
    let disk = donor();
    let reader = kiln_tls::Reader::new(&kiln_tls::SystemRandom::new()).expect("a key");
    let output = disk.kilnd(&["inspect", "--output", "json", "--custom-data-for", &reader.key()]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", printed(&output));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 1);
    assert!(!text.contains(identity_donor::SECRET) && !text.contains(identity_donor::TOKEN), "{text}");
    let found: Findings = serde_json::from_str(&text).expect("findings");
    let opened = reader.open(&found.sealed_custom_data.expect("custom data")).expect("decrypted");
    assert_eq!(opened, disk.text("/var/lib/cloud/instances/donor/user-data.txt").into_bytes());

    let output = disk.kilnd(&["inspect", "--output", "json", "--custom-data-for", "nonsense"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && printed(&output).contains("is not 32 bytes"), "{}", printed(&output));
}
