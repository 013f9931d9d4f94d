//! `check-image` and `support` on real systems: Debian roots, and machines that boot.

mod booted;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use booted::ONE;
use booted::document::{Document, max_pods, ovf_env};
use booted::stage::Stage;
use serde_json::{Value, json};
use support::program::kilnd;
use testkit::TestDep;
use testkit::nspawn::Blueprint;

const UNITS: &str = "/usr/lib/systemd/system";
/// A drop-in of the image that sorts after kiln's, whatever kiln's is called, and a condition in it that is not met.
const SITE: &str = "/etc/systemd/system/kubelet.service.d/zzzzzz-site.conf";
const CONDITION: &str = "[Unit]\nConditionPathExists=/opt/bin/kubelet\n";

fn root_of(dependency: TestDep) -> PathBuf {
    testkit::require(dependency).ancestors().nth(3).expect("a root").to_owned()
}

/// A machine that has a `/dev/console`: with the pipes of other tests there is none.
fn with_console(name: &str) -> Blueprint {
    Stage::with_fakes(name).argument("--console=read-only")
}

/// The findings on a root: exit code, and ids with their severities.
fn findings(root: &Path) -> (Option<i32>, BTreeMap<String, String>, String) {
    let output = kilnd().args(["check-image", "--output", "json", "--root"]).arg(root).output().expect("kilnd runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((&report["schema"], &report["purpose"]), (&json!(1), &json!("image")));
    let list = report["findings"].as_array().expect("a list").iter();
    let text_of = |value: &Value| value.as_str().expect("a text").to_owned();
    let ids = list.map(|one| (text_of(&one["id"]), text_of(&one["severity"]))).collect();
    (output.status.code(), ids, text)
}

/// The findings on a minimal Debian with containerd, without kubelet and kilnd.
const MINIMAL: [(&str, &str); 10] = [
    ("br-netfilter-not-loaded", "note"),
    ("cni-plugins-missing", "warning"),
    ("containerd-drop-in-missing", "blocker"),
    ("iptables-missing", "warning"),
    ("kernel-argument-tool-missing", "warning"),
    ("kiln-unit-disabled", "blocker"),
    ("kubelet-missing", "blocker"),
    ("kubelet-unit-missing", "blocker"),
    ("modprobe-missing", "warning"),
    ("sysctl-baseline", "note"),
];

#[test]
fn real_debian_roots_have_exactly_the_expected_findings() {
    let expected: BTreeMap<String, String> =
        MINIMAL.iter().map(|(id, severity)| ((*id).to_owned(), (*severity).to_owned())).collect();
    let (code, found, text) = findings(&root_of(TestDep::NodeRoot));
    assert_eq!((code, &found), (Some(1), &expected), "{text}");
    let (_, mut with_cloud_init, text) = findings(&root_of(TestDep::CloudRoot));
    assert_eq!(with_cloud_init.remove("cloud-init").as_deref(), Some("warning"), "{text}");
    assert!(text.contains("growpart") && text.contains("set_hostname"), "{text}");
    assert_eq!(with_cloud_init, expected, "{text}");
}

#[test]
fn broken_image_prints_one_sentence_on_the_console() {
    let mut machine = with_console("broken").file(SITE, CONDITION).build();
    machine.hardware("dmi/product_uuid", ONE);
    // The image does not have this version, so the gate stays closed.
    let document = Document::new(1).with("/spec/kubelet/version", json!("9.9.9"));
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&document)));
    machine.boot();
    let sentence = "kilnd: this machine does not become a node: ";
    let line = machine.wait_until("the sentence is on the console", |machine| {
        machine.console().lines().find(|line| line.contains(sentence)).map(str::to_owned)
    });
    assert!(line.contains("9.9.9") && line.contains("ConditionPathExists=/opt/bin/kubelet"), "{line}");
    machine.wait_until("systemd has repeated the boot", |machine| {
        machine.property("kiln-config.service", "NRestarts").parse::<u32>().ok().filter(|times| *times >= 2)
    });
    assert_eq!(machine.console().matches(sentence).count(), 1, "{}", machine.console());
    let errors =
        machine.run(&["journalctl", "--boot", "--no-pager", "--priority=err", "--unit=kiln-config.service"]).stdout;
    assert!(errors.contains("this machine does not become a node"), "{errors}");
    // The same command names it on the machine.
    let checked = machine.run(&["kilnd", "check-image"]);
    assert_eq!(checked.code, Some(1), "{checked}");
    assert!(checked.stdout.contains("blocker kubelet-condition: "), "{checked}");
}

#[test]
fn kubelet_that_systemd_skips_is_explained_on_the_console() {
    let mut machine = with_console("skipped").file(SITE, CONDITION).build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    let line = machine.wait_until("the reason is on the console", |machine| {
        machine.console().lines().find(|line| line.contains("kilnd: the node is not healthy")).map(str::to_owned)
    });
    assert!(line.contains("ConditionPathExists=/opt/bin/kubelet") && line.contains(SITE), "{line}");
    assert!(machine.exists("/run/kiln/ready"), "the gate is open");
    assert_eq!(machine.property("kubelet.service", "ConditionResult"), "no");
}

#[test]
fn machine_that_works_prints_nothing_and_gives_a_support_bundle_without_secrets() {
    // A kubelet that logs secrets.
    let secrets = "echo 'token abcdef.0123456789abcdef password=hunter2 --token swordfish' >&2\n\
                   echo '-----BEGIN EC PRIVATE KEY-----' >&2; echo c2VjcmV0LWtleS1ieXRlcw >&2; echo '-----END EC PRIVATE KEY-----' >&2\n";
    let unit = "[Service]\nExecStart=/usr/bin/kubelet\n";
    // kiln's drop-in resets `ExecStartPre=` of the image, and one that sorts after it adds its own.
    let drop_in = "/etc/systemd/system/kubelet.service.d/zzz-log.conf";
    let mut machine = with_console("supported")
        .file(&format!("{UNITS}/kubelet.service"), unit)
        .file(drop_in, "[Service]\nExecStartPre=/usr/bin/log-secrets\n")
        .executable("/usr/bin/log-secrets", format!("#!/bin/sh\n{secrets}"))
        .build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    assert!(!machine.console().contains("does not become a node"), "{}", machine.console());
    assert!(!machine.exists("/run/kiln/failure.json"), "a boot that works does not run the check");
    let journal = machine.run(&["journalctl", "--boot", "--unit=kubelet.service", "--no-pager"]).stdout;
    assert!(journal.contains("swordfish"), "the secrets are in the journal: {journal}");

    let made = machine.run(&[
        "kilnd",
        "support",
        "--out",
        "/var/tmp/bundle.tar",
        "--dmi",
        "/hardware/dmi",
        "--cd",
        "/hardware/cd",
    ]);
    assert_eq!(made.code, Some(0), "{made}");
    let unpacked = machine.shell("mkdir /var/tmp/b && tar -C /var/tmp/b -xf /var/tmp/bundle.tar && cd /var/tmp/b/kilnd-support && find . -type f | sort");
    assert_eq!(unpacked.code, Some(0), "{unpacked}");
    for name in [
        "boot.txt",
        "check-image.txt",
        "index.json",
        "plan.txt",
        "state.json",
        "status.json",
        "versions.json",
        "journal/kubelet.service.log",
        "journal/kiln-config.service.log",
        "units/kubelet.service",
        "current/kubelet.json",
    ] {
        assert!(unpacked.stdout.lines().any(|line| line == format!("./{name}")), "no {name}\n{unpacked}");
    }
    let read =
        |name: &str| machine.read(&format!("/var/tmp/b/kilnd-support/{name}")).unwrap_or_else(|| panic!("no {name}"));
    for file in unpacked.stdout.lines() {
        let text = read(file.trim_start_matches("./"));
        for marker in ["0123456789abcdef", "hunter2", "swordfish", "c2VjcmV0LWtleS1ieXRlcw"] {
            assert!(!text.contains(marker), "{file} contains {marker}: {text}");
        }
    }
    assert!(read("journal/kubelet.service.log").contains("password=***"), "{}", read("journal/kubelet.service.log"));
    let boot = kiln_boot_analysis::capture::parse(&read("boot.txt")).expect("a capture of the boot");
    assert!(boot.unit("kubelet.service").is_some());
    assert!(read("plan.txt").starts_with("generation 1 ("), "{}", read("plan.txt"));
    assert_eq!(machine.run(&["stat", "-c", "%a", "/var/tmp/bundle.tar"]).stdout.trim(), "600");
}
