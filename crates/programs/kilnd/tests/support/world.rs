//! A node whose root is a folder, and its files as a map.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use kiln_node_config::NodeConfig;
use kilnd::apply::candidate::Candidate;
use kilnd::args::Args;
use kilnd::log::Log;
use kilnd::node::Node;

/// The VM id of the node.
pub(crate) const MACHINE: &str = "11111111-2222-3333-4444-555555555555";

/// Files of the image that NodeConfigs change.
const IMAGE: [(&str, &str); 8] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
    ("etc/group", "root:x:0:\nsudo:x:27:\n"),
    ("etc/shadow", "root:*:19000:0:99999:7:::\n"),
    ("etc/app/0", "of the image\n"),
    ("etc/fstab", "UUID=0 / ext4 defaults 0 1\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/net/ipv4/ip_forward", "0\n"),
    ("dmi/product_uuid", MACHINE),
];

/// A temporary folder, on a tmpfs if possible, because the tests sync thousands of files.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let created = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    created.or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Writes the files of an image.
pub(crate) fn image(root: &Path) {
    for (path, content) in IMAGE {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("written");
    }
    symlink("/usr/share/zoneinfo/UTC", root.join("etc/localtime")).expect("a link");
}

/// Opens the folder as a node, as a new process would. It can become a client of the metadata service, so it must run in a private network.
pub(crate) fn process(root: &Path) -> Node {
    testkit::assert_private();
    let mut args: Vec<std::ffi::OsString> = vec!["status".into(), "--time-scale".into(), "1000".into()];
    for (option, folder) in [("--root", ""), ("--dmi", "dmi"), ("--cd", "cd"), ("--credentials", "credentials")] {
        args.extend([option.into(), root.join(folder).into()]);
    }
    let locations = Args::parse(args).expect("a command line").locations;
    Node { log: Log::silent(|| 0), ..Node::open(&locations).expect("a root") }
}

/// Reads a NodeConfig as a candidate.
pub(crate) fn candidate(node: &Node, config: &NodeConfig) -> Candidate {
    Candidate::read(node, config.to_json().as_bytes(), "test").expect("a valid document")
}

/// Simulates a reboot by clearing `/run`.
pub(crate) fn restart(root: &Path) {
    let _ = fs::remove_dir_all(root.join("run"));
}

/// Every file with its mode and content, and links with their targets. Leaves out `/run`, files that only kilnd reads, and generations that
/// are not in force.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    walk(root, root, &mut all);
    let current = all.get("etc/kiln/current").and_then(|link| link.rsplit('/').next()).unwrap_or("none").to_owned();
    all.retain(|path, _| {
        let hidden = ["run/", "var/lib/kiln/state.json", "var/lib/kiln/before/", "etc/.pwd.lock", "cd/"];
        let old = path.strip_prefix("etc/kiln/generations/").is_some_and(|rest| !rest.starts_with(&current));
        !hidden.iter().any(|prefix| path.starts_with(prefix)) && !old
    });
    all
}

fn walk(root: &Path, folder: &Path, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        if metadata.is_symlink() {
            all.insert(name, format!("-> {}", fs::read_link(&path).expect("a link").display()));
        } else if metadata.is_dir() {
            walk(root, &path, all);
        } else {
            let content = String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned();
            let content = if name.starts_with("proc/") { content.trim().to_owned() } else { content };
            let content = if name == "etc/passwd" { without_numbers(&content) } else { content };
            all.insert(name, format!("{:o} {content}", metadata.permissions().mode() & 0o7777));
        }
    }
}

/// Removes the user ids: an account that is created in two attempts gets whatever id is free then.
fn without_numbers(passwd: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> =
            line.split(':').enumerate().filter(|(index, _)| *index != 2).map(|(_, word)| word).collect();
        words.join(":")
    };
    passwd.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Copies a folder, preserving modes and links.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        if metadata.is_symlink() {
            symlink(fs::read_link(&path).expect("a link"), &target).expect("a link");
        } else if metadata.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}
