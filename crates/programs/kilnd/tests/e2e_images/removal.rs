//! The removal of kilnd from a node: the image's units are in force again, and the files outside of kiln's folders are those of the image.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::nspawn::Machine;

use super::node::Node;
use super::tree::{Entry, Tree, fits};

/// Paths below `/etc` that may differ from the image.
const KEPT: [(&str, &str); 13] = [
    ("/kiln*", "the generations and the join credential, which `kilnd disable` keeps"),
    ("/hostname", "the name under which the node is registered"),
    ("/machine-id", "the machine's own, since its first boot"),
    ("/ssh/ssh_host_*", "the machine's own, since its first boot"),
    ("/resolv.conf", "written by systemd-nspawn"),
    ("/passwd*", "cloud-init's default user"),
    ("/shadow*", "cloud-init's default user"),
    ("/group*", "cloud-init's default user"),
    ("/gshadow*", "cloud-init's default user"),
    ("/subuid*", "cloud-init's default user"),
    ("/subgid*", "cloud-init's default user"),
    ("/sudoers*", "cloud-init's default user"),
    ("/systemd/network/10-cloud-init-*", "cloud-init's network of this machine"),
];

/// Files that the document of the last machine contains: one of the image, and one in a new folder.
pub(crate) fn files() -> Value {
    json!([{"path": "/etc/issue", "content": "configured\n"}, {"path": "/etc/new-folder/a", "content": "a\n"}])
}

/// The files of an image before `kilnd enable`.
pub(crate) struct Image {
    etc: BTreeMap<String, Entry>,
}

impl Image {
    pub(crate) fn read(machine: &Machine) -> Self {
        Self { etc: etc(machine) }
    }

    /// The paths in `/etc` that a machine still has as they are in the image.
    pub(crate) fn unchanged(&self, machine: &Machine) -> BTreeSet<String> {
        let now = etc(machine);
        let same = self.etc.iter().filter(|(path, entry)| now.get(*path) == Some(*entry));
        same.map(|(path, _)| format!("/etc{path}")).collect()
    }
}

fn etc(machine: &Machine) -> BTreeMap<String, Entry> {
    Tree::read(&machine.path("/etc")).0
}

/// Disables kilnd with all that its generations changed, and removes its package.
#[track_caller]
pub(crate) fn assert_node_is_as_before_kilnd(node: &Node) {
    let process = || node.machine.property("kubelet.service", "MainPID");
    let before = process();
    assert_eq!(node.machine.read("/etc/issue").as_deref(), Some("configured\n"));
    node.machine.shell("kilnd disable --yes --restore; rm -r /usr/lib/kiln; systemctl daemon-reload");
    assert_eq!(process(), before, "the kubelet runs on");

    let text = node.machine.shell("systemctl cat kubelet.service containerd.service").stdout;
    assert!(!text.contains("kiln"), "{text}");
    let programs = node.machine.shell("systemctl show --property=ExecStart kubelet.service | grep -o 'path=[^ ]*'");
    assert_eq!(programs.stdout.trim(), format!("path={}", node.kind.kubelet()));
    // `kiln-configured.target` stays until the next boot: stopping it would stop the image's units that require it.
    let units = node.machine.shell("systemctl list-units --plain --no-legend 'kiln-*.service'").stdout;
    assert_eq!(units, "", "no service of kilnd runs");

    let (image, now) = (&node.image.etc, etc(&node.machine));
    let paths: BTreeSet<&String> = image.keys().chain(now.keys()).collect();
    let mut differences = Vec::new();
    for path in paths {
        let (was, is) = (image.get(path), now.get(path));
        // An empty folder stays, because it may be the image's.
        let is_folder = was.is_none() && matches!(is, Some(Entry::Folder { .. }));
        if was != is && !is_folder && !KEPT.iter().any(|(pattern, _)| fits(pattern, path)) {
            differences.push(format!("{path}: {is:?}, was {was:?}"));
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}
