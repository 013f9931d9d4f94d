//! Writing sets of files below a root: owner, mode, symbolic links, and no partial result after an error.

use kiln_node_plan::{DesiredFile, FileState, Owner};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use kilnd::os::{Counts, Durability, Error, FileKind, Lock, Root};

fn root() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::open(folder.path()).expect("a root");
    (folder, root)
}

#[test]
fn file_is_written_with_its_mode_and_missing_folders_are_created() {
    let (folder, root) = root();
    root.write_all(&[DesiredFile::new("/etc/a/b/c.conf", b"x = 1\n", 0o640)], Durability::Now).expect("written");
    let path = folder.path().join("etc/a/b/c.conf");
    assert_eq!(fs::read(&path).expect("read"), b"x = 1\n");
    assert_eq!(fs::metadata(&path).expect("stat").permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(folder.path().join("etc/a")).expect("stat").permissions().mode() & 0o7777, 0o755);
    // The file, its folder, and the three parents that got a new folder.
    assert_eq!(root.counts().fsyncs, 1 + 1 + 3);
}

#[test]
fn folder_created_concurrently_is_used() {
    use std::sync::Barrier;
    let (folder, _root) = root();
    for round in 0..200 {
        let (path, barrier) = (format!("/{round}/a/b"), Barrier::new(4));
        std::thread::scope(|scope| {
            for name in ["1", "2", "3", "4"] {
                let (path, barrier, folder) = (format!("{path}/{name}"), &barrier, folder.path());
                scope.spawn(move || {
                    let root = Root::open(folder).expect("a root");
                    barrier.wait();
                    root.write_all(&[DesiredFile::new(&path, b"", 0o644)], Durability::Later).expect("written");
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path().join(&path[1..])).expect("list").count(), 4);
    }
}

#[test]
fn deferred_durability_does_not_fsync() {
    let (_folder, root) = root();
    let files = [DesiredFile::new("/a", b"1", 0o644), DesiredFile::new("/b/c", b"2", 0o644)];
    root.write_all(&files, Durability::Later).expect("written");
    root.replace_link("/current", "b", Durability::Later).expect("replaced");
    assert_eq!(root.counts().fsyncs, 0);
    root.sync(&["/", "/b"]).expect("synced");
    assert_eq!(root.counts().syncfs, 1, "both are on one file system");
}

#[test]
fn temporary_file_is_not_more_readable_than_the_final_file() {
    for (mode, first) in [(0o600, 0o600), (0o640, 0o600), (0o440, 0o600), (0o666, 0o644), (0o755, 0o755)] {
        let (folder, root) = root();
        let file = DesiredFile::new("/f", b"half of it", mode);
        // The file exists with half of its bytes.
        root.stop_after(Some(2));
        assert!(matches!(root.write_all(&[&file], Durability::Later), Err(Error::Stopped { .. })));
        let mode_of = |name: &str| fs::metadata(folder.path().join(name)).expect("stat").permissions().mode() & 0o7777;
        assert_eq!(mode_of(".f.kiln-new") & !first, 0, "{mode:o}");
        assert_eq!(fs::read(folder.path().join(".f.kiln-new")).expect("read"), b"half ");
        root.stop_after(None);
        root.write_all(&[file], Durability::Later).expect("a leftover temporary file is replaced");
        assert_eq!(mode_of("f"), mode);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1, "no temporary file is left");
    }
}

#[test]
fn owners_are_resolved_in_the_root_and_an_unknown_owner_is_reported() {
    let (folder, root) = root();
    fs::create_dir(folder.path().join("etc")).expect("etc");
    fs::write(folder.path().join("etc/passwd"), "root:x:0:0::/:/bin/sh\nkube:x:1234:1::/:/bin/sh\n").expect("passwd");
    fs::write(folder.path().join("etc/group"), "root:x:0:\nkube:x:4321:\n").expect("group");
    let file = DesiredFile::new("/f", b"", 0o600).owned_by(Owner { user: "kube".to_owned(), group: "kube".to_owned() });
    root.write_all(&[&file], Durability::Later).expect("written");
    let metadata = fs::metadata(folder.path().join("f")).expect("stat");
    if rustix::process::geteuid().is_root() {
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321));
        let error = root
            .write_all(
                &[file.clone().owned_by(Owner { user: "no-such-user".to_owned(), ..Owner::root() })],
                Durability::Later,
            )
            .expect_err("unknown");
        assert!(error.to_string().contains("no-such-user") && error.to_string().contains("/etc/passwd"), "{error}");
        let leftovers = fs::read_dir(folder.path()).expect("list").count();
        assert_eq!(leftovers, 2, "only etc and f");
    }
    assert!(root.differing(std::slice::from_ref(&file)).expect("compare").is_empty());
    assert_eq!(root.differing(&[DesiredFile { mode: 0o644, ..file.clone() }]).expect("compare").len(), 1);
    assert_eq!(root.differing(&[DesiredFile { content: b"x".into(), ..file }]).expect("compare").len(), 1);
}

#[test]
fn symlink_cannot_leave_the_root() {
    let (folder, root) = root();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("secret"), "outside").expect("write");
    symlink(outside.path(), folder.path().join("absolute")).expect("link");
    symlink("../../../../../../../../etc", folder.path().join("relative")).expect("link");
    assert!(root.read("/absolute/secret").expect_err("outside the root").is_not_found());
    assert!(root.read("/relative/passwd").expect_err("outside the root").is_not_found());
    assert!(root.write_all(&[DesiredFile::new("/absolute/new", b"x", 0o644)], Durability::Later).is_err());
    assert!(!outside.path().join("new").exists());
    for bad in ["relative", "/a/../b", "/a//b", "/", "/a/./b"] {
        assert!(
            matches!(root.write_all(&[DesiredFile::new(bad, b"", 0o644)], Durability::Later), Err(Error::Path { .. })),
            "{bad}"
        );
    }
}

#[test]
fn absolute_symlink_is_resolved_inside_the_root() {
    let (folder, root) = root();
    fs::create_dir_all(folder.path().join("data/real")).expect("folder");
    symlink("/data/real", folder.path().join("etc")).expect("link");
    root.write_all(&[DesiredFile::new("/etc/f", b"here", 0o644)], Durability::Later).expect("written");
    assert_eq!(fs::read(folder.path().join("data/real/f")).expect("read"), b"here");
    assert_eq!(root.read("/etc/f").expect("read"), b"here");
}

#[test]
fn symlink_is_replaced_by_a_file_and_its_target_is_kept() {
    let (folder, root) = root();
    fs::write(folder.path().join("target"), "old").expect("write");
    symlink("target", folder.path().join("f")).expect("link");
    assert_eq!(root.file_state("/f").expect("read"), FileState::Link { target: "target".to_owned() });
    root.write_all(&[DesiredFile::new("/f", b"new", 0o644)], Durability::Later).expect("written");
    assert_eq!(root.kind("/f").expect("kind"), Some(FileKind::File));
    assert_eq!(fs::read(folder.path().join("target")).expect("read"), b"old");
}

#[test]
fn file_state_has_hash_mode_and_owner() {
    let (folder, root) = root();
    fs::write(folder.path().join("abc"), "abc").expect("write");
    fs::set_permissions(folder.path().join("abc"), fs::Permissions::from_mode(0o604)).expect("mode");
    fs::create_dir(folder.path().join("d")).expect("folder");
    let observed = root.observe(["/abc", "/d", "/none", "/none/x", "/abc/x"]).expect("observe");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
    assert_eq!(observed["/abc"], FileState::File { sha256, mode: 0o604, owner: Owner::from_ids(uid, gid) });
    assert_eq!(observed["/d"], FileState::Other);
    assert!(["/none", "/none/x", "/abc/x"].iter().all(|path| observed[*path] == FileState::Absent));
    assert_eq!(root.counts(), Counts::default(), "reading changes nothing");
}

#[test]
fn desired_file_can_be_a_symlink() {
    let (folder, root) = root();
    let link = DesiredFile::link("/etc/localtime", "../usr/share/zoneinfo/UTC");
    assert_eq!(root.differing(std::slice::from_ref(&link)).expect("compare").len(), 1);
    root.write_all(&[&link], Durability::Now).expect("written");
    assert_eq!(
        fs::read_link(folder.path().join("etc/localtime")).expect("link").to_str(),
        Some("../usr/share/zoneinfo/UTC")
    );
    assert!(root.differing(&[link]).expect("compare").is_empty());
    root.write_all(&[DesiredFile::new("/etc/localtime", b"", 0o644)], Durability::Now).expect("replaced");
    assert_eq!(root.kind("/etc/localtime").expect("kind"), Some(FileKind::File));
}

#[test]
fn one_failing_file_leaves_all_files_unchanged() {
    let (folder, root) = root();
    fs::write(folder.path().join("a"), "old").expect("write");
    fs::write(folder.path().join("file"), "in the way").expect("write");
    let files = [DesiredFile::new("/a", b"new", 0o644), DesiredFile::new("/file/b", b"new", 0o644)];
    let error = root.write_all(&files, Durability::Now).expect_err("a file is in the way");
    assert!(error.to_string().contains("/file"), "{error}");
    assert_eq!(fs::read(folder.path().join("a")).expect("read"), b"old");
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 2, "no temporary file is left");
    let twice = [DesiredFile::new("/a", b"1", 0o644), DesiredFile::new("/a", b"2", 0o644)];
    assert!(matches!(root.write_all(&twice, Durability::Later), Err(Error::Path { .. })));
}

#[test]
fn fifo_is_not_read_as_a_file_and_does_not_block() {
    let (folder, root) = root();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
    assert!(matches!(root.read("/pipe"), Err(Error::Kind { .. })));
    assert_eq!(root.file_state("/pipe").expect("read"), FileState::Other);
}

#[test]
fn debug_output_of_a_file_shows_no_content() {
    let text = format!("{:?}", DesiredFile::new("/f", b"hunter2", 0o600));
    assert!(text.contains("7 bytes") && !text.contains("hunter2"), "{text}");
}

#[test]
fn symlink_is_replaced_and_a_held_lock_names_its_holder() {
    let (_folder, root) = root();
    assert_eq!(root.read_link("/etc/kiln/current").expect("read"), None);
    root.replace_link("/etc/kiln/current", "generations/1", Durability::Now).expect("replaced");
    root.replace_link("/etc/kiln/current", "generations/2", Durability::Now).expect("replaced");
    assert_eq!(root.read_link("/etc/kiln/current").expect("read"), Some("generations/2".into()));

    let lock = Lock::take(&root, "/run/kiln/lock").expect("free");
    let error = Lock::take(&root, "/run/kiln/lock").expect_err("held");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(lock);
    Lock::wait(&root, "/run/kiln/lock").expect("free again");
}

#[test]
fn tree_is_removed_without_following_symlinks() {
    let (folder, root) = root();
    fs::create_dir_all(folder.path().join("pods/a/b")).expect("folders");
    fs::write(folder.path().join("pods/a/b/f"), "x").expect("write");
    fs::create_dir(folder.path().join("kept")).expect("folder");
    fs::write(folder.path().join("kept/f"), "x").expect("write");
    symlink("/kept", folder.path().join("pods/link")).expect("link");
    assert!(root.remove_tree("/pods").expect("removed"));
    assert!(!root.remove_tree("/pods").expect("already gone"));
    assert!(folder.path().join("kept/f").exists());
    assert!(root.clear_folder("/kept").expect("cleared") && folder.path().join("kept").exists());
    assert!(matches!(root.remove("/kept", Durability::Later), Err(Error::Kind { .. })));
}

#[test]
fn glob_matches_existing_paths_and_skips_hidden_folders() {
    let (folder, root) = root();
    for path in ["home/ann/.ssh", "home/bob/.ssh", "home/.hidden/.ssh", "etc/ssh"] {
        fs::create_dir_all(folder.path().join(path)).expect("folder");
    }
    for path in ["home/ann/.ssh/authorized_keys", "home/.hidden/.ssh/authorized_keys", "etc/ssh/ssh_host_rsa_key"] {
        fs::write(folder.path().join(path), "").expect("file");
    }
    assert_eq!(
        root.glob("/home/*/.ssh/authorized_keys").expect("glob"),
        [std::path::Path::new("/home/ann/.ssh/authorized_keys")]
    );
    assert_eq!(
        root.glob("/etc/ssh/ssh_host_*_key").expect("glob"),
        [std::path::Path::new("/etc/ssh/ssh_host_rsa_key")]
    );
    assert_eq!(root.glob("/nowhere/*/x").expect("glob"), Vec::<std::path::PathBuf>::new());
}
