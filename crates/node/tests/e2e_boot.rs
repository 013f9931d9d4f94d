//! kilnd at the boot of a real systemd: where the document comes from, and what keeps kubelet from starting.

mod booted;

use std::sync::Mutex;
use std::sync::mpsc::channel;

use booted::cloud::Cloud;
use booted::document::{Document, max_pods, medium, placeholder};
use booted::stage::{Stage, pods};
use booted::{ONE, OTHER};
use serde_json::{Value, json};
use testkit::nspawn::{Machine, Response, Server};

/// A machine that is off, with its own id and this document on its medium.
fn provisioned(name: &str, document: &Document) -> Machine {
    let machine = Stage::with_stand_ins(name).build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", medium("node-1", Some(document)));
    machine
}

/// Waits until a boot is over and kubelet did not start in it, and never had.
#[track_caller]
fn assert_kubelet_never_ran(machine: &Machine) {
    machine.wait_until("kubelet's turn has passed", |machine| {
        let skipped = machine.property("kubelet.service", "ConditionTimestampMonotonic") != "0";
        skipped.then_some(())
    });
    assert_eq!(machine.property("kubelet.service", "ConditionResult"), "no", "{}", machine.journal(None));
    assert_eq!(machine.property("kubelet.service", "ExecMainStartTimestampMonotonic"), "0");
    assert!(!machine.exists("/run/kiln/ready"));
}

#[test]
fn a_first_boot_reads_the_medium_and_starts_kubelet_with_it() {
    let mut machine = provisioned("first", &max_pods(1, 30));
    machine.boot();
    let starts = Stage::wait_for_kubelet(&machine, 1);
    assert!(starts[0].contains("--config=/etc/kiln/current/kubelet.json"), "{starts:?}");
    assert_eq!(pods(&machine), Some(30));
    assert_eq!(machine.shell("hostname").stdout, "node-1\n");
    assert_eq!(Stage::json(&machine, "/run/kiln/boot.json")["kind"], "first");
    Stage::wait_committed(&machine, 1);
    assert_eq!(machine.settled(), "running", "{}", machine.journal(None));
}

#[test]
fn an_old_medium_does_not_undo_what_user_data_changed() {
    let mut machine = provisioned("medium", &max_pods(1, 30));
    let cloud = Cloud::of(&machine);
    machine.boot();
    Stage::wait_committed(&machine, 1);
    cloud.set(&max_pods(2, 40));
    Stage::wait_committed(&machine, 2);
    assert_eq!(pods(&machine), Some(40));
    machine.reboot();
    machine.wait_for("kubelet.service", "active");
    assert_eq!(Stage::json(&machine, "/run/kiln/boot.json")["kind"], "again");
    assert_eq!((pods(&machine), Stage::committed(&machine)), (Some(40), Some(2)));
    let looked = cloud.asked();
    machine.wait_until("kilnd has looked again", |_| (cloud.asked() > looked + 1).then_some(()));
    assert_eq!((pods(&machine), Stage::committed(&machine)), (Some(40), Some(2)), "{}", machine.journal(None));
}

#[test]
fn a_second_boot_starts_kubelet_while_the_metadata_service_hangs() {
    let mut machine = provisioned("hangs", &max_pods(1, 30));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    machine.power_off();
    machine.detach("cd");
    // Whoever asks waits until the test is over.
    let (end, ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let listener = machine.network().listen(([169, 254, 169, 254], 80).into());
    let server = Server::start(listener, move |_| {
        let _ = ended.lock().map(|ended| ended.recv());
        Response::status(503)
    });
    machine.boot();
    machine.wait_for("kubelet.service", "active");
    assert_eq!(Stage::json(&machine, "/run/kiln/boot.json")["kind"], "again");
    assert_eq!(machine.property("kiln-config.service", "ActiveState"), "active");
    assert!(server.seen().len() <= 1, "only the watch asks, and it waits for its first answer");
    drop(end);
}

#[test]
fn a_clone_that_cannot_be_reset_never_runs_kubelet() {
    let mut donor = provisioned("donor", &max_pods(1, 30));
    donor.boot();
    Stage::wait_committed(&donor, 1);
    donor.power_off();
    // A volume that is mounted below a folder of the identity list: kilnd refuses to empty it.
    let volume = "[Unit]\nDefaultDependencies=no\nBefore=kiln-identity.service\n[Mount]\nWhat=tmpfs\nType=tmpfs\n\
        Where=/var/lib/kubelet/pods\n";
    let mut clone = Stage::with_stand_ins("refused")
        .disk_of(&donor)
        .file("/etc/systemd/system/var-lib-kubelet-pods.mount", volume)
        .wanted_by("sysinit.target", "var-lib-kubelet-pods.mount")
        .build();
    clone.hardware("dmi/product_uuid", OTHER);
    clone.hardware("cd/ovf-env.xml", medium("node-2", Some(&max_pods(1, 30))));
    let before = Stage::kubelet_starts(&clone).len();
    clone.boot();
    clone.wait_for("kiln-identity.service", "failed");
    assert_kubelet_never_ran(&clone);
    assert_eq!(clone.settled(), "degraded");
    assert_kubelet_never_ran(&clone);
    assert_eq!(
        clone.run(&["systemctl", "start", "kubelet.service"]).code,
        Some(0),
        "skipped, which systemd calls done"
    );
    assert_eq!(Stage::kubelet_starts(&clone).len(), before, "nobody started it by hand either");
    // Without the volume the same disk becomes a machine of its own.
    clone.power_off();
    clone.shell("rm /etc/systemd/system/sysinit.target.wants/var-lib-kubelet-pods.mount");
    clone.boot();
    Stage::wait_for_kubelet(&clone, before + 1);
}

#[test]
fn a_document_that_is_refused_keeps_the_gate_shut_and_says_why() {
    let bad = Document::new(1).with("/spec/kubelet/version", json!("9.9.9"));
    let mut machine = provisioned("refused", &bad);
    machine.boot();
    assert_kubelet_never_ran(&machine);
    let status = machine.wait_until("the status says why", |machine| machine.read("/run/kiln/status.json"));
    assert!(status.contains("9.9.9"), "{status}");
    // The right one comes: kilnd tries again by itself, and starts kubelet, whose turn has passed.
    machine.hardware("cd/ovf-env.xml", medium("node-1", Some(&max_pods(1, 30))));
    Stage::wait_for_kubelet(&machine, 1);
    Stage::wait_committed(&machine, 1);
}

#[test]
fn a_document_that_comes_late_starts_kubelet() {
    let mut machine = Stage::with_stand_ins("late").build();
    let cloud = Cloud::of(&machine);
    machine.hardware("dmi/product_uuid", ONE);
    Stage::hurry(&machine, 1000);
    machine.boot();
    assert_kubelet_never_ran(&machine);
    assert!(cloud.asked() > 0);
    cloud.set(&max_pods(7, 30));
    Stage::wait_for_kubelet(&machine, 1);
    Stage::wait_committed(&machine, 7);
    assert_eq!(machine.property("kiln-watch.service", "ActiveState"), "active", "kubelet wants it");
}

#[test]
fn a_machine_that_was_started_ahead_waits_for_its_real_medium() {
    let mut machine = Stage::with_stand_ins("ahead").build();
    let cloud = Cloud::of(&machine);
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", placeholder());
    machine.boot();
    machine.wait_until("it asks whether somebody wants it", |_| (cloud.requests() > 1).then_some(()));
    assert_eq!(machine.property("kiln-config.service", "ActiveState"), "activating");
    assert!(Stage::kubelet_starts(&machine).is_empty());
    machine.hardware("cd/ovf-env.xml", medium("node-9", Some(&max_pods(3, 30))));
    Stage::wait_for_kubelet(&machine, 1);
    assert_eq!(machine.shell("hostname").stdout, "node-9\n");
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
