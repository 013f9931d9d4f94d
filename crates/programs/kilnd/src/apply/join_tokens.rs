//! Removes join tokens from the disk of a node that has joined. The kubelet renews its certificate with the certificate itself, so a token is of no
//! more use to the node, only to a thief of its disk or to a clone.

use std::path::PathBuf;

use kiln_node_plan::layout::{BOOTSTRAP_KUBECONFIG, CLIENT_CERTIFICATE, CREDENTIAL, GENERATIONS};

use crate::identity::join::has_token;
use crate::os::{Durability, FileKind, Root};

/// Deletes the tokens that kilnd wrote into its generations, if the kubelet has its client certificate. Returns whether it has. Credentials of other
/// kinds stay: an exec plugin or a shared client certificate is needed again.
pub fn remove(root: &Root) -> Result<bool, crate::os::Error> {
    if !has_certificate(root)? {
        return Ok(false);
    }
    for path in find(root)? {
        root.remove(&path, Durability::Now)?;
    }
    Ok(true)
}

/// The files with tokens that kilnd wrote into its generations.
pub fn find(root: &Root) -> Result<Vec<PathBuf>, crate::os::Error> {
    let mut found = Vec::new();
    for file in [CREDENTIAL, BOOTSTRAP_KUBECONFIG] {
        for path in root.glob(&format!("{GENERATIONS}/*/{file}"))? {
            if root.kind(&path)? == Some(FileKind::File) && has_token(&String::from_utf8_lossy(&root.read(&path)?)) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn has_certificate(root: &Root) -> Result<bool, crate::os::Error> {
    let bytes = root.read_if_exists(CLIENT_CERTIFICATE)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.contains("-----BEGIN CERTIFICATE-----") && text.contains("PRIVATE KEY-----"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_are_removed_and_only_after_joining() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("written");
        };
        let token = "abcdef.0123456789abcdef";
        let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMA==\n";
        write("/etc/kiln/generations/1-a/credential", token);
        write("/etc/kiln/generations/1-a/bootstrap-kubeconfig", &format!("users:\n- user:\n    token: {token}\n"));
        write("/etc/kiln/generations/2-b/credential", pem);
        write("/etc/kiln/generations/3-c/bootstrap-kubeconfig", "users:\n- user:\n    exec:\n      command: /opt/x\n");
        write("/var/lib/kubelet/bootstrap-kubeconfig", &format!("token: {token}\n"));
        write(CLIENT_CERTIFICATE, "");
        assert!(!remove(&root).expect("read"), "an empty certificate is none");
        assert!(root.kind("/etc/kiln/generations/1-a/credential").expect("read").is_some());
        write(CLIENT_CERTIFICATE, pem);
        assert!(remove(&root).expect("removed"));
        let exists = |path: &str| root.kind(path).expect("read").is_some();
        assert!(!exists("/etc/kiln/generations/1-a/credential"));
        assert!(!exists("/etc/kiln/generations/1-a/bootstrap-kubeconfig"));
        assert!(exists("/etc/kiln/generations/2-b/credential"), "a shared certificate");
        assert!(exists("/etc/kiln/generations/3-c/bootstrap-kubeconfig"), "an exec plugin");
        assert!(exists("/var/lib/kubelet/bootstrap-kubeconfig"), "not written by kilnd");
    }
}
