//! Critical chains from a published analysis of AKS boots, and the findings expected in them.

use kiln_boot_analysis::explain::{Explanation, Finding, FindingKind, explain};
use kiln_boot_analysis::{Usec, chain_text};

fn explained(pasted: &str) -> Explanation {
    let boot = chain_text::parse(pasted).expect("a chain");
    let root = boot.pasted_root().expect("its unit").to_owned();
    explain(&boot, &root).expect("an explanation")
}

/// Kind, unit and saving of each finding.
fn listed(explained: &Explanation) -> Vec<(FindingKind, &str, String)> {
    let row = |finding: &Finding| finding.saves.to_string();
    explained.findings.iter().map(|finding| (finding.kind, finding.unit.as_str(), row(finding))).collect()
}

fn assert_adds_up(explained: &Explanation) {
    let runs: Usec = explained.hops[1..].iter().filter_map(|hop| hop.ran).sum();
    let waits: Usec = explained.hops.iter().map(|hop| hop.waited).sum();
    assert_eq!(runs + waits, explained.began, "{:?}", explained.hops);
}

#[test]
fn network_chain_waits_16_6_seconds_for_the_network_and_4_for_docker() {
    let explained = explained(include_str!("network.txt"));
    assert_adds_up(&explained);
    let found = [
        (FindingKind::WaitOnline, "systemd-networkd-wait-online.service", "16.639s".to_owned()),
        (FindingKind::Slow, "docker.service", "4.032s".to_owned()),
    ];
    assert_eq!(listed(&explained), found);
    assert_eq!(explained.began.to_string(), "20.972s");
}

#[test]
fn preprovisioned_chain_has_a_pause_of_16_min_40_s() {
    let explained = explained(include_str!("preprovisioned.txt"));
    assert_adds_up(&explained);
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
fn cloud_final_chain_spends_11_7_seconds_in_cloud_final() {
    let explained = explained(include_str!("cloud-final.txt"));
    assert_adds_up(&explained);
    assert_eq!(explained.preprovisioning, Usec::ZERO, "six seconds are not a pause");
    let found = [
        (FindingKind::CloudInit, "cloud-init.service", "20.216s".to_owned()),
        (FindingKind::CloudInit, "cloud-final.service", "11.703s".to_owned()),
        (FindingKind::CloudInit, "cloud-init-local.service", "6.098s".to_owned()),
        (FindingKind::CloudInit, "cloud-config.service", "2.499s".to_owned()),
        // 8.626 s to 10.912 s: cloud-init-local had ended and cloud-init had not started.
        (FindingKind::Outside, "cloud-init.service", "2.286s".to_owned()),
        (FindingKind::Outside, "cloud-init-local.service", "1.040s".to_owned()),
    ];
    assert_eq!(listed(&explained), found);
    assert!(explained.findings[1].message.contains("units ordered after it wait for that"));
}

#[test]
fn a_kubelet_ordered_after_cloud_final_would_save_11_7_seconds() {
    let pasted = include_str!("cloud-final.txt");
    let (header, chain) = pasted.split_once("cloud-final.service +11.703s\n").expect("the root");
    let deeper = chain.trim_end().replace('\n', "\n  ");
    let text = format!("{header}kubelet.service +95ms\n└─cloud-final.service @33.930s +11.703s\n  {deeper}\n");
    let boot = chain_text::parse(&text).expect("a chain");
    let explained = explain(&boot, "kubelet.service").expect("an explanation");
    assert_adds_up(&explained);
    assert_eq!(explained.began.to_string(), "45.633s");
    let cloud_final = (FindingKind::CloudInit, "cloud-final.service", "11.703s".to_owned());
    assert_eq!(listed(&explained)[1], cloud_final, "after cloud-init's 20 s");
    assert!(explained.findings[1].message.contains("cloud-final.service took 11.703s to start"));
}

#[test]
fn walinuxagent_chain_has_26_seconds_of_cloud_init_before_the_agent() {
    let explained = explained(include_str!("walinuxagent.txt"));
    assert_adds_up(&explained);
    let kinds = listed(&explained);
    assert_eq!(kinds[0], (FindingKind::CloudInit, "cloud-init.service", "20.216s".to_owned()));
    assert_eq!(kinds[1], (FindingKind::CloudInit, "cloud-init-local.service", "6.098s".to_owned()));
    let agent = explained.findings.iter().find(|finding| finding.kind == FindingKind::Agent).expect("the agent");
    let message =
        "walinuxagent.service became active at 31.385s, after 26.314s of cloud-init; extensions run only after that";
    assert_eq!((agent.unit.as_str(), agent.message.as_str()), ("walinuxagent.service", message));
}
