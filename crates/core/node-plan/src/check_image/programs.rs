//! Programs that a node needs.

use super::{Finding, Severity, Tree};
use crate::Image;
use crate::layout::IMAGE;

/// Programs that are looked up by name: id, alternative names, severity, and the consequence of their absence.
const TOOLS: [(&str, &[&str], Severity, &str); 7] = [
    ("runc-missing", &["runc", "crun"], Severity::Blocker, "containerd cannot start containers"),
    ("containerd-shim-missing", &["containerd-shim-runc-v2"], Severity::Blocker, "containerd cannot start containers"),
    ("mount-missing", &["mount"], Severity::Blocker, "the kubelet cannot mount volumes"),
    ("umount-missing", &["umount"], Severity::Blocker, "the kubelet cannot unmount volumes"),
    ("mkfs-missing", &["mkfs.ext4"], Severity::Warning, "disks and volumes cannot be formatted"),
    ("iptables-missing", &["iptables", "nft"], Severity::Warning, "port mappings and masquerading do not work"),
    ("modprobe-missing", &["modprobe"], Severity::Warning, "kernel modules cannot be loaded"),
];

/// CNI plugins: `loopback` for every pod, the others for `network.plugin: bridge`.
const CNI_PLUGINS: [&str; 4] = ["loopback", "bridge", "host-local", "portmap"];

/// The content of the image as its file describes it.
pub(super) fn image(tree: &dyn Tree, findings: &mut Vec<Finding>) -> Image {
    let Some(text) = tree.text(IMAGE) else { return Image::default() };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        findings.push(Finding {
            id: "image-file-invalid",
            severity: Severity::Blocker,
            path: IMAGE.to_owned(),
            message: format!("`{IMAGE}` is invalid: {error}"),
            fix: "correct the file, or delete it if the programs have their usual paths".to_owned(),
        });
        Image::default()
    })
}

pub(super) fn check(tree: &dyn Tree, image: &Image, findings: &mut Vec<Finding>) {
    let mut missing = |id, severity, path: &str, message: String, fix: String| {
        findings.push(Finding { id, severity, path: path.to_owned(), message, fix });
    };
    for (id, name, listed, default) in [
        ("kubelet-missing", "kubelet", &image.kubelets, "/usr/bin/kubelet"),
        ("containerd-missing", "containerd", &image.runtimes, "/usr/bin/containerd"),
    ] {
        let listed: Vec<&str> =
            if listed.is_empty() { vec![default] } else { listed.values().map(String::as_str).collect() };
        for path in listed.into_iter().filter(|path| !tree.is_executable(path)) {
            let fix = format!("install {name} there, or name its path in `{IMAGE}`");
            missing(id, Severity::Blocker, path, format!("the program `{path}` does not exist"), fix);
        }
    }
    for (id, names, severity, consequence) in TOOLS {
        let is_listed =
            names.iter().any(|name| image.container_runtimes.get(*name).is_some_and(|path| tree.is_executable(path)));
        if !is_listed && names.iter().all(|name| tree.program(name).is_none()) {
            let message = format!("`{}` is not installed: {consequence}", names.join("` or `"));
            missing(id, severity, names[0], message, format!("install `{}`", names[0]));
        }
    }
    let absent: Vec<&str> = CNI_PLUGINS
        .into_iter()
        .filter(|name| !tree.is_executable(&format!("{}/{name}", image.cni_plugins.trim_end_matches('/'))))
        .collect();
    if !absent.is_empty() {
        let message = format!("CNI plugins are missing in `{}`: `{}`", image.cni_plugins, absent.join("`, `"));
        let fix = "install the CNI plugins, unless a DaemonSet of the cluster does".to_owned();
        missing("cni-plugins-missing", Severity::Warning, &image.cni_plugins, message, fix);
    }
}
