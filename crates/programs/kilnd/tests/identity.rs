//! `kilnd identity` on folders as disks: the kind of each boot, and that a clone shares only the image cache with its donor.

mod identity_donor;

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use identity_donor::{DONOR, DONOR_NAME, Disk, SECRET, TENANT, TOKEN, donor, empty, printed, set_credential_source};
use kiln_node_plan::Treatment;
use kilnd::identity::{establish, items};
use serde_json::Value;

const ONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const TWO: &str = "bbbbbbbb-0000-4000-8000-000000000002";
const THREE: &str = "cccccccc-0000-4000-8000-000000000003";

/// Files that a clone gets anew, so that they exist and differ.
const OWN: [&str; 8] = [
    "/etc/machine-id",
    "/etc/hostname",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/var/lib/systemd/random-seed",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/nvme/hostid",
    "/etc/nvme/hostnqn",
];

fn clone_of(disk: &Disk, id: &str) -> Disk {
    let clone = disk.copy();
    std::fs::remove_dir_all(clone.at("/run/kiln")).ok();
    clone.set_vm_id(id);
    let output = clone.kilnd(&["identity"]);
    assert!(output.status.success(), "{}", printed(&output));
    for hidden in [SECRET, TENANT, TOKEN] {
        assert!(!printed(&output).contains(hidden), "{}", printed(&output));
    }
    clone
}

fn kind(disk: &Disk) -> String {
    let record: Value = serde_json::from_str(&disk.text("/run/kiln/boot.json")).expect("JSON");
    record["kind"].as_str().expect("a kind").to_owned()
}

/// The names of the identity items that are present on a disk.
fn present_items(disk: &Disk) -> BTreeSet<String> {
    let root = disk.node().root;
    let all = items::all(&root).expect("the list").into_iter().filter(|item| item.treatment != Treatment::Keep);
    all.filter(|item| !item.paths_with_identity(&root).expect("looked").is_empty()).map(|item| item.name).collect()
}

#[test]
fn clones_have_distinct_identities_and_keep_the_image_cache() {
    let donor = donor();
    let listed = items::all(&donor.node().root).expect("the list");
    let present = present_items(&donor);
    let missing: Vec<_> = listed
        .iter()
        .filter(|item| item.treatment != Treatment::Keep && !present.contains(&item.name))
        .map(|item| item.name.as_str())
        .collect();
    assert!(missing.is_empty(), "the test's donor lacks items of the identity list: {missing:?}");

    let (one, two) = (clone_of(&donor, ONE), clone_of(&donor, TWO));
    let three = clone_of(&one, THREE);
    for path in OWN {
        let texts: BTreeSet<Vec<u8>> =
            [&donor, &one, &two, &three].iter().map(|disk| std::fs::read(disk.at(path)).expect(path)).collect();
        assert_eq!(texts.len(), 4, "{path}");
    }
    let made: BTreeSet<String> =
        ["host-name", "iscsi-initiator", "machine-id", "nvme-host-ids", "random-seed", "ssh-host-keys"]
            .map(str::to_owned)
            .into();
    for clone in [&one, &two, &three] {
        assert_eq!(kind(clone), "clone");
        assert_eq!(present_items(clone), made, "no other identity item is present");
        for gone in [TENANT, SECRET, TOKEN, "0123456789abcdef0123456789abcdef", "donor's", "donor-admin", "00:0d:3a"] {
            let holding: Vec<String> =
                clone.files_containing(gone).into_iter().filter(|path| path != "/etc/default/kubelet").collect();
            assert!(holding.is_empty(), "`{gone}` is in {holding:?}");
        }
        let images = "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/aa";
        let snapshot = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/bin/pause";
        let list = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db";
        for kept in [images, snapshot, list, "/var/lib/dpkg/status", "/opt/agent/agent.conf", "/etc/ssh/sshd_config"] {
            assert_eq!(clone.text(kept), donor.text(kept), "{kept}");
        }
        assert!(clone.has("/var/log/journal"), "journald writes to disk only if its folder exists");
        assert!(!clone.has("/var/lib/kiln/state.json") && !clone.has("/var/lib/dbus/machine-id"));
    }
    assert!(one.text("/etc/netplan/50-cloud-init.yaml").contains("name: \"eth0\""));
    assert_eq!(one.text("/run/systemd/network/10-netplan-eth0.network"), "[Match]\nName=eth0\n");
    assert_eq!(one.text("/var/lib/kiln/vm-id").trim(), ONE, "without kiln-config this service records the VM id");
    let ancestry = three.text("/var/lib/kiln/ancestry.log");
    let lines: Vec<Value> = ancestry.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let moves: Vec<_> = lines.iter().map(|line| (line["from"].as_str(), line["to"].as_str())).collect();
    assert_eq!(moves, [(Some(DONOR), Some(ONE)), (Some(ONE), Some(THREE))]);
}

#[test]
fn boot_on_the_same_machine_writes_only_the_boot_record() {
    let donor = donor();
    let before = donor.everything();
    let output = donor.kilnd(&["identity", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(kind(&donor), "again");
    assert!(donor.everything() == before);
    assert_eq!(donor.text("/etc/hostname").trim(), DONOR_NAME);
}

#[test]
fn vm_id_is_recorded_by_kiln_config_if_it_is_enabled() {
    let donor = donor();
    donor.write("/etc/systemd/system/multi-user.target.wants/kiln-config.service", "");
    let clone = clone_of(&donor, ONE);
    assert_eq!(
        clone.text("/var/lib/kiln/vm-id").trim(),
        DONOR,
        "if interrupted before its configuration, the machine must be treated as a clone again"
    );
}

#[test]
fn host_name_comes_from_the_provisioning_media() {
    let donor = donor();
    donor.set_vm_id(ONE);
    let ovf = "<Environment><LinuxProvisioningConfigurationSet><HostName>pool-000007</HostName>\
               </LinuxProvisioningConfigurationSet></Environment>";
    donor.write("/cd/ovf-env.xml", ovf);
    let cd = donor.at("/cd");
    let output = donor.kilnd(&["identity", "--cd", &cd.to_string_lossy()]);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(donor.text("/etc/hostname").trim(), "pool-000007");
    let other = clone_of(&donor, TWO);
    assert_eq!(other.text("/etc/hostname").trim(), "node-000000000002");
}

#[test]
fn join_credential_is_removed_or_kept_by_its_kind() {
    let token = clone_of(&donor(), ONE);
    assert!(!token.has("/var/lib/kubelet/bootstrap-kubeconfig"));
    assert!(!token.has("/etc/kiln/generations/3-h/credential"));
    assert!(!token.has("/var/lib/kubelet/kubeconfig"), "it refers to a deleted certificate");
    assert!(token.has("/etc/kiln/generations/3-h/kubelet.env"), "the generation's other files are kept");

    let shared = donor();
    std::fs::remove_file(shared.at("/var/lib/kubelet/bootstrap-kubeconfig")).expect("removed");
    shared.secret("/var/lib/kubelet/kubeconfig", "client-certificate: /etc/kubernetes/certs/client.crt\n");
    shared.secret("/etc/kubernetes/certs/client.key", "the key of all");
    let shared = clone_of(&shared, ONE);
    assert!(shared.has("/var/lib/kubelet/kubeconfig") && shared.has("/etc/kubernetes/certs/client.key"));

    let plugin = donor();
    plugin.secret("/var/lib/kubelet/bootstrap-kubeconfig", "exec:\n  command: /opt/kubelogin\n");
    plugin.secret("/root/.kube/cache/kubelogin/token", SECRET);
    let plugin = clone_of(&plugin, ONE);
    assert!(plugin.has("/var/lib/kubelet/bootstrap-kubeconfig"));
    assert!(!plugin.has("/root/.kube/cache/kubelogin"));
}

#[test]
fn clone_of_a_kubeadm_node_has_no_trace_that_kubeadm_refuses() {
    let donor = donor();
    std::fs::remove_file(donor.at("/var/lib/kubelet/bootstrap-kubeconfig")).expect("removed");
    std::fs::remove_file(donor.at("/var/lib/kubelet/kubeconfig")).expect("removed");
    donor.secret(
        "/etc/kubernetes/kubelet.conf",
        "users:\n- user:\n    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n",
    );
    let traces = ["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env"];
    for path in traces {
        donor.write(path, "of the donor");
    }
    donor.write("/etc/kubernetes/manifests/proxy.yaml", "kept");
    let clone = clone_of(&donor, ONE);
    for gone in traces.iter().chain(&["/etc/kubernetes/kubelet.conf"]) {
        assert!(!clone.has(gone), "{gone}");
    }
    assert_eq!(std::fs::read_dir(clone.at("/var/lib/kubelet/pki")).expect("a folder").count(), 0);
    assert!(clone.has("/etc/kubernetes/manifests/proxy.yaml"), "not written by kubeadm");
    assert!(donor.has("/etc/kubernetes/kubelet.conf"), "the donor keeps its own");
}

#[test]
fn clone_of_an_aks_node_runs_its_scripts_again() {
    let donor = donor();
    let handler = "/var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-2.1.10";
    for (path, text) in [
        ("/opt/azure/containers/provision.complete", ""),
        (&format!("{handler}/mrseq"), "0"),
        (&format!("{handler}/config/0.settings"), SECRET),
        (&format!("{handler}/config/HandlerState"), "Enabled"),
        (&format!("{handler}/status/0.status"), "success"),
        (&format!("{handler}/HandlerManifest.json"), "{}"),
        ("/var/lib/kubelet/config.yaml", "of the image"),
    ] {
        donor.write(path, text);
    }
    let clone = clone_of(&donor, ONE);
    assert!(!clone.has("/opt/azure/containers/provision.complete"));
    for gone in ["mrseq", "config/0.settings", "config/HandlerState", "status/0.status"] {
        assert!(!clone.has(&format!("{handler}/{gone}")), "{gone}");
    }
    assert!(clone.has(&format!("{handler}/HandlerManifest.json")), "the extension itself is kept");
    assert!(clone.has("/var/lib/kubelet/config.yaml"), "not written by kubeadm here");

    // With a shared certificate nothing runs again, so everything that the scripts wrote stays.
    donor.secret("/var/lib/kubelet/bootstrap-kubeconfig", "client-certificate: /etc/kubernetes/certs/client.crt\n");
    assert!(clone_of(&donor, ONE).has("/opt/azure/containers/provision.complete"));
}

#[test]
fn token_file_named_by_the_document_is_removed_and_other_credentials_are_kept() {
    let kubeconfig = format!("kind: Config\nclusters: []\nusers:\n- user:\n    token: abcdef.{TOKEN}\n");
    for (kind, text) in [("file", format!("abcdef.{TOKEN}\n")), ("protectedSettings", kubeconfig)] {
        let donor = donor();
        set_credential_source(&donor, kind, "/etc//join/token");
        donor.secret("/etc/join/token", &text);
        donor.secret("/etc/join/other", "unrelated");
        let clone = clone_of(&donor, ONE);
        assert_eq!(clone.files_containing(TOKEN), Vec::<String>::new(), "{kind}");
        assert_eq!(clone.text("/etc/join/other"), "unrelated");
        assert!(donor.has("/etc/join/token"), "the donor keeps its token");
    }

    let linked = donor();
    set_credential_source(&linked, "file", "/etc/join");
    linked.secret("/opt/secrets/..data/join", format!("abcdef.{TOKEN}\n"));
    symlink("..data/join", linked.at("/opt/secrets/join")).expect("a link");
    symlink("/opt/secrets/./join", linked.at("/etc/join")).expect("a link");
    let clone = clone_of(&linked, ONE);
    assert_eq!(clone.files_containing(TOKEN), Vec::<String>::new());
    assert!(!clone.has("/etc/join") && clone.has("/opt/secrets/..data"));

    let shared = donor();
    set_credential_source(&shared, "file", "/etc/join");
    let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMA==\n";
    shared.secret("/etc/join", pem);
    assert_eq!(clone_of(&shared, ONE).text("/etc/join"), pem, "a client certificate is shared by all nodes");

    let folder = donor();
    set_credential_source(&folder, "file", "/etc/kubernetes");
    folder.write("/etc/kubernetes/kept", "");
    assert!(clone_of(&folder, ONE).has("/etc/kubernetes/kept"), "a folder is not a credential");
}

#[test]
fn disk_without_a_recorded_vm_id_gets_missing_items_and_keeps_the_rest() {
    let disk = empty();
    disk.set_vm_id(ONE);
    disk.write("/etc/ssh/sshd_config", "");
    disk.write("/etc/machine-id", "uninitialized\n");
    assert!(disk.kilnd(&["identity"]).status.success());
    assert_eq!(kind(&disk), "first");
    assert!(disk.text("/etc/ssh/ssh_host_ed25519_key").starts_with("-----BEGIN OPENSSH PRIVATE KEY-----"));
    assert_eq!(disk.text("/etc/machine-id"), "uninitialized\n", "PID 1 generates and commits the machine id itself");
    let key = disk.text("/etc/ssh/ssh_host_ed25519_key");
    assert!(disk.kilnd(&["identity"]).status.success());
    assert_eq!(disk.text("/etc/ssh/ssh_host_ed25519_key"), key);
}

#[test]
fn without_a_vm_id_or_with_an_invalid_list_nothing_is_changed_and_the_gate_stays_closed() {
    let without_id = donor();
    std::fs::remove_file(without_id.at("/sys/class/dmi/id/product_uuid")).expect("removed");
    let invalid = donor();
    invalid.set_vm_id(ONE);
    invalid.write("/etc/kiln/seal.d/bad.json", r#"{"name": "x", "paths": ["/etc"], "why": "y"}"#);
    for (disk, named) in [(without_id, DONOR), (invalid, "bad.json")] {
        let before = disk.everything();
        let output = disk.kilnd(&["identity"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(printed(&output).contains(named), "{}", printed(&output));
        assert!(disk.everything() == before);
        assert!(!disk.has("/run/kiln/boot.json"));
    }
}

#[test]
fn interrupted_reset_is_repeated_at_the_next_boot() {
    let donor = donor();
    donor.set_vm_id(ONE);
    // Each interruption needs a full reset; every seventh operation is enough to cover each kind.
    for end in (0..).step_by(7) {
        let clone = donor.copy();
        let node = clone.node();
        node.root.stop_after(Some(end));
        let cut = establish(&node).is_err();
        if cut {
            let owner = clone.text("/var/lib/kiln/vm-id");
            let is_complete = || present_items(&clone).len() == 6 && clone.files_containing(TENANT).is_empty();
            assert!(owner.trim() == DONOR || is_complete(), "after {end} operations");
            assert!(!clone.has("/run/kiln/boot.json"), "after {end} operations the boot record must not exist");
        }
        let node = clone.node();
        establish(&node).expect("the next boot");
        assert!(
            clone.files_containing(TENANT).is_empty() && clone.files_containing(TOKEN).is_empty(),
            "after {end} operations"
        );
        let left = present_items(&clone);
        assert!(left.len() <= 6 && left.contains("machine-id"), "after {end} operations: {left:?}");
        if !cut {
            assert!(end > 100, "{end} operations");
            break;
        }
    }
}
