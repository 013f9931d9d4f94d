//! Restarts of kiln's units on a live node with a real systemd: nothing changes, also during a trial.

mod booted;

use std::collections::BTreeSet;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{Stage, pods};
use serde_json::json;
use testkit::nspawn::Machine;

/// The package's units.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../units");

/// The gate that keeps generation 2 on trial.
const GATE: &str = "/var/lib/stand-in/gate";

/// Every unit of the package that a person or a package manager may restart, sorted.
fn units() -> BTreeSet<String> {
    let entries = std::fs::read_dir(UNITS).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let units: BTreeSet<String> = entries.map(|name| name.into_string().expect("a name")).collect();
    units.into_iter().filter(|name| name.starts_with("kiln-")).collect()
}

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

/// Waits until kilnd watch has executed the tasks that follow from a generation in force, in which it writes files. It sets its status text
/// after the tasks, and systemd clears the text at each start.
#[track_caller]
fn wait_followed(machine: &Machine, number: u64) {
    let text = format!("generation {number} is in force");
    machine.wait_until(&format!("kilnd watch follows generation {number}"), |machine| {
        let is_active = machine.property("kiln-watch.service", "ActiveState") == "active";
        (is_active && machine.property("kiln-watch.service", "StatusText") == text).then_some(())
    });
}

/// Waits until kilnd watch has reported the commit of a generation. The report is the last file that it writes for a commit.
#[track_caller]
fn wait_reported(machine: &Machine, number: u64) {
    machine.wait_until(&format!("the commit of generation {number} is reported"), |machine| {
        let status: serde_json::Value = serde_json::from_str(&machine.read("/run/kiln/status.json")?).ok()?;
        let is_committed = status["command"] == "watch" && status["onTrial"] == false;
        (is_committed && status["generation"]["number"] == number).then_some(())
    });
}

/// Restarts each unit twice and checks after each restart that nothing has changed.
#[track_caller]
fn restart_everything(machine: &Machine, number: u64, when: &str) {
    wait_followed(machine, number);
    let (tree_before, services_before) = (tree(machine), services(machine));
    let units = units();
    for unit in units.iter().chain(&units) {
        machine.shell(&format!("systemctl restart {unit}"));
        wait_followed(machine, number);
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
    let boot_loader = std::fs::read(format!("{UNITS}/kiln-boot-loader.service"));
    let mut machine = Stage::with_fakes("restarts")
        .file("/usr/lib/systemd/system/kiln-boot-loader.service", boot_loader.expect("a unit"))
        .executable("/usr/sbin/update-grub", "#!/bin/sh\n")
        .build();
    machine.hardware("dmi/product_uuid", ONE);
    let first = max_pods(1, 30);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&first)));
    machine.boot();
    wait_reported(&machine, 1);
    machine.settled();
    // The media still has generation 1: a first boot would undo generation 2.
    let next = max_pods(2, 40)
        .with("/spec/health/gates", json!([{"name": "gate", "kind": "fileExists", "target": GATE}]))
        .with("/spec/health/withinSeconds", json!(1_000_000));
    restart_everything(&machine, 1, "after the first boot");

    machine.write("/root/next.json", &next.bytes(), 0o600);
    machine.shell("kilnd apply --config /root/next.json --dmi /hardware/dmi");
    restart_everything(&machine, 2, "during the trial");
    // With a closed gate kilnd boot does all its work again, and more often than a trial survives reboots.
    for _ in 0..3 {
        machine.shell("rm /run/kiln/ready && systemctl restart kiln-config.service");
    }
    assert_eq!(restarts_of_trial(&machine), json!(0), "restarts of units are not reboots");
    assert_eq!((Stage::committed(&machine), pods(&machine)), (Some(1), Some(40)), "the media does not undo the update");

    machine.reboot();
    machine.wait_for("kubelet.service", "active");
    machine.settled();
    restart_everything(&machine, 2, "after a reboot during the trial");
    assert_eq!(restarts_of_trial(&machine), json!(1), "one reboot");
    assert_eq!((Stage::committed(&machine), pods(&machine)), (Some(1), Some(40)));

    machine.write(GATE, b"", 0o644);
    wait_reported(&machine, 2);
    restart_everything(&machine, 2, "after the commit");
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
