//! The container runtime that the kubelet uses.

use std::collections::BTreeMap;

use crate::os::Root;

use super::packages::upstream;

/// Files with the kubelet's arguments.
const KUBELET_FILES: [&str; 4] = [
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/kubelet.service",
    "/var/lib/kubelet/kubeadm-flags.env",
];
/// Sockets of dockershim, which was part of the kubelet before 1.24, and of its successor. `/run` exists only on a running node.
const SOCKETS: [&str; 3] = ["/run/dockershim.sock", "/var/run/dockershim.sock", "/run/cri-dockerd.sock"];
/// Docker's packages.
const PACKAGES: [&str; 3] = ["docker-ce", "moby-engine", "docker.io"];

/// Docker with its version, if the kubelet uses it. Docker itself installs containerd, so that packages alone do not tell.
pub(super) fn docker(root: &Root, packages: &BTreeMap<String, String>) -> Result<Option<String>, crate::os::Error> {
    let mut uses_docker = false;
    for path in SOCKETS {
        uses_docker |= root.kind(path)?.is_some();
    }
    for path in KUBELET_FILES {
        let bytes = root.read_if_exists(path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let arguments = ["--container-runtime=docker", "dockershim.sock", "cri-dockerd.sock"];
        uses_docker |= arguments.iter().any(|argument| text.contains(argument));
    }
    let version = PACKAGES.iter().find_map(|name| packages.get(*name)).map(|version| upstream(version));
    Ok(uses_docker.then(|| format!("docker://{}", version.unwrap_or("unknown"))))
}
