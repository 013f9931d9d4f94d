//! The cost of kilnd at the first boot of a real systemd. Its behaviour at boot is tested by the cases in `e2e_booted_cases.rs`.

mod booted;

use booted::ONE;
use booted::document::{Document, max_pods, ovf_env};
use booted::stage::Stage;
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A machine, powered off, with a VM id and this NodeConfig on its provisioning media.
fn provisioned(name: &str, document: &Document) -> Machine {
    let machine = Stage::with_fakes(name).build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(document)));
    machine
}

/// Runs a service of kilnd under strace from the next boot on. Returns the file that will have the trace.
fn trace(machine: &Machine, service: &str, command: &str) -> String {
    let file = format!("/var/lib/stand-in/trace-{command}");
    let traced = format!(
        "[Service]\nNotifyAccess=all\nExecStart=\nExecStart=/usr/bin/strace --follow-forks --output={file} \
         --trace=process,fsync,fdatasync,sync,syncfs,sendto,sendmsg,write,connect --string-limit=200 \
         /usr/bin/kilnd {command} --dmi /hardware/dmi --cd /hardware/cd\n"
    );
    machine.write(&format!("/etc/systemd/system/{service}.d/90-trace.conf"), traced.as_bytes(), 0o644);
    file
}

/// The trace of a service, once it has exited with 0.
#[track_caller]
fn wait_for_trace(machine: &Machine, file: &str) -> String {
    machine.wait_until(&format!("{file} is complete"), |machine| {
        machine.read(file).filter(|trace| trace.contains("+++ exited with 0 +++"))
    })
}

#[track_caller]
fn assert_no_child(trace: &str) {
    let calls = |names: &[&str]| {
        let is_call = |line: &&str| {
            names.iter().any(|name| line.split_whitespace().nth(1).is_some_and(|call| call.starts_with(name)))
        };
        trace.lines().filter(is_call).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(calls(&["execve("]).len(), 1, "{trace}");
    let made = calls(&["fork(", "vfork(", "clone(", "clone3("]);
    assert!(made.iter().all(|call| call.contains("CLONE_THREAD")), "{made:?}");
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
    let waits = |text: &str| {
        let names = ["fsync(", "fdatasync(", "syncfs(", " sync("];
        text.lines().filter(|line| names.iter().any(|name| line.contains(name))).count()
    };
    assert!(waits(before) <= 4, "{before}");
    assert!(waits(after) > 0, "the files are synced after the notification\n{after}");

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
