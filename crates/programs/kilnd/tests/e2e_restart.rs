//! Restarts of kiln's units on a live node with a real systemd: nothing changes, also during a trial.

mod booted;

use std::collections::BTreeSet;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{Stage, pods};
use serde_json::json;
use testkit::nspawn::Machine;

/// Every unit of the package that a person or a package manager may restart.
const UNITS: [&str; 4] =
    ["kiln-identity.service", "kiln-config.service", "kiln-watch.service", "kiln-boot-loader.service"];

/// The gate that keeps generation 2 on trial.
const GATE: &str = "/var/lib/stand-in/gate";

/// Name, inode, mode, size and modification time of every file that kilnd may write. The lock contains the id of the last process.
fn tree(machine: &Machine) -> String {
    machine.shell("find /etc /usr/lib/kiln /usr/lib/systemd/system /home /root /var/lib/kiln /run/kiln ! -path /run/kiln/lock -printf '%p %i %m %s %T@ %l\\n' | sort").stdout
}

/// Processes and starts of the services that must not notice.
fn services(machine: &Machine) -> Vec<String> {
    let mut all = vec![Stage::kubelet_starts(machine).len().to_string()];
    for unit in ["kubelet.service", "containerd.service"] {
        all.push(machine.property(unit, "MainPID"));
        all.push(machine.property(unit, "ActiveEnterTimestampMonotonic"));
    }
    all
}

/// Restarts each unit twice and checks after each restart that nothing has changed.
#[track_caller]
fn restart_everything(machine: &Machine, when: &str) {
    let (tree_before, services_before) = (tree(machine), services(machine));
    for unit in UNITS.into_iter().chain(UNITS) {
        machine.shell(&format!("systemctl restart {unit}"));
        // The second start of kilnd watch has read the state once it waits for its next task.
        machine.wait_for("kiln-watch.service", "active");
        let after = tree(machine);
        let before: BTreeSet<&str> = tree_before.lines().collect();
        let changed: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
        assert_eq!(changed, Vec::<&str>::new(), "{when}, {unit}\n{}", machine.journal(Some("kiln-config")));
        assert_eq!(after, tree_before, "{when}, {unit}: a file is gone");
        assert_eq!(services(machine), services_before, "{when}, {unit}");
    }
}

fn restarts_of_trial(machine: &Machine) -> serde_json::Value {
    Stage::json(machine, "/var/lib/kiln/state.json")["trial"]["restarts"].clone()
}

#[test]
fn restarted_units_change_nothing_on_a_live_node_and_during_a_trial() {
    let boot_loader =
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units/kiln-boot-loader.service"));
    let mut machine = Stage::with_fakes("restarts")
        .file("/usr/lib/systemd/system/kiln-boot-loader.service", boot_loader.expect("a unit"))
        .executable("/usr/sbin/update-grub", "#!/bin/sh\n")
        .build();
    machine.hardware("dmi/product_uuid", ONE);
    let first = max_pods(1, 30);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&first)));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    machine.settled();
    // The media still has generation 1: a first boot would undo generation 2.
    let next = max_pods(2, 40)
        .with("/spec/health/gates", json!([{"name": "gate", "kind": "fileExists", "target": GATE}]))
        .with("/spec/health/withinSeconds", json!(1_000_000));
    restart_everything(&machine, "after the first boot");

    machine.write("/root/next.json", &next.bytes(), 0o600);
    machine.shell("kilnd apply --config /root/next.json --dmi /hardware/dmi");
    // It records the trial first and then the requests of the document.
    machine.wait_until("kilnd watch follows generation 2", |machine| {
        machine.read("/var/lib/kiln/requests.json").filter(|text| text.contains("\"2-") && pods(machine) == Some(40))
    });
    restart_everything(&machine, "during the trial");
    assert_eq!(restarts_of_trial(&machine), json!(0), "restarts of units are not reboots");

    machine.reboot();
    machine.wait_for("kubelet.service", "active");
    machine.settled();
    machine.wait_until("kilnd watch follows generation 2", |machine| machine.read("/run/kiln/trial.json"));
    restart_everything(&machine, "after a reboot during the trial");
    assert_eq!(restarts_of_trial(&machine), json!(1), "one reboot");
    assert_eq!((Stage::committed(&machine), pods(&machine)), (Some(1), Some(40)));

    machine.write(GATE, b"", 0o644);
    Stage::wait_committed(&machine, 2);
    restart_everything(&machine, "after the commit");
    assert_eq!((Stage::committed(&machine), pods(&machine)), (Some(2), Some(40)));
}

#[test]
fn stopped_kubelet_stays_stopped_when_kiln_config_restarts() {
    let mut machine = Stage::with_fakes("stopped").build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    machine.shell("systemctl stop kubelet.service && systemctl restart kiln-config.service");
    assert_eq!(machine.property("kubelet.service", "ActiveState"), "inactive");
    // Without the gate the unit does its work again: it puts the generation in force and opens the gate.
    machine.shell("rm /run/kiln/ready && systemctl restart kiln-config.service");
    machine.wait_for("kubelet.service", "active");
    assert_eq!((Stage::committed(&machine), pods(&machine)), (Some(1), Some(30)));
}

#[test]
fn kubelet_that_crashes_every_twenty_seconds_is_never_confirmed() {
    let mut machine = Stage::with_fakes("crashing").build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    let crashing = max_pods(2, 40)
        .with("/spec/kubelet/configuration/clusterDomain", json!("crashes.example"))
        .with("/spec/health/withinSeconds", json!(100));
    machine.write("/root/next.json", &crashing.bytes(), 0o600);
    machine.shell("kilnd apply --config /root/next.json --dmi /hardware/dmi");
    let reason = machine.wait_until("generation 2 is reverted", |machine| {
        assert_ne!(Stage::committed(machine), Some(2), "confirmed\n{}", machine.journal(Some("kiln-watch")));
        let state = Stage::json(machine, "/var/lib/kiln/state.json");
        state["rejected"][0]["reason"].as_str().map(str::to_owned)
    });
    assert!(reason.contains("systemd restarted the kubelet"), "{reason}");
    machine.wait_until("generation 1 is in force again", |machine| (pods(machine) == Some(30)).then_some(()));
}

#[test]
fn rejected_document_is_retried_after_growing_pauses_which_a_restart_ends() {
    let mut machine = Stage::with_fakes("rejected").build();
    machine.hardware("dmi/product_uuid", ONE);
    let invalid = max_pods(1, 30).with("/spec/cluster/endpoint", json!("ftp://nowhere"));
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&invalid)));
    machine.boot();
    let journal = machine.wait_until("the third failure", |machine| {
        Some(machine.journal(Some("kiln-config")))
            .filter(|text| text.contains("failed 3 times; the next attempt is in 4 s"))
    });
    assert_eq!(journal.matches("failed 2 times; the next attempt is in 2 s").count(), 1, "{journal}");
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.shell("systemctl restart kiln-config.service");
    machine.wait_for("kubelet.service", "active");
    Stage::wait_committed(&machine, 1);
}
