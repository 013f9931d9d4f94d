//! The budgets of kilnd at a first boot hold next to cloud-init, waagent and netplan too.

use serde_json::Value;

use super::booted::trace::{assert_no_child, syncs, trace, wait_for_trace};
use super::kinds::Kind;
use super::node::Node;

#[test]
fn first_boot_next_to_cloud_init_and_waagent_starts_no_process_and_reloads_nothing() {
    let node = Node::new(Kind::UbuntuLike, "budgets");
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

    // Figures for the guide, which no test compares: the host runs other work.
    let stamp =
        |unit: &str, property: &str| node.machine.property(unit, property).parse::<f64>().unwrap_or_default() / 1e6;
    let began = node.machine.shell("systemctl show --value --property=UserspaceTimestampMonotonic").stdout;
    let began = began.trim().parse::<f64>().unwrap_or_default() / 1e6;
    node.machine.wait_for("cloud-final.service", "active");
    let (kubelet, last) = (
        stamp("kubelet.service", "ExecMainStartTimestampMonotonic"),
        stamp("cloud-final.service", "ActiveEnterTimestampMonotonic"),
    );
    eprintln!("kubelet after {:.2} s, cloud-init's last stage after {:.2} s", kubelet - began, last - began);
    let lines = "journalctl --boot --no-pager --output=json --output-fields=MESSAGE _PID=1";
    let journal = node.machine.shell(lines).stdout;
    let reloads = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for line in reloads.filter(|line| line["MESSAGE"].as_str().is_some_and(|text| text.contains("Reloading"))) {
        eprintln!("{}: {}", line["__MONOTONIC_TIMESTAMP"], line["MESSAGE"]);
    }
}
