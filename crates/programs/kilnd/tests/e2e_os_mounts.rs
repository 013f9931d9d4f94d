//! Writing files on full, read-only and bind-mounted file systems, in a private mount namespace that ends with the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use kiln_node_plan::DesiredFile;
use kilnd::os::{Durability, Error, Generations, Root};

const INNER: &str = "KILN_TEST_IN_A_NAMESPACE";

/// Runs the rest of a test in a mount namespace, by executing the same test again.
fn in_a_namespace(test: &str, rest: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(INNER) {
        return rest(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(program).args(["--exact", test, "--nocapture"]).env(INNER, folder.path());
    let output = command.output().expect("unshare");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status().expect("mount");
    assert!(status.success(), "mount {arguments:?}");
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).expect("a text")
}

#[test]
fn full_file_system_is_reported_and_nothing_changes() {
    in_a_namespace("full_file_system_is_reported_and_nothing_changes", |folder| {
        let target = folder.to_string_lossy();
        mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs", &target]);
        let root = Root::open(folder).expect("a root");
        root.write_all(&[DesiredFile::new("/etc/a", b"old", 0o644)], Durability::Now).expect("written");
        let generations = Generations::new(&root);
        generations.write("1", &[DesiredFile::plain("f", "old".to_owned())], Durability::Now).expect("written");
        generations.switch_to("1", Durability::Now).expect("flipped");
        let large = vec![b'x'; 1 << 20];
        let files = [DesiredFile::new("/etc/a", b"new", 0o644), DesiredFile::new("/etc/b", &large, 0o644)];
        let error = root.write_all(&files, Durability::Now).expect_err("no room");
        assert!(matches!(&error, Error::Full { path, .. } if path == "/etc/b"), "{error}");
        let error = generations.write("2", &[DesiredFile::plain("f", large)], Durability::Now).expect_err("no room");
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert_eq!(text(folder.join("etc/a")), "old");
        assert_eq!(text(folder.join("etc/kiln/current/f")), "old");
        assert_eq!(generations.list().expect("list"), ["1"]);
        let names = fs::read_dir(folder.join("etc")).expect("list").count();
        assert_eq!(names, 2, "the temporary files are removed and their space is free");
        let less = vec![b'y'; 64 << 10];
        root.write_all(&[DesiredFile::new("/etc/a", &less, 0o644)], Durability::Now).expect("room for this");
    });
}

#[test]
fn read_only_file_system_is_reported() {
    in_a_namespace("read_only_file_system_is_reported", |folder| {
        let target = folder.to_string_lossy();
        fs::write(folder.join("a"), "old").expect("written");
        mount(&["--bind", &target, &target]);
        mount(&["-o", "remount,ro,bind", &target]);
        let root = Root::open(folder).expect("a root");
        let error = root.write_all(&[DesiredFile::new("/a", b"new", 0o644)], Durability::Now).expect_err("read-only");
        assert!(matches!(&error, Error::ReadOnly { path, .. } if path == "/a"), "{error}");
        assert!(error.to_string().contains("read-only"), "{error}");
        let error = root.replace_link("/current", "x", Durability::Now).expect_err("read-only");
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        assert_eq!(text(folder.join("a")), "old");
    });
}

#[test]
fn bind_mounted_file_is_written_in_place() {
    in_a_namespace("bind_mounted_file_is_written_in_place", |folder| {
        fs::create_dir(folder.join("etc")).expect("a folder");
        for (path, text) in [("etc/resolv.conf", "covered"), ("real", "old and longer")] {
            fs::write(folder.join(path), text).expect("written");
        }
        let (real, point) = (folder.join("real"), folder.join("etc/resolv.conf"));
        mount(&["--bind", &real.to_string_lossy(), &point.to_string_lossy()]);
        let root = Root::open(folder).expect("a root");
        let files = [DesiredFile::new("/etc/resolv.conf", b"new", 0o644), DesiredFile::new("/etc/other", b"x", 0o644)];
        root.write_all(&files, Durability::Now).expect("written");
        assert_eq!(text(&real), "new");
        assert_eq!(fs::read_dir(folder.join("etc")).expect("list").count(), 2, "no temporary file is left");
        let error = root
            .write_all(&[DesiredFile::link("/etc/resolv.conf", "elsewhere")], Durability::Now)
            .expect_err("a mount");
        assert!(matches!(&error, Error::Mounted { mount, .. } if mount == "/etc/resolv.conf"), "{error}");
    });
}

#[test]
fn tree_that_contains_a_mount_is_not_touched() {
    in_a_namespace("tree_that_contains_a_mount_is_not_touched", |folder| {
        for path in ["pods/a", "pods/z volume", "elsewhere"] {
            fs::create_dir_all(folder.join(path)).expect("a folder");
        }
        fs::write(folder.join("pods/a/f"), "x").expect("written");
        fs::write(folder.join("elsewhere/f"), "x").expect("written");
        let root = Root::open(folder).expect("a root");
        let point = folder.join("pods/z volume");
        // The same file system, so the device numbers are equal.
        mount(&["--bind", &folder.join("elsewhere").to_string_lossy(), &point.to_string_lossy()]);
        for refused in [
            root.remove_tree("/pods").map(drop),
            root.clear_folder("/pods").map(drop),
            root.remove_tree("/pods/z volume").map(drop),
        ] {
            let error = refused.expect_err("something is mounted in it");
            assert!(matches!(&error, Error::Mounted { mount, .. } if mount == "/pods/z volume"), "{error}");
        }
        assert!(folder.join("pods/a/f").exists() && folder.join("elsewhere/f").exists());
        assert_eq!(root.mount_in("/pods/a").expect("looked"), None);
    });
}

#[test]
fn every_file_system_that_a_first_boot_wrote_to_is_synced() {
    in_a_namespace("every_file_system_that_a_first_boot_wrote_to_is_synced", |folder| {
        for name in ["etc", "home", "data"] {
            let path = folder.join(name);
            fs::create_dir(&path).expect("a folder");
            mount(&["-t", "tmpfs", "tmpfs", &path.to_string_lossy()]);
        }
        let root = Root::open(folder).expect("a root");
        let keys = DesiredFile::new("/home/admin/.ssh/authorized_keys", b"ssh-ed25519 A", 0o600);
        root.write_all(&[DesiredFile::plain("/etc/kiln/x", "x"), keys], Durability::Later).expect("written");
        assert_eq!(root.counts().syncfs, 0, "nothing waits for the disk");
        root.sync(&["/etc"]).expect("synced");
        assert_eq!(root.counts().syncfs, 2, "/etc and /home, but not /data");
        root.sync(&["/etc"]).expect("synced");
        assert_eq!(root.counts().syncfs, 3, "once");
    });
}
