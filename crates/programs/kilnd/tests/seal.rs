//! `kilnd seal`: a disk becomes an image of nobody.

mod identity_donor;

use identity_donor::{DONOR, SECRET, TENANT, TOKEN, donor, joins_by, said};
use serde_json::Value;

#[test]
fn without_yes_a_seal_only_says_what_it_would_take_away() {
    let disk = donor();
    let before = disk.everything();
    for words in [&["seal"][..], &["seal", "--check"]] {
        let output = disk.kilnd(words);
        assert_eq!(output.status.code(), Some(1));
        let text = said(&output);
        for named in
            ["machine-id: /etc/machine-id", "kubelet-pods: /var/lib/kubelet/pods", "agent: /opt/agent/id", "owner: "]
        {
            assert!(text.contains(named), "{text}");
        }
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "{text}");
    }
    assert!(disk.everything() == before);
}

#[test]
fn a_sealed_disk_passes_its_own_check_and_starts_as_nobodys() {
    let disk = donor();
    let output = disk.kilnd(&["seal", "--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    let check = disk.kilnd(&["seal", "--check", "--output", "json"]);
    assert_eq!(check.status.code(), Some(0), "{}", said(&check));
    let answer: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    assert_eq!(answer["sealed"], true);
    let again = disk.kilnd(&["seal"]);
    assert!(again.status.success() && !said(&again).contains("--yes"), "nothing is left to do: {}", said(&again));
    assert_eq!(disk.text("/etc/machine-id"), "uninitialized\n");
    assert_eq!(disk.text("/etc/iscsi/initiatorname.iscsi"), "GenerateName=yes\n");
    assert!(!disk.has("/var/lib/kiln/vm-id") && !disk.has("/etc/kiln/current") && !disk.has("/etc/hostname"));
    for gone in [TENANT, SECRET, TOKEN] {
        let holding: Vec<String> =
            disk.holding(gone).into_iter().filter(|path| path != "/etc/default/kubelet").collect();
        assert!(holding.is_empty(), "`{gone}` is in {holding:?}");
    }
    assert!(disk.has("/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/aa"));

    disk.in_machine(DONOR);
    assert!(disk.kilnd(&["identity"]).status.success());
    assert!(disk.text("/run/kiln/boot.json").contains("\"first\""));
}

#[test]
fn a_token_in_a_file_of_others_is_named_and_taken_away() {
    let disk = donor();
    joins_by(&disk, "protectedSettings", "/var/lib/extension/token");
    disk.secret("/var/lib/extension/token", format!("abcdef.{TOKEN}\n"));
    let check = disk.kilnd(&["seal", "--check"]);
    assert!(said(&check).contains("join credential: /var/lib/extension/token\n"), "{}", said(&check));
    assert!(!said(&check).contains(TOKEN), "{}", said(&check));
    assert!(disk.kilnd(&["seal", "--yes"]).status.success());
    assert!(!disk.has("/var/lib/extension/token") && disk.kilnd(&["seal", "--check"]).status.success());
}

#[test]
fn one_thing_left_fails_the_check() {
    let disk = donor();
    assert!(disk.kilnd(&["seal", "--yes"]).status.success());
    disk.write("/var/lib/cni/networks/kubenet/10.244.0.9", "pod");
    let output = disk.kilnd(&["seal", "--check"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "cni-state: /var/lib/cni/networks\n");
}

#[test]
fn a_node_that_joined_nobody_knows_how_is_not_sealed() {
    let disk = donor();
    disk.secret("/var/lib/kubelet/bootstrap-kubeconfig", "users: []\n");
    let before = disk.everything();
    let output = disk.kilnd(&["seal", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("bootstrap-kubeconfig"), "{}", said(&output));
    assert!(disk.everything() == before);
}

#[test]
fn a_seal_that_is_cut_off_leaves_the_owner_recorded() {
    let donor = donor();
    for end in (0..).step_by(11) {
        let disk = donor.copy();
        let node = disk.node();
        node.root.stop_after(Some(end));
        let result = kilnd::commands::seal::seal(&node);
        if result.is_ok() {
            assert!(end > 80, "{end} operations");
            break;
        }
        assert_eq!(disk.text("/var/lib/kiln/vm-id").trim(), DONOR, "after {end} operations");
        let node = disk.node();
        kilnd::commands::seal::seal(&node).expect("the next run");
        assert_eq!(kilnd::commands::seal::find(&node.root).expect("looked"), [], "after {end} operations");
    }
}
