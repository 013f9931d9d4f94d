//! `kilnd identity` never deletes across a mount. The mount is real, in a namespace that ends with the process.

mod identity_donor;

use std::process::Command;

use identity_donor::{TENANT, donor, printed};

const CLONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";

#[test]
fn mounted_pod_volume_is_not_emptied_and_nothing_is_deleted_before_the_error() {
    let disk = donor();
    disk.set_vm_id(CLONE);
    let volume = tempfile::tempdir().expect("a folder");
    std::fs::write(volume.path().join("precious"), "a tenant's volume").expect("written");
    let point = disk.at("/var/lib/kubelet/pods/1/volumes/csi");
    std::fs::create_dir_all(&point).expect("a folder");
    let before = disk.everything();
    // A bind mount within one file system has the same device number: only the kernel's mount table shows it.
    let script = "mount --bind \"$1\" \"$2\" && exec \"$3\" --root \"$4\" identity";
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", script, "sh"])
        .args([volume.path(), &point])
        .arg(env!("CARGO_BIN_EXE_kilnd"))
        .arg(disk.path())
        .output()
        .expect("unshare");
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("`/var/lib/kubelet/pods/1/volumes/csi` is mounted"), "{}", printed(&output));
    assert!(disk.everything() == before, "the error precedes every deletion");
    assert!(volume.path().join("precious").exists());
    assert!(!disk.has("/run/kiln/boot.json"));

    let output = disk.kilnd(&["identity"]);
    assert!(output.status.success(), "it succeeds after the unmount: {}", printed(&output));
    assert!(disk.files_containing(TENANT).is_empty());
}
