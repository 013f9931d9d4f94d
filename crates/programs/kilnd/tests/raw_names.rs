//! File names that are not UTF-8. Tenants choose the names in volumes and layers, so a name must never stop a clone, an inspection or a seal.

mod identity_donor;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use identity_donor::{Disk, SECRET, TENANT, TOKEN, donor, printed};
use kiln_node_plan::Treatment;
use kilnd::identity::items;

const CLONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";
/// Not UTF-8.
const NAME: &[u8] = b"l\xe9gende-\xff";

/// Folders outside the identity list that identity, inspect or seal read.
const READ: [&str; 16] = [
    "/boot",
    "/etc/cni/net.d",
    "/etc/default",
    "/etc/kiln/generations",
    "/etc/kiln/generations/3-h",
    "/etc/kiln/seal.d",
    "/etc/kubernetes",
    "/etc/netplan",
    "/etc/ssh",
    "/etc/ssh/sshd_config.d",
    "/etc/systemd/network",
    "/etc/systemd/system",
    "/lib/modules",
    "/root/.ssh",
    "/var/lib/dpkg/status.d",
    "/var/log",
];

fn raw(folder: &Path, before: &str, after: &str) -> PathBuf {
    folder.join(OsStr::from_bytes(&[before.as_bytes(), NAME, after.as_bytes()].concat()))
}

/// Creates a file, a folder with a file, and a link with such names.
fn plant(disk: &Disk, folder: &str) {
    let folder = disk.at(folder);
    fs::create_dir_all(&folder).expect("folders");
    fs::write(raw(&folder, "", ""), "x").expect("written");
    fs::create_dir(raw(&folder, "", ".d")).expect("a folder");
    fs::write(raw(&raw(&folder, "", ".d"), "", ""), "x").expect("written");
    symlink(OsStr::from_bytes(NAME), raw(&folder, "", ".link")).expect("a link");
}

/// The donor with such names everywhere.
fn donor_with_raw_names() -> Disk {
    let disk = donor();
    let listed = items::all(&disk.node().root).expect("the list");
    let removed = listed.iter().filter(|item| item.treatment != Treatment::Keep);
    for path in removed.flat_map(|item| &item.paths).filter(|path| !path.contains('*')) {
        if disk.at(path).is_dir() {
            plant(&disk, path);
        }
    }
    for folder in READ {
        plant(&disk, folder);
    }
    // Names that match a pattern of the list.
    for (folder, before, after) in
        [("/etc/ssh", "ssh_host_", "_key"), ("/var/lib/dhcp", "dhclient.", ".leases"), ("/var/lib/waagent", "", ".xml")]
    {
        fs::create_dir_all(disk.at(folder)).expect("folders");
        fs::write(raw(&disk.at(folder), before, after), SECRET).expect("written");
    }
    let home = raw(&disk.at("/home"), "", "").join(".ssh");
    fs::create_dir_all(&home).expect("folders");
    fs::write(home.join("authorized_keys"), "ssh-ed25519 AAAA donor-admin\n").expect("written");
    fs::write(raw(&disk.at("/var/lib/kubelet/pods/1/volumes"), "", ""), TENANT).expect("written");
    let layer = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/300/fs";
    fs::write(raw(&disk.at(layer), "", ""), TENANT).expect("written");
    // Not a file of the list: an image's own.
    fs::write(raw(&disk.at("/opt/agent"), "", ""), "kept").expect("written");
    disk
}

#[test]
fn clone_resets_a_disk_with_names_that_are_not_utf8() {
    let clone = donor_with_raw_names();
    clone.set_vm_id(CLONE);
    let output = clone.kilnd(&["identity"]);
    assert!(output.status.success(), "{}", printed(&output));
    for gone in [TENANT, SECRET, TOKEN, "donor-admin"] {
        let holding: Vec<String> =
            clone.files_containing(gone).into_iter().filter(|path| path != "/etc/default/kubelet").collect();
        assert!(holding.is_empty(), "`{gone}` is in {holding:?}");
    }
    let pods = fs::read_dir(clone.at("/var/lib/kubelet/pods")).expect("a folder");
    assert_eq!(pods.count(), 0);
    assert_eq!(fs::read(raw(&clone.at("/opt/agent"), "", "")).expect("kept"), b"kept");
}

#[test]
fn disk_with_names_that_are_not_utf8_is_inspected_and_sealed() {
    let disk = donor_with_raw_names();
    let output = disk.kilnd(&["inspect", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let secrets = found["secrets"].as_array().expect("a list");
    let shown = "/etc/ssh/ssh_host_l\u{fffd}gende-\u{fffd}_key";
    assert!(secrets.iter().any(|secret| secret["path"] == shown), "{secrets:?}");

    let output = disk.kilnd(&["seal", "--check"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains(shown), "{}", printed(&output));
    let output = disk.kilnd(&["seal", "--yes"]);
    assert!(output.status.success(), "{}", printed(&output));
    let output = disk.kilnd(&["seal", "--check"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn mount_below_a_name_that_is_not_utf8_is_found() {
    let disk = donor_with_raw_names();
    disk.set_vm_id(CLONE);
    let point = raw(&disk.at("/var/lib/kubelet/pods/1/volumes"), "", ".csi");
    let unrelated = raw(disk.path(), "", ".mount");
    fs::create_dir_all(&point).expect("a folder");
    fs::create_dir_all(&unrelated).expect("a folder");
    let volume = tempfile::tempdir().expect("a folder");
    fs::write(volume.path().join("precious"), "a tenant's volume").expect("written");
    let run = |point: &Path| {
        let script = "mount --bind \"$1\" \"$2\" && exec \"$3\" --root \"$4\" identity";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", script, "sh"]).arg(volume.path()).arg(point);
        command.arg(env!("CARGO_BIN_EXE_kilnd")).arg(disk.path()).output().expect("unshare")
    };
    let output = run(&point);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("gende-\u{fffd}.csi` is mounted"), "{}", printed(&output));
    assert!(volume.path().join("precious").exists());
    let output = run(&unrelated);
    assert!(output.status.success(), "an unrelated mount: {}", printed(&output));
}
