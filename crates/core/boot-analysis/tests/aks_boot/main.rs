//! The boots of a published analysis of AKS nodes, as they were pasted there, and what is to be found in them.

use kiln_boot_analysis::explain::{Explanation, Finding, FindingKind, explain};
use kiln_boot_analysis::{Usec, chain_text};

fn explained(pasted: &str) -> Explanation {
    let boot = chain_text::parse(pasted).expect("a chain");
    let root = boot.pasted_root().expect("its unit").to_owned();
    explain(&boot, &root).expect("an explanation")
}

/// Kind, unit and seconds of each finding.
fn listed(explained: &Explanation) -> Vec<(FindingKind, &str, String)> {
    let one = |finding: &Finding| finding.saves.to_string();
    explained.findings.iter().map(|finding| (finding.kind, finding.unit.as_str(), one(finding))).collect()
}

fn adds_up(explained: &Explanation) {
    let runs: Usec = explained.hops[1..].iter().filter_map(|hop| hop.ran).sum();
    let waits: Usec = explained.hops.iter().map(|hop| hop.waited).sum();
    assert_eq!(runs + waits, explained.began, "{:?}", explained.hops);
}

#[test]
fn the_first_waits_16_6_seconds_for_the_network_and_then_4_for_docker() {
    let explained = explained(include_str!("network.txt"));
    adds_up(&explained);
    let found = [
        (FindingKind::WaitOnline, "systemd-networkd-wait-online.service", "16.639s".to_owned()),
        (FindingKind::Slow, "docker.service", "4.032s".to_owned()),
    ];
    assert_eq!(listed(&explained), found);
    assert_eq!(explained.began.to_string(), "20.972s");
}

#[test]
fn the_second_was_made_ahead_and_its_16_min_40_s_are_counted_apart() {
    let explained = explained(include_str!("preprovisioned.txt"));
    adds_up(&explained);
    assert_eq!(explained.preprovisioning.to_string(), "16min 40.410s");
    assert_eq!((explained.began - explained.preprovisioning).to_string(), "15.024s", "of boot");
    let found = [
        (FindingKind::Preprovisioning, "cloud-init-local.service", "16min 40.410s".to_owned()),
        (FindingKind::CloudInit, "cloud-init.service", "7.076s".to_owned()),
        (FindingKind::CloudInit, "cloud-config.service", "3.266s".to_owned()),
        (FindingKind::WaitOnline, "systemd-networkd-wait-online.service", "1.033s".to_owned()),
    ];
    assert_eq!(listed(&explained), found);
}

#[test]
fn the_third_has_cloud_final_in_it_for_11_7_seconds() {
    let explained = explained(include_str!("cloud-final.txt"));
    adds_up(&explained);
    assert_eq!(explained.preprovisioning, Usec::ZERO, "six seconds are no pause");
    let found = [
        (FindingKind::CloudInit, "cloud-init.service", "20.216s".to_owned()),
        (FindingKind::CloudInit, "cloud-final.service", "11.703s".to_owned()),
        (FindingKind::CloudInit, "cloud-init-local.service", "6.098s".to_owned()),
        (FindingKind::CloudInit, "cloud-config.service", "2.499s".to_owned()),
        // 8.626 s to 10.912 s: cloud-init-local was done and cloud-init had not begun.
        (FindingKind::Outside, "cloud-init.service", "2.286s".to_owned()),
        (FindingKind::Outside, "cloud-init-local.service", "1.040s".to_owned()),
    ];
    assert_eq!(listed(&explained), found);
    assert!(explained.findings[1].found.contains("what is ordered after it waits for that"));
}

#[test]
fn a_kubelet_behind_that_cloud_final_would_have_started_11_7_seconds_earlier() {
    let pasted = include_str!("cloud-final.txt");
    let (header, chain) = pasted.split_once("cloud-final.service +11.703s\n").expect("the root");
    let deeper = chain.trim_end().replace('\n', "\n  ");
    let text = format!("{header}kubelet.service +95ms\n└─cloud-final.service @33.930s +11.703s\n  {deeper}\n");
    let boot = chain_text::parse(&text).expect("a chain");
    let explained = explain(&boot, "kubelet.service").expect("an explanation");
    adds_up(&explained);
    assert_eq!(explained.began.to_string(), "45.633s");
    let cloud_final = (FindingKind::CloudInit, "cloud-final.service", "11.703s".to_owned());
    assert_eq!(listed(&explained)[1], cloud_final, "after cloud-init's 20 s");
    assert!(explained.findings[1].found.contains("took 11.703s before it"));
}

#[test]
fn the_fourth_has_the_agent_behind_26_seconds_of_cloud_init() {
    let explained = explained(include_str!("walinuxagent.txt"));
    adds_up(&explained);
    let kinds = listed(&explained);
    assert_eq!(kinds[0], (FindingKind::CloudInit, "cloud-init.service", "20.216s".to_owned()));
    assert_eq!(kinds[1], (FindingKind::CloudInit, "cloud-init-local.service", "6.098s".to_owned()));
    let agent = explained.findings.iter().find(|finding| finding.kind == FindingKind::Agent).expect("the agent");
    let said = "walinuxagent.service was active at 31.385s, 26.314s of it in stages of cloud-init; every extension comes after that";
    assert_eq!((agent.unit.as_str(), agent.found.as_str()), ("walinuxagent.service", said));
}
