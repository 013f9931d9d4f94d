//! SELinux labels, judged by libselinux's own tools with Debian's reference policy: `matchpathcon` for thousands of paths, and `setfiles` for what kilnd
//! writes.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_node_plan::selinux::{ATTRIBUTE, CONFIG, EntryKind, FileContexts, Lists, policy_folder};
use support::case::case_path;
use support::program::kilnd_on;
use support::world;
use test_deps::TestDep;

/// Paths that kilnd or its documents write, whether or not they exist in a Debian root.
const WRITTEN: [&str; 24] = [
    "/etc/.pwd.lock",
    "/etc/cni/net.d/10-kiln.conflist",
    "/etc/default/grub.d/90-kiln.cfg",
    "/etc/fstab",
    "/etc/group",
    "/etc/hosts",
    "/etc/kiln/current",
    "/etc/kiln/generations/1-abc/kubelet.json",
    "/etc/kubernetes/manifests/x.yaml",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/shadow",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/sysctl.d/90-kiln.conf",
    "/etc/systemd/system/kubelet.service.d/10-limits.conf",
    "/home/ann/.ssh/authorized_keys",
    "/run/kiln/ready",
    "/swapfile",
    "/usr/bin/kilnd",
    "/usr/lib/systemd/system/kiln-identity.service",
    "/var/lib/kiln/state.json",
    "/var/run/kiln/lock",
];

fn selinux_root() -> PathBuf {
    let tool = testkit::require(TestDep::ImageRoot);
    tool.ancestors().nth(3).expect("a root folder").to_owned()
}

/// A tool of the root with the root's own libraries. It sees the host's files.
fn tool(root: &Path, path: &str) -> Command {
    let mut command = Command::new(root.join("lib64/ld-linux-x86-64.so.2"));
    let libraries = format!("{0}/lib/x86_64-linux-gnu:{0}/usr/lib/x86_64-linux-gnu", root.display());
    command.args(["--library-path", &libraries]).arg(root.join(path));
    command
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The lists of the root's policy.
fn lists(root: &Path) -> [String; 5] {
    let folder = policy_folder(&read(&root.join(&CONFIG[1..]))).expect("a policy");
    let list = |ending: &str| read(&root.join(&folder[1..]).join(format!("file_contexts{ending}")));
    ["", ".homedirs", ".local", ".subs", ".subs_dist"].map(list)
}

fn contexts([policy, home_folders, local, subs, subs_dist]: &[String; 5]) -> FileContexts {
    FileContexts::parse(Lists { policy, home_folders, local, subs, subs_dist })
}

/// Every path below a folder.
fn walk(root: &Path, folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if let Some(text) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            into.push(format!("/{text}"));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(root, &path, into);
        }
    }
}

/// Paths that the patterns of the policy are about: each pattern with its metacharacters replaced by plain text.
fn sample_paths(policy: &str) -> Vec<String> {
    let patterns = policy.lines().filter_map(|line| line.split_whitespace().next());
    let sample = |pattern: &str| {
        let plain =
            pattern.replace("(/.*)?", "/x").replace(".*", "abc").replace("[^/]+", "abc").replace("[^/]*", "abc");
        let plain = plain.replace("\\.", ".").replace(".+", "abc").replace("[0-9]+", "12").replace("[0-9]*", "12");
        let is_plain =
            plain.starts_with('/') && !plain.contains(['(', ')', '[', ']', '?', '*', '+', '|', '\\', '{', '^', '$']);
        is_plain.then_some(plain)
    };
    patterns.filter_map(sample).collect()
}

#[test]
fn labels_of_all_paths_are_those_of_matchpathcon() {
    let root = selinux_root();
    let lists = lists(&root);
    let contexts = contexts(&lists);
    let mut paths: Vec<String> = WRITTEN.map(str::to_owned).to_vec();
    let mut existing = Vec::new();
    walk(&root, &root, &mut existing);
    // Every third of them suffices: files of one folder mostly have the same label.
    paths.extend(existing.into_iter().step_by(3));
    paths.extend(sample_paths(&lists[0]));
    paths.retain(|path| !path.contains(['\n', ' ']));
    paths.sort();
    paths.dedup();
    assert!(paths.len() > 4000, "{}", paths.len());
    // Each path as one of the three kinds.
    let kinds = [(EntryKind::File, "file"), (EntryKind::Folder, "dir"), (EntryKind::Link, "lnk_file")];
    for (index, (kind, name)) in kinds.into_iter().enumerate() {
        let mut differing = BTreeMap::new();
        let some: Vec<&String> = paths.iter().skip(index).step_by(kinds.len()).collect();
        for chunk in some.chunks(2000) {
            let mut command = Command::new("chroot");
            command.arg(&root).args(["/usr/sbin/matchpathcon", "-m", name]).args(chunk);
            let output = command.output().expect("chroot");
            let text = String::from_utf8_lossy(&output.stdout);
            let labels: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('\t')).collect();
            for path in chunk.iter().copied() {
                let theirs = labels.get(path.as_str()).copied().filter(|label| *label != "<<none>>");
                let ours = contexts.label(path, kind);
                if ours != theirs {
                    differing.insert(path, (ours, theirs.map(str::to_owned)));
                }
            }
            assert!(labels.len() > chunk.len() / 2, "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert!(differing.is_empty(), "{name}: {} of {} differ: {differing:#?}", differing.len(), paths.len());
    }
}

/// Gives a root the policy of Debian.
fn install_policy(selinux: &Path, root: &Path) {
    let folder = policy_folder(&read(&selinux.join(&CONFIG[1..]))).expect("a policy");
    let target = root.join(&folder[1..]);
    fs::create_dir_all(&target).expect("folders");
    fs::copy(selinux.join(&CONFIG[1..]), root.join(&CONFIG[1..])).expect("copied");
    for entry in fs::read_dir(selinux.join(&folder[1..])).expect("a folder").flatten() {
        fs::copy(entry.path(), target.join(entry.file_name())).expect("copied");
    }
}

fn label(path: &Path) -> Option<String> {
    let mut buffer = vec![0; 256];
    let length = rustix::fs::lgetxattr(path, ATTRIBUTE, &mut buffer[..]).ok()?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    Some(text.trim_end_matches('\0').to_owned())
}

/// The inode numbers of all paths.
fn inodes(root: &Path) -> BTreeMap<String, u64> {
    let mut paths = Vec::new();
    walk(root, root, &mut paths);
    paths
        .into_iter()
        .map(|path| (fs::symlink_metadata(root.join(&path[1..])).expect("metadata").ino(), path))
        .map(|(ino, path)| (path, ino))
        .collect()
}

fn run(root: &Path, words: &[&str]) {
    let output = kilnd_on(root).args(words).output().expect("kilnd");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn everything_that_kilnd_writes_has_the_label_of_the_policy() {
    let selinux = selinux_root();
    // On a disk: not every tmpfs stores labels.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let root = folder.path();
    world::image(root);
    fs::write(root.join("etc/group"), "root:x:0:\nadm:x:4:\nsudo:x:27:\n").expect("written");
    install_policy(&selinux, root);
    let before = inodes(root);
    let config = case_path("everything").join("config.json");
    run(root, &["apply", "--config", config.to_str().expect("UTF-8")]);
    let written: Vec<String> = inodes(root)
        .into_iter()
        .filter(|(path, inode)| before.get(path) != Some(inode))
        .map(|(path, _)| path)
        .collect();
    assert!(written.len() > 30, "{written:?}");
    let without: Vec<&String> = written.iter().filter(|path| label(&root.join(&path[1..])).is_none()).collect();
    let lists = lists(&selinux);
    let contexts = contexts(&lists);
    let is_unlabelled = |path: &str| {
        let kind = if root.join(&path[1..]).is_dir() { EntryKind::Folder } else { EntryKind::File };
        contexts.label(path, kind).is_none()
    };
    assert!(without.iter().all(|path| is_unlabelled(path)), "without a label: {without:?}");

    // `setfiles` lists what it would change.
    let list = policy_folder(&read(&selinux.join(&CONFIG[1..]))).expect("a policy") + "/file_contexts";
    let mut setfiles = tool(&selinux, "usr/sbin/setfiles");
    setfiles.args(["-n", "-v", "-F", "-m", "-r"]).arg(root).arg(root.join(&list[1..]));
    setfiles.args(written.iter().map(|path| root.join(&path[1..])));
    let output = setfiles.output().expect("setfiles");
    let changes = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong: Vec<&str> =
        changes.lines().filter(|line| written.iter().any(|path| line.contains(&format!("{path} ")))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The check can fail: a wrong label is listed.
    let file = root.join("etc/kiln/current");
    rustix::fs::lsetxattr(&file, ATTRIBUTE, b"system_u:object_r:shadow_t:s0\0", rustix::fs::XattrFlags::empty())
        .expect("set");
    let mut setfiles = tool(&selinux, "usr/sbin/setfiles");
    setfiles.args(["-n", "-v", "-F", "-m", "-r"]).arg(root).arg(root.join(&list[1..])).arg(&file);
    let planted = setfiles.output().expect("setfiles");
    assert!(String::from_utf8_lossy(&planted.stdout).contains("shadow_t"), "{planted:?}");
}

#[test]
fn nothing_is_labelled_without_selinux() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let root = folder.path();
    world::image(root);
    fs::write(root.join("etc/group"), "root:x:0:\nadm:x:4:\nsudo:x:27:\n").expect("written");
    let config = case_path("everything").join("config.json");
    run(root, &["apply", "--config", config.to_str().expect("UTF-8")]);
    let labelled: Vec<String> =
        inodes(root).into_keys().filter(|path| label(&root.join(&path[1..])).is_some()).collect();
    assert!(labelled.is_empty(), "{labelled:?}");
}
