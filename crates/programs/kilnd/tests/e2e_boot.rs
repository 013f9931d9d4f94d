//! The cost of kilnd at the first boot of a real systemd. Its behaviour at boot is tested by the cases in `e2e_booted_cases.rs`.

mod booted;

use booted::ONE;
use booted::document::{Document, max_pods, ovf_env};
use booted::stage::Stage;
use booted::trace::{assert_no_child, syncs, trace, wait_for_trace};
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A machine, powered off, with a VM id and this NodeConfig on its provisioning media.
fn provisioned(name: &str, document: &Document) -> Machine {
    let machine = Stage::with_fakes(name).build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(document)));
    machine
}

#[test]
fn first_boot_starts_no_process_reloads_nothing_and_rarely_syncs() {
    // Units, drop-ins and limits need a reload of systemd, which must happen after kubelet has started.
    let agent = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
    let document = max_pods(1, 30)
        .with(
            "/spec/units",
            json!([
                {"name": "agent.service", "content": agent, "enabled": true},
                {"name": "systemd-journald.service", "dropIns": [{"name": "50-few.conf", "content": "[Service]\nNice=1\n"}]},
            ]),
        )
        .with("/spec/os/limits", json!({"LimitNOFILE": "65535"}));
    let mut machine = provisioned("traced", &document);
    let identity = trace(&machine, "kiln-identity.service", "identity");
    let boot = trace(&machine, "kiln-config.service", "boot");
    machine.boot();
    Stage::wait_committed(&machine, 1);
    assert_no_child(&wait_for_trace(&machine, &identity));
    let trace = wait_for_trace(&machine, &boot);
    assert_no_child(&trace);
    let (before, after) = trace.split_once("READY=1").unwrap_or_else(|| panic!("no ready notification\n{trace}"));
    assert!(syncs(before) <= 4, "{before}");
    assert!(syncs(after) > 0, "the files are synced after the notification\n{after}");

    machine.wait_for("agent.service", "active");
    assert!(machine.exists("/etc/systemd/system/systemd-journald.service.d/50-few.conf"));
    let reloads = machine.wait_until("systemd was reloaded for the deferred work", |machine| {
        let lines = "journalctl --boot --no-pager --output=json --output-fields=MESSAGE _PID=1";
        let journal = machine.shell(lines).stdout;
        let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let reloads = lines.filter(|line| line["MESSAGE"].as_str().is_some_and(|text| text.contains("Reloading")));
        Some(reloads.map(|line| number(&line["__MONOTONIC_TIMESTAMP"])).collect::<Vec<u64>>())
            .filter(|reloads| !reloads.is_empty())
    });
    let kubelet = machine.property("kubelet.service", "ExecMainStartTimestampMonotonic");
    let kubelet: u64 = kubelet.parse().expect("a time");
    assert!(
        kubelet > 0 && reloads.iter().all(|at| *at > kubelet),
        "kubelet at {kubelet}, reloads at {reloads:?}\n{}",
        machine.journal(None)
    );
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
