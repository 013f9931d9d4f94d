//! `kiln boot` on a machine booted by a real systemd, compared with `systemd-analyze` on that machine.

use std::path::Path;

use serde_json::Value;
use testkit::nspawn::{Blueprint, Machine};

const SLOW: &str = "[Unit]\nDescription=slow service\nBefore=kubelet.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                    ExecStart=/bin/sleep 1.5\n";
const KUBELET: &str =
    "[Unit]\nDescription=stand-in for kubelet\nAfter=slow.service\n[Service]\nExecStart=/bin/sleep infinity\n";

fn booted() -> Machine {
    let machine = Blueprint::new("boot-live")
        .shared(Path::new(env!("CARGO_BIN_EXE_kiln")), "/opt/kiln")
        .file("/etc/systemd/system/slow.service", SLOW)
        .file("/etc/systemd/system/kubelet.service", KUBELET)
        .wanted_by("multi-user.target", "slow.service")
        .wanted_by("multi-user.target", "kubelet.service")
        .boot();
    assert_eq!(machine.settled(), "running", "{}", machine.journal(None));
    machine
}

fn json(machine: &Machine, arguments: &str) -> Value {
    machine.shell(&format!("/opt/kiln boot explain --output json {arguments}")).json()
}

#[test]
fn a_live_boot_is_printed_as_by_systemd_analyze_and_explained() {
    let machine = booted();
    for (command, reference) in [
        ("chain", "critical-chain"),
        ("chain kubelet.service", "critical-chain kubelet.service"),
        ("chain multi-user.target --fuzz 1s", "critical-chain multi-user.target --fuzz 1s"),
        ("blame", "blame"),
        ("time", "time"),
    ] {
        let printed = |command: &str| machine.shell(&format!("SYSTEMD_COLORS=0 {command}")).stdout;
        let expected = printed(&format!("systemd-analyze --no-pager {reference}"));
        assert_eq!(printed(&format!("/opt/kiln boot {command}")), expected, "{command}: kiln, then systemd-analyze");
    }

    let live = json(&machine, "");
    assert_eq!(live["unit"], "kubelet.service");
    let slow = live["findings"].as_array().and_then(|all| all.iter().find(|finding| finding["unit"] == "slow.service"));
    let slow = slow.unwrap_or_else(|| panic!("{live}"));
    let saves = slow["saves"].as_u64().expect("microseconds");
    assert!(slow["kind"] == "slow" && saves > 500_000, "{slow}");
    let hops = live["hops"].as_array().expect("hops");
    let spent = |hop: &Value| hop["waited"].as_u64().unwrap_or_default();
    let ran: u64 = hops[1..].iter().filter_map(|hop| hop["ran"].as_u64()).sum();
    assert_eq!(hops.iter().map(spent).sum::<u64>() + ran, live["began"].as_u64().expect("a start"));
    assert_eq!(hops.last().expect("a first hop")["unit"], "systemd", "PID 1 before the first unit");

    machine.shell("/opt/kiln boot capture -o /tmp/boot.txt");
    assert_eq!(json(&machine, "--capture /tmp/boot.txt"), live);
    machine.shell("/opt/kiln boot plot -o /tmp/boot.svg && grep -q '</svg>' /tmp/boot.svg");
    // The command in the guide for nodes without kiln.
    let guide = include_str!("../../../../docs/guides/boot.md");
    let by_hand = guide.lines().find(|line| line.starts_with("{ systemctl show")).expect("the line");
    machine.shell(&format!("cd /tmp && {by_hand} && mv boot.txt by-hand.txt"));
    assert_eq!(json(&machine, "--capture /tmp/by-hand.txt"), live);
}
