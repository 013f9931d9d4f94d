//! The budgets of kilnd at a first boot hold next to cloud-init, waagent and netplan too.

use serde_json::Value;

use super::booted::trace::{assert_no_child, syncs, trace, wait_for_trace};
use super::kinds::Kind;
use super::node::Node;

#[test]
fn first_boot_next_to_cloud_init_and_waagent_starts_no_process_and_reloads_nothing() {
    let node = Node::new(Kind::Ubuntu, "budgets");
    node.attach_media(&node.document(1));
    let identity = trace(&node.machine, "kiln-identity.service", "identity");
    let boot = trace(&node.machine, "kiln-config.service", "boot");
    let node = node.boot();
    node.assert_joined(1);
    assert_no_child(&wait_for_trace(&node.machine, &identity));
    let trace = wait_for_trace(&node.machine, &boot);
    assert_no_child(&trace);
    let (before, _) = trace.split_once("READY=1").unwrap_or_else(|| panic!("no ready notification\n{trace}"));
    assert_eq!(syncs(before), 0, "{before}");
    assert!(!trace.contains("Reload"), "kilnd called a method of systemd that reloads units\n{trace}");

    node.machine.wait_for("cloud-final.service", "active");
    // Of a debug build, which needs three times the memory of a release. The budget is that of `cargo xtask bench node`.
    let peak = "grep VmHWM /proc/$(systemctl show --value --property=MainPID kiln-watch)/status";
    eprintln!("kilnd watch: {}", node.machine.shell(peak).stdout.trim());
    for unit in ["kiln-config.service", "cloud-init.service", "kubelet.service", "cloud-final.service"] {
        eprintln!("{unit} started after {:.2?} s", started(&node, unit));
    }
    let lines = "journalctl --boot --no-pager --output=json --output-fields=MESSAGE _PID=1";
    let journal = node.machine.shell(lines).stdout;
    let reloads = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for line in reloads.filter(|line| line["MESSAGE"].as_str().is_some_and(|text| text.contains("Reloading"))) {
        eprintln!("{}: {}", line["__MONOTONIC_TIMESTAMP"], line["MESSAGE"]);
    }
}

/// The guide recommends this for images that need cloud-init for nothing else. Its second stage is ordered before `sysinit.target` on Debian and
/// Ubuntu, so that every ordinary service waits for it.
#[test]
fn image_whose_cloud_init_is_disabled_joins_and_the_kubelet_waits_for_no_agent() {
    let node = Node::new(Kind::Ubuntu, "alone");
    node.attach_media(&node.document(1));
    node.machine.write("/etc/cloud/cloud-init.disabled", b"", 0o644);
    let node = node.boot();
    node.assert_joined(1);
    assert_eq!(started(&node, "cloud-init.service"), None);
    eprintln!("without cloud-init: kubelet after {:.2?} s", started(&node, "kubelet.service"));
    node.machine.wait_for("walinuxagent.service", "active");
}

/// Seconds from the start of systemd to the start of a service, for the guide. No test compares durations, because the host runs other work.
fn started(node: &Node, unit: &str) -> Option<f64> {
    let seconds = |text: &str| text.trim().parse::<f64>().unwrap_or_default() / 1e6;
    let began = seconds(&node.machine.shell("systemctl show --value --property=UserspaceTimestampMonotonic").stdout);
    let at = seconds(&node.machine.property(unit, "InactiveExitTimestampMonotonic"));
    (at > 0.0).then_some(at - began)
}
