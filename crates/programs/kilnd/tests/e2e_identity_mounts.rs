//! Deletion never crosses a mount: on a real mount, in namespaces that end with the program.

mod identity_donor;

use std::process::Command;

use identity_donor::{TENANT, donor, said};

const CLONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";

#[test]
fn a_volume_below_the_pods_is_never_emptied_and_nothing_else_is_before_it_is_named() {
    let disk = donor();
    disk.in_machine(CLONE);
    let volume = tempfile::tempdir().expect("a folder");
    std::fs::write(volume.path().join("precious"), "a tenant's volume").expect("written");
    let point = disk.at("/var/lib/kubelet/pods/1/volumes/csi");
    std::fs::create_dir_all(&point).expect("a folder");
    let before = disk.everything();
    // A bind mount within one file system has the device number of its surroundings: only the kernel's table shows it.
    let script = "mount --bind \"$1\" \"$2\" && exec \"$3\" --root \"$4\" identity";
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", script, "sh"])
        .args([volume.path(), &point])
        .arg(env!("CARGO_BIN_EXE_kilnd"))
        .arg(disk.path())
        .output()
        .expect("unshare");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("`/var/lib/kubelet/pods/1/volumes/csi` is mounted"), "{}", said(&output));
    assert!(disk.everything() == before, "refused before anything was deleted");
    assert!(volume.path().join("precious").exists());
    assert!(!disk.has("/run/kiln/boot.json"));

    let output = disk.kilnd(&["identity"]);
    assert!(output.status.success(), "unmounted, it goes on: {}", said(&output));
    assert!(disk.holding(TENANT).is_empty());
}
