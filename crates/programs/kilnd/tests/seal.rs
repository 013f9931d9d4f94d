//! `kilnd seal` removes a machine's identity from a disk, so that it can become an image.

mod identity_donor;

use identity_donor::{DONOR, SECRET, TENANT, TOKEN, donor, printed, set_credential_source};
use serde_json::Value;

#[test]
fn without_yes_seal_only_lists_what_it_would_remove() {
    let disk = donor();
    let before = disk.everything();
    for args in [&["seal"][..], &["seal", "--check"]] {
        let output = disk.kilnd(args);
        assert_eq!(output.status.code(), Some(1));
        let text = printed(&output);
        for listed in
            ["machine-id: /etc/machine-id", "kubelet-pods: /var/lib/kubelet/pods", "agent: /opt/agent/id", "owner: "]
        {
            assert!(text.contains(listed), "{text}");
        }
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "{text}");
    }
    assert!(disk.everything() == before);
}

#[test]
fn sealed_disk_passes_the_check_and_has_a_first_boot() {
    let disk = donor();
    let output = disk.kilnd(&["seal", "--yes"]);
    assert!(output.status.success(), "{}", printed(&output));
    let check = disk.kilnd(&["seal", "--check", "--output", "json"]);
    assert_eq!(check.status.code(), Some(0), "{}", printed(&check));
    let answer: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    assert_eq!(answer["sealed"], true);
    let again = disk.kilnd(&["seal"]);
    assert!(again.status.success() && !printed(&again).contains("--yes"), "nothing is left to do: {}", printed(&again));
    assert_eq!(disk.text("/etc/machine-id"), "uninitialized\n");
    assert_eq!(disk.text("/etc/iscsi/initiatorname.iscsi"), "GenerateName=yes\n");
    assert!(!disk.has("/var/lib/kiln/vm-id") && !disk.has("/etc/kiln/current") && !disk.has("/etc/hostname"));
    for gone in [TENANT, SECRET, TOKEN] {
        let holding: Vec<String> =
            disk.files_containing(gone).into_iter().filter(|path| path != "/etc/default/kubelet").collect();
        assert!(holding.is_empty(), "`{gone}` is in {holding:?}");
    }
    assert!(disk.has("/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/aa"));

    disk.set_vm_id(DONOR);
    assert!(disk.kilnd(&["identity"]).status.success());
    assert!(disk.text("/run/kiln/boot.json").contains("\"first\""));
}

#[test]
fn token_in_an_external_file_is_listed_and_removed() {
    let disk = donor();
    set_credential_source(&disk, "protectedSettings", "/var/lib/extension/token");
    disk.secret("/var/lib/extension/token", format!("abcdef.{TOKEN}\n"));
    let check = disk.kilnd(&["seal", "--check"]);
    assert!(printed(&check).contains("join credential: /var/lib/extension/token\n"), "{}", printed(&check));
    assert!(!printed(&check).contains(TOKEN), "{}", printed(&check));
    assert!(disk.kilnd(&["seal", "--yes"]).status.success());
    assert!(!disk.has("/var/lib/extension/token") && disk.kilnd(&["seal", "--check"]).status.success());
}

#[test]
fn one_remaining_item_fails_the_check() {
    let disk = donor();
    assert!(disk.kilnd(&["seal", "--yes"]).status.success());
    disk.write("/var/lib/cni/networks/kubenet/10.244.0.9", "pod");
    let output = disk.kilnd(&["seal", "--check"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "cni-state: /var/lib/cni/networks\n");
}

#[test]
fn node_with_an_unknown_join_method_is_not_sealed() {
    let disk = donor();
    disk.secret("/var/lib/kubelet/bootstrap-kubeconfig", "users: []\n");
    let before = disk.everything();
    let output = disk.kilnd(&["seal", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("bootstrap-kubeconfig"), "{}", printed(&output));
    assert!(disk.everything() == before);
}

#[test]
fn interrupted_seal_keeps_the_recorded_vm_id() {
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
