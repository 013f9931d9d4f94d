//! User accounts, managed by editing the account files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use kiln_node_plan::Account;
use kilnd::os::{Durability, Root};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKtM ann@laptop";

fn machine() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    for (path, text) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
        ("etc/group", "root:x:0:\nsudo:x:27:\nadm:x:4:\n"),
        ("etc/shadow", "root:*:19000:0:99999:7:::\n"),
        ("etc/gshadow", "root:*::\nsudo:*::\nadm:*::\n"),
        ("etc/skel/.bashrc", "# skeleton\n"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("write");
    }
    fs::set_permissions(folder.path().join("etc/shadow"), fs::Permissions::from_mode(0o640)).expect("mode");
    let root = Root::open(folder.path()).expect("a root");
    (folder, root)
}

fn ann() -> Account {
    Account {
        name: "ann".to_owned(),
        ssh_keys: vec![KEY.to_owned()],
        groups: vec!["adm".to_owned(), "sudo".to_owned()],
        shell: "/bin/bash".to_owned(),
        sudo: true,
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).expect("stat").permissions().mode() & 0o7777
}

#[test]
fn account_is_created_with_home_keys_and_sudo_and_reads_back_unchanged() {
    let (folder, root) = machine();
    assert_eq!(root.account("ann").expect("read"), None);
    root.set_account(&ann(), Durability::Later).expect("created");
    assert_eq!(root.account("ann").expect("read"), Some(ann()));
    let at = |path: &str| folder.path().join(path);
    assert_eq!(fs::read_to_string(at("home/ann/.bashrc")).expect("read"), "# skeleton\n");
    assert_eq!(fs::read_to_string(at("home/ann/.ssh/authorized_keys")).expect("read"), format!("{KEY}\n"));
    assert_eq!((mode(at("home/ann")), mode(at("home/ann/.ssh"))), (0o750, 0o700));
    assert_eq!((mode(at("home/ann/.ssh/authorized_keys")), mode(at("etc/sudoers.d/90-kiln-ann"))), (0o600, 0o440));
    assert_eq!((mode(at("etc/shadow")), mode(at("etc/passwd"))), (0o640, 0o644), "the account files keep their modes");
    if rustix::process::geteuid().is_root() {
        for path in ["home/ann", "home/ann/.ssh", "home/ann/.bashrc", "home/ann/.ssh/authorized_keys"] {
            assert_eq!(fs::metadata(at(path)).expect("stat").uid(), 1000, "{path}");
        }
    }
    let before = root.counts();
    root.set_account(&ann(), Durability::Later).expect("again");
    assert_eq!(root.counts(), before, "nothing to do");
}

#[test]
fn account_is_changed_and_retired_and_its_files_are_kept() {
    let (folder, root) = machine();
    root.set_account(&ann(), Durability::Later).expect("created");
    let less = Account { groups: vec!["adm".to_owned()], shell: "/bin/sh".to_owned(), sudo: false, ..ann() };
    root.set_account(&less, Durability::Later).expect("changed");
    assert_eq!(root.account("ann").expect("read"), Some(less));
    fs::write(folder.path().join("home/ann/work"), "mine").expect("write");
    root.retire("ann", Durability::Later).expect("retired");
    assert_eq!(root.account("ann").expect("read"), None);
    assert!(folder.path().join("home/ann/work").exists());
    assert!(!folder.path().join("home/ann/.ssh/authorized_keys").exists());
    root.set_account(&ann(), Durability::Later).expect("created again");
    assert_eq!(root.account("ann").expect("read"), Some(ann()));
    let passwd = fs::read_to_string(folder.path().join("etc/passwd")).expect("read");
    assert_eq!(passwd.lines().count(), 2, "{passwd}");
}

#[test]
fn unknown_group_is_reported_and_nothing_is_written() {
    let (folder, root) = machine();
    let account = Account { groups: vec!["wheel".to_owned()], ..ann() };
    let error = root.set_account(&account, Durability::Later).expect_err("no such group");
    assert!(error.to_string().contains("`wheel`"), "{error}");
    assert_eq!(root.counts().total(), 0);
    assert!(!folder.path().join("home").exists());
}

#[test]
fn interrupted_account_creation_is_completed_by_the_next_run() {
    for end in 0.. {
        let (folder, root) = machine();
        root.stop_after(Some(end));
        let result = root.set_account(&ann(), Durability::Now);
        root.stop_after(None);
        if root.account("ann").expect("read").is_some() {
            assert!(folder.path().join("home/ann/.ssh/authorized_keys").exists(), "after {end} operations");
        }
        root.set_account(&ann(), Durability::Now).expect("the next run");
        assert_eq!(root.account("ann").expect("read"), Some(ann()), "after {end} operations");
        assert!(folder.path().join("home/ann/.bashrc").exists(), "after {end} operations");
        assert_eq!(mode(folder.path().join("home/ann")), 0o750, "after {end} operations");
        let passwd = fs::read_to_string(folder.path().join("etc/passwd")).expect("read");
        assert!(passwd.contains("\nann:x:1000:1000:"), "after {end} operations: {passwd}");
        if result.is_ok() {
            assert!(end > 20, "{end} operations");
            break;
        }
    }
}
