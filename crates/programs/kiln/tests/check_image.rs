//! `kiln node check-image` on image folders. What it finds is tested where it is decided; here is how the folder is read and what is printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn check(folder: &Path, format: &str) -> Output {
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    kiln.args(["node", "check-image", "--output", format]).arg(folder).output().expect("kiln runs")
}

fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, content).expect("written");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn findings_are_printed_with_fix_and_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "usr/lib/systemd/system/kubelet.service", "[Service]\nEnvironmentFile=/etc/default/kubelet\n");
    let output = check(folder.path(), "text");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = text(&output.stdout);
    let expected = "blocker kubelet-environment-file: `kubelet.service` does not start without `/etc/default/kubelet` \
                    (`EnvironmentFile=` in `/usr/lib/systemd/system/kubelet.service`)\n  fix: ";
    assert!(printed.contains(expected), "{printed}");
    assert!(text(&output.stderr).starts_with("error: blockers in the image: "), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&check(folder.path(), "json").stdout).expect("JSON");
    let ids: Vec<&str> =
        json["findings"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.contains(&"kubelet-environment-file") && ids.contains(&"runc-missing"), "{ids:?}");
    assert_eq!(json["purpose"], "image");
    // With the file, its finding is gone.
    put(folder.path(), "etc/default/kubelet", "");
    assert!(!text(&check(folder.path(), "text").stdout).contains("kubelet-environment-file"));
}

#[test]
fn links_are_followed_inside_the_image_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    // On this host `/bin/sh` exists; in the image it does not, whatever a link says.
    put(root, "usr/lib/systemd/system/kubelet.service", "[Unit]\nConditionPathExists=/opt/shell\n");
    fs::create_dir_all(root.join("opt")).expect("a folder");
    symlink("/bin/sh", root.join("opt/shell")).expect("a link");
    assert!(text(&check(root, "text").stdout).contains("kubelet-condition"), "a link out of the image leads nowhere");
    put(root, "usr/bin/sh", "");
    symlink("usr/bin", root.join("bin")).expect("a link");
    assert!(!text(&check(root, "text").stdout).contains("kubelet-condition"));
}

#[test]
fn missing_folder_is_an_input_error() {
    let output = check(Path::new("/nowhere/at/all"), "text");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("/nowhere/at/all"), "{output:?}");
}
