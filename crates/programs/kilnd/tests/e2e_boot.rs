//! What kilnd costs the first boot of a real systemd. What it does at boots is in the cases that boot.

mod booted;

use booted::ONE;
use booted::document::{Document, max_pods, medium};
use booted::stage::Stage;
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A machine that is off, with its own id and this document on its medium.
fn provisioned(name: &str, document: &Document) -> Machine {
    let machine = Stage::with_stand_ins(name).build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", medium("node-1", Some(document)));
    machine
}

/// Makes a service of kilnd run below strace, while the machine is off. What it called is in the file.
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

/// What a service called until it ended well.
#[track_caller]
fn traced(machine: &Machine, file: &str) -> String {
    machine.wait_until(&format!("{file} has ended"), |machine| {
        machine.read(file).filter(|trace| trace.contains("+++ exited with 0 +++"))
    })
}

#[track_caller]
fn assert_no_child(trace: &str) {
    let calls = |names: &[&str]| {
        let begins = |line: &&str| {
            names.iter().any(|name| line.split_whitespace().nth(1).is_some_and(|call| call.starts_with(name)))
        };
        trace.lines().filter(begins).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(calls(&["execve("]).len(), 1, "{trace}");
    let made = calls(&["fork(", "vfork(", "clone(", "clone3("]);
    assert!(made.iter().all(|call| call.contains("CLONE_THREAD")), "{made:?}");
}

#[test]
fn a_first_boot_makes_no_process_reloads_nothing_and_waits_little_for_the_disk() {
    // Units, drop-ins and limits are what a manager must be reloaded for: after kubelet has started.
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
    assert_no_child(&traced(&machine, &identity));
    let trace = traced(&machine, &boot);
    assert_no_child(&trace);
    let (before, after) = trace.split_once("READY=1").unwrap_or_else(|| panic!("systemd is told\n{trace}"));
    let waits = |text: &str| {
        let names = ["fsync(", "fdatasync(", "syncfs(", " sync("];
        text.lines().filter(|line| names.iter().any(|name| line.contains(name))).count()
    };
    assert!(waits(before) <= 4, "{before}");
    assert!(waits(after) > 0, "what was written reaches the disk afterwards\n{after}");

    machine.wait_for("agent.service", "active");
    assert!(machine.exists("/etc/systemd/system/systemd-journald.service.d/50-few.conf"));
    let reloads = machine.wait_until("the manager was reloaded for late work", |machine| {
        let lines = "journalctl --boot --no-pager --output=json --output-fields=MESSAGE _PID=1";
        let told = machine.shell(lines).stdout;
        let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let reloads = lines.filter(|line| line["MESSAGE"].as_str().is_some_and(|said| said.contains("Reloading")));
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
