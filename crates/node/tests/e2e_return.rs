//! Generations that are not healthy come back by themselves, once, also across restarts and power cuts of a real systemd.

mod booted;

use booted::ONE;
use booted::cloud::Cloud;
use booted::document::{Document, max_pods, medium};
use booted::stage::{Stage, pods};
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A machine whose first generation was seen healthy.
fn healthy(name: &str) -> (Machine, Cloud) {
    let mut machine = Stage::with_stand_ins(name).build();
    let cloud = Cloud::of(&machine);
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", medium("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    (machine, cloud)
}

/// A document with which the stand-in kubelet runs and is not well.
fn sick(generation: u64) -> Document {
    max_pods(generation, 40).with("/spec/kubelet/configuration/podLogsDir", json!("/sick"))
}

fn state(machine: &Machine) -> Value {
    Stage::json(machine, "/var/lib/kiln/state.json")
}

fn refused(machine: &Machine) -> Vec<u64> {
    let refused = state(machine)["refused"].as_array().cloned().unwrap_or_default();
    refused.iter().filter_map(|refusal| refusal["number"].as_u64()).collect()
}

#[track_caller]
fn wait_returned(machine: &Machine, number: u64) {
    machine.wait_until(&format!("generation {number} came back"), |machine| {
        (refused(machine).contains(&number) && pods(machine) == Some(30)).then_some(())
    });
    assert_eq!((Stage::committed(machine), state(machine)["trial"].is_null()), (Some(1), true), "{}", state(machine));
}

#[test]
fn a_kubelet_that_is_not_well_brings_the_generation_before_back_and_the_document_is_not_tried_again() {
    let (machine, cloud) = healthy("sick");
    cloud.set(&sick(2));
    wait_returned(&machine, 2);
    let starts = Stage::wait_for_kubelet(&machine, 3).len();
    assert_eq!(starts, 3, "the first, the sick one, and back");
    let looked = cloud.asked();
    machine.wait_until("kilnd has looked again", |_| (cloud.asked() > looked + 1).then_some(()));
    assert_eq!((refused(&machine), Stage::kubelet_starts(&machine).len()), (vec![2], 3));
    // A better one gets its chance.
    cloud.set(&max_pods(3, 50));
    Stage::wait_committed(&machine, 3);
    assert_eq!(pods(&machine), Some(50));
}

#[test]
fn a_unit_that_must_run_and_does_not_brings_the_generation_before_back() {
    let (machine, cloud) = healthy("unit");
    let gates = json!([{"name": "agent", "kind": "unitActive", "target": "agent.service"}]);
    cloud.set(&max_pods(2, 40).with("/spec/health/gates", gates.clone()));
    wait_returned(&machine, 2);
    let agent = json!([{"name": "agent.service", "content": "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n", "enabled": true}]);
    cloud.set(&max_pods(3, 50).with("/spec/health/gates", gates).with("/spec/units", agent));
    Stage::wait_committed(&machine, 3);
    assert_eq!(machine.property("agent.service", "ActiveState"), "active");
}

#[test]
fn a_trial_that_is_cut_off_goes_on_after_the_power_is_back_and_comes_back_once() {
    let (mut machine, cloud) = healthy("cut");
    cloud.set(&sick(2));
    machine.wait_until("generation 2 is on trial", |machine| (pods(machine) == Some(40)).then_some(()));
    machine.cut_power();
    machine.boot();
    machine.wait_for("kubelet.service", "active");
    wait_returned(&machine, 2);
    machine.reboot();
    machine.wait_for("kubelet.service", "active");
    assert_eq!((refused(&machine), pods(&machine), Stage::committed(&machine)), (vec![2], Some(30), Some(1)));
}

#[test]
fn a_trial_that_takes_the_machine_down_twice_comes_back_without_anybody_to_watch() {
    let (mut machine, cloud) = healthy("twice");
    machine.shell("systemctl mask --now kiln-watch.service");
    let document = String::from_utf8(max_pods(2, 40).bytes()).expect("JSON");
    machine.write("/root/config.json", document.as_bytes(), 0o644);
    machine.shell("kilnd apply --config /root/config.json --dmi /hardware/dmi");
    assert_eq!(pods(&machine), Some(40));
    for expected in [Some(40), Some(30), Some(30)] {
        machine.cut_power();
        machine.boot();
        machine.wait_for("kubelet.service", "active");
        assert_eq!(pods(&machine), expected, "{}", machine.journal(None));
    }
    assert_eq!((refused(&machine), Stage::committed(&machine)), (vec![2], Some(1)), "at most once");
    drop(cloud);
}

#[test]
fn a_power_cut_in_the_middle_of_a_change_leaves_the_old_or_the_new() {
    let (mut machine, _cloud) = healthy("middle");
    machine.shell("systemctl mask --now kiln-watch.service");
    let mut seen = Vec::new();
    for round in 0..6_u32 {
        let number = u64::from(round) + 2;
        machine.write("/root/config.json", &max_pods(number, 100 + round).bytes(), 0o644);
        let before = pods(&machine).expect("a configuration");
        // Cut off after a number of file operations that grows: strace kills it at its n-th rename.
        let line = format!(
            "strace --quiet=all --output=/dev/null --trace=renameat2,renameat,rename \
             --inject=renameat2,renameat,rename:signal=KILL:when={} \
             kilnd apply --config /root/config.json --dmi /hardware/dmi --force || true",
            round + 1
        );
        machine.shell(&line);
        machine.cut_power();
        machine.boot();
        machine.wait_for("kubelet.service", "active");
        let after = pods(&machine).expect("the link leads to a whole generation");
        assert!(after == before || after == u64::from(100 + round) || after == 30, "{before} {after}");
        seen.push(after != before);
        // The next run gets there, whatever was left.
        machine.shell("kilnd apply --config /root/config.json --dmi /hardware/dmi --force");
        assert_eq!(pods(&machine), Some(u64::from(100 + round)));
    }
    assert!(seen.contains(&false), "the first rename is before the change");
}

#[test]
fn nothing_that_a_document_asks_for_is_beyond_the_limits_of_the_watch() {
    // Of the network, which is the machine's own; most others are the host's.
    const SETTING: &str = "/proc/sys/net/ipv4/tcp_fin_timeout";
    let mut machine = Stage::with_stand_ins("limits").build();
    let cloud = Cloud::of(&machine);
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", medium("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    let places =
        ["/usr/local/lib/asked", "/opt/asked/file", "/boot/asked", "/srv/asked", "/var/tmp/asked", "/tmp/asked"];
    let files: Vec<Value> =
        places.iter().map(|path| json!({"path": path, "content": "asked", "mode": "0640"})).collect();
    let user = json!([{"name": "ann", "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake a"], "sudo": true}]);
    let unit = json!([{"name": "asked.service", "content": "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n", "enabled": true}]);
    cloud.set(
        &max_pods(2, 40)
            .with("/spec/files", json!(files))
            .with("/spec/platform/users", user)
            .with("/spec/os/sysctl", json!({"net.ipv4.tcp_fin_timeout": "7"}))
            .with("/spec/units", unit),
    );
    Stage::wait_committed(&machine, 2);
    for path in places {
        assert_eq!(machine.shell(&format!("stat -c %a {path}; cat {path}")).stdout, "640\nasked", "{path}");
    }
    assert_eq!(machine.read(SETTING).as_deref().map(str::trim), Some("7"));
    assert!(machine.shell("cat ~ann/.ssh/authorized_keys").stdout.contains("AAAAC3"));
    assert_eq!(machine.shell("stat -c '%U %a' ~ann/.ssh").stdout, "ann 700\n");
    machine.wait_for("asked.service", "active");
    // What a later document no longer asks for is as it was before.
    cloud.set(&max_pods(3, 50));
    Stage::wait_committed(&machine, 3);
    for path in places {
        assert!(!machine.exists(path), "{path}");
    }
    assert_eq!(machine.property("asked.service", "ActiveState"), "inactive");
}
