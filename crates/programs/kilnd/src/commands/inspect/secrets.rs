//! Secrets on the disk, by path and kind.

use crate::os::{FileKind, Root};
use kiln_node_plan::layout;
use kiln_types::SecretPlace;

/// Paths of secrets on a node. Their content is not read.
const PATHS: [(&str, &str); 21] = [
    ("/etc/kubernetes/certs/*.key", "client key"),
    ("/etc/kubernetes/pki/*.key", "key"),
    ("/etc/kubernetes/azure.json", "cloud credential"),
    ("/etc/kubernetes/kubelet.conf", "kubeconfig"),
    ("/etc/kubernetes/bootstrap-kubelet.conf", "bootstrap token"),
    ("/var/lib/kubelet/bootstrap-kubeconfig", "bootstrap token"),
    ("/var/lib/kubelet/kubeconfig", "kubeconfig"),
    ("/var/lib/kubelet/config.json", "registry credential"),
    ("/var/lib/kubelet/pki/*.pem", "kubelet certificate"),
    ("/var/lib/kubelet/pki/*.key", "kubelet key"),
    ("/etc/kiln/generations/*/credential", "join credential"),
    ("/etc/kiln/generations/*/bootstrap-kubeconfig", "bootstrap token"),
    ("/root/.docker/config.json", "registry credential"),
    ("/root/.ssh/id_*", "private key"),
    ("/home/*/.ssh/id_*", "private key"),
    ("/etc/ssh/ssh_host_*_key", "host key"),
    ("/var/lib/cloud/instance/user-data.txt", "custom data"),
    (layout::CUSTOM_DATA, "custom data"),
    ("/var/lib/waagent/CustomData", "custom data"),
    ("/var/lib/waagent/ovf-env.xml", "custom data"),
    ("/var/lib/waagent/*.prv", "private key"),
];

pub(super) fn list(root: &Root) -> Result<Vec<SecretPlace>, crate::os::Error> {
    let mut all = Vec::new();
    for (pattern, kind) in PATHS {
        for path in root.glob(pattern)? {
            let is_public = path.extension().is_some_and(|ending| ending == "pub");
            if root.kind(&path)? == Some(FileKind::File) && !is_public {
                all.push(SecretPlace { path: path.to_string_lossy().into_owned(), kind: kind.to_owned() });
            }
        }
    }
    Ok(all)
}
