//! Determines from kubeconfigs how the kubelet of this disk joined, and what would join it again. Only the kind of the credential leaves
//! this module.

use std::path::Path;

use crate::os::{FileKind, Root};
use kiln_node_config::spec::{CredentialFrom, CredentialKind};
use kiln_node_plan::layout::{BOOTSTRAP_KUBECONFIG, DOCUMENT, GENERATIONS, KUBECONFIG, current};
use kiln_types::{JoinCredential, RecipeRunner, TokenId};
use serde::Deserialize as _;
use serde_json::Value;

/// Bootstrap kubeconfigs of AKS (and AKS Engine) and of kubeadm.
pub(super) const BOOTSTRAP: [&str; 2] =
    ["/var/lib/kubelet/bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf"];
/// Permanent kubeconfigs.
const PERMANENT: [&str; 3] = ["/var/lib/kubelet/kubeconfig", KUBELET_CONF, "/etc/kubernetes/kubeconfig"];
/// The kubeconfig of kubeadm.
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// Written by `kubeadm join`, which refuses a node that has the first one. It writes all of them again.
const KUBEADM: [&str; 3] =
    ["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env"];
/// The scripts of AKS do nothing on a node that has it.
const AKS_COMPLETE: &str = "/opt/azure/containers/provision.complete";
/// The folders of the script extension, in each version of it.
const SCRIPT_EXTENSIONS: [&str; 2] = [
    "/var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-*",
    "/var/lib/waagent/Microsoft.OSTCExtensions.CustomScriptForLinux-*",
];
/// Where the kubelet keeps its own certificate.
const OWN: &str = "/var/lib/kubelet/pki/";

/// The user of a kubeconfig.
#[derive(Debug, Default, PartialEq, Eq)]
struct User {
    command: Option<String>,
    certificate: Option<String>,
    embedded: bool,
    token: Option<Token>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Bootstrap(TokenId),
    Other,
}

/// The join credential; none without a kubeconfig.
pub fn credential(root: &Root) -> Result<Option<JoinCredential>, crate::os::Error> {
    let first = [current(BOOTSTRAP_KUBECONFIG)].into_iter().chain(BOOTSTRAP.map(str::to_owned));
    let permanent = [current(KUBECONFIG)].into_iter().chain(PERMANENT.map(str::to_owned));
    let (mut own, mut problems) = (None, Vec::new());
    for path in first.chain(permanent) {
        let Some(bytes) = root.read_if_exists(&path)? else { continue };
        match kind(&path, &user(&String::from_utf8_lossy(&bytes))) {
            // It is a result of joining; another file may show how.
            Ok(node @ JoinCredential::NodeCertificate { .. }) => own = own.or(Some(node)),
            Ok(kind) => return Ok(Some(kind)),
            Err(why) => problems.push(format!("`{path}` {why}")),
        }
    }
    Ok(if problems.is_empty() { own } else { Some(JoinCredential::Unknown { why: problems.join("; ") }) })
}

/// The programs on this disk that ran the pool's recipe and would run it again on a clone, which starts without their records.
pub fn recipe_runners(root: &Root) -> Result<Vec<RecipeRunner>, crate::os::Error> {
    let exists = |path: &str| root.kind(path).map(|kind| kind.is_some());
    let matches = |pattern: &str| root.glob(pattern).map(|found| !found.is_empty());
    let mut all = Vec::new();
    let is_enabled = exists("/usr/bin/cloud-init")? && !exists("/etc/cloud/cloud-init.disabled")?;
    if is_enabled && matches("/var/lib/cloud/instances/*/sem")? {
        all.push(RecipeRunner::CloudInit);
    }
    if SCRIPT_EXTENSIONS.into_iter().map(matches).collect::<Result<Vec<_>, _>>()?.contains(&true) {
        all.push(RecipeRunner::ScriptExtension);
    }
    if credential_from(root, current(DOCUMENT))?.is_some_and(|from| from.kind == CredentialKind::CustomData) {
        all.push(RecipeRunner::Kilnd);
    }
    Ok(all)
}

/// The traces by which bootstrap programs recognize a node that has joined: they do nothing on it, or refuse it.
pub(super) fn traces(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let mut all = Vec::new();
    let [_, bootstrap] = BOOTSTRAP;
    let is_kubeadm = root.kind(bootstrap)?.is_some() || node_kubeconfigs(root)?.iter().any(|path| path == KUBELET_CONF);
    let kubeadm = KUBEADM.into_iter().filter(|_| is_kubeadm);
    for path in kubeadm.chain([AKS_COMPLETE]) {
        if root.kind(path)? == Some(FileKind::File) {
            all.push(path.to_owned());
        }
    }
    Ok(all)
}

/// Kubeconfigs with the certificate that the kubelet got for its node. Without a bootstrap kubeconfig they are useless on a clone.
pub(super) fn node_kubeconfigs(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let mut all = Vec::new();
    for path in PERMANENT {
        let bytes = root.read_if_exists(path)?.unwrap_or_default();
        let certificate = user(&String::from_utf8_lossy(&bytes)).certificate;
        if certificate.is_some_and(|file| file.starts_with(OWN)) {
            all.push(path.to_owned());
        }
    }
    Ok(all)
}

/// Credential files that documents on this disk name, and whether each contains a bootstrap token.
pub fn credential_files(root: &Root) -> Result<Vec<(String, bool)>, crate::os::Error> {
    let mut all = Vec::new();
    for document in root.glob(&format!("{GENERATIONS}/*/{DOCUMENT}"))? {
        let Some(from) = credential_from(root, &document)? else { continue };
        if !matches!(from.kind, CredentialKind::File | CredentialKind::ProtectedSettings) {
            continue;
        }
        let path = normalized(&from.name);
        // The document may name something that is not a file.
        let Some(bytes) = root.read_if_exists(&path).ok().flatten() else { continue };
        let found = (path, has_token(&String::from_utf8_lossy(&bytes)));
        if !all.contains(&found) {
            all.push(found);
        }
    }
    Ok(all)
}

/// The source of the credential in a document; also in a document that this version would reject.
fn credential_from(root: &Root, document: impl AsRef<Path>) -> Result<Option<CredentialFrom>, crate::os::Error> {
    let bytes = root.read_if_exists(document)?.unwrap_or_default();
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(CredentialFrom::deserialize(&value["spec"]["credentialFrom"]).ok())
}

/// A path without empty components and `.`.
pub(super) fn normalized(path: &str) -> String {
    path.split('/').filter(|part| !["", "."].contains(part)).fold(String::new(), |path, part| path + "/" + part)
}

/// Whether a text is a bootstrap token or a kubeconfig with one.
pub(crate) fn has_token(text: &str) -> bool {
    let is_secret = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let bare =
        text.trim().split_once('.').is_some_and(|(id, secret)| id.parse::<TokenId>().is_ok() && is_secret(secret));
    bare || matches!(user(text).token, Some(Token::Bootstrap(_)))
}

fn kind(path: &str, user: &User) -> Result<JoinCredential, &'static str> {
    if let Some(command) = &user.command {
        return Ok(JoinCredential::ExecPlugin { command: command.clone() });
    }
    match &user.token {
        Some(Token::Bootstrap(token_id)) => {
            return Ok(JoinCredential::BootstrapToken { token_id: token_id.clone(), renewed_by: None });
        }
        Some(Token::Other) => return Err("contains a token that is not a bootstrap token"),
        None => {}
    }
    match &user.certificate {
        Some(file) if file.starts_with(OWN) => Ok(JoinCredential::NodeCertificate { path: path.to_owned() }),
        Some(file) => Ok(JoinCredential::StaticClientCertificate { path: file.clone() }),
        None if user.embedded => Ok(JoinCredential::StaticClientCertificate { path: path.to_owned() }),
        None => Err("contains no credential"),
    }
}

/// Parses a kubeconfig, as JSON or as YAML in the style of kubectl. The keys of a user are unique in the file, so lines suffice.
fn user(text: &str) -> User {
    let mut user = User::default();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => walk(&value, &mut user),
        Err(_) => {
            for line in text.lines() {
                let line = line.trim_start().trim_start_matches("- ");
                if let Some((key, value)) = line.split_once(':') {
                    user.note(key.trim(), value.trim().trim_matches(['"', '\'']));
                }
            }
        }
    }
    user
}

fn walk(value: &Value, user: &mut User) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) => user.note(key, text),
                    other => walk(other, user),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| walk(value, user)),
        _ => {}
    }
}

impl User {
    fn note(&mut self, key: &str, value: &str) {
        if value.is_empty() || value == "null" {
            return;
        }
        match key {
            "command" => self.command = Some(value.to_owned()),
            "client-certificate" => self.certificate = Some(value.to_owned()),
            "client-certificate-data" => self.embedded = true,
            "token" => {
                let id = value.split_once('.').and_then(|(id, _)| id.parse().ok());
                self.token = Some(id.map_or(Token::Other, Token::Bootstrap));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<JoinCredential, &'static str> {
        kind("/k", &user(text))
    }

    #[test]
    fn kind_is_detected_in_yaml_and_json() {
        let yaml = "users:\n- name: kubelet\n  user:\n    token: \"abcdef.0123456789abcdef\"\n";
        let token = JoinCredential::BootstrapToken { token_id: "abcdef".parse().expect("an id"), renewed_by: None };
        assert_eq!(parse(yaml), Ok(token.clone()));
        assert_eq!(parse(r#"{"users":[{"name":"k","user":{"token":"abcdef.0123456789abcdef"}}]}"#), Ok(token));
        let shared = "- user:\n    client-certificate: /etc/kubernetes/certs/client.crt\n    client-key: x\n";
        let certificate =
            JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".to_owned() };
        assert_eq!(parse(shared), Ok(certificate));
        let plugin = "    exec:\n      apiVersion: v1\n      command: /opt/kubelogin\n";
        assert_eq!(parse(plugin), Ok(JoinCredential::ExecPlugin { command: "/opt/kubelogin".to_owned() }));
        let own = parse("    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n");
        assert_eq!(own, Ok(JoinCredential::NodeCertificate { path: "/k".to_owned() }));
        assert!(parse("    token: opaque\n").is_err());
        assert!(parse("clusters: []\n").is_err());
    }

    #[test]
    fn tokens_are_detected_alone_and_in_kubeconfigs() {
        for text in ["abcdef.0123456789abcdef\n", "users:\n- user:\n    token: abcdef.0123456789abcdef\n"] {
            assert!(has_token(text), "{text}");
        }
        let certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
        for text in [certificate, "eyJhbGciOi.eyJzdWIi.c2ln", "abcdef.short", "exec:\n  command: /opt/x\n", ""] {
            assert!(!has_token(text), "{text}");
        }
    }

    #[test]
    fn bootstrap_kubeconfig_takes_precedence() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("write");
        };
        assert_eq!(credential(&root).expect("read"), None);
        write("var/lib/kubelet/kubeconfig", "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n");
        let own = JoinCredential::NodeCertificate { path: "/var/lib/kubelet/kubeconfig".to_owned() };
        assert_eq!(credential(&root).expect("read"), Some(own));
        write("var/lib/kubelet/bootstrap-kubeconfig", "token: opaque\n");
        let Some(JoinCredential::Unknown { why }) = credential(&root).expect("read") else { panic!("known") };
        assert!(why.contains("/var/lib/kubelet/bootstrap-kubeconfig"), "{why}");
        write("var/lib/kubelet/bootstrap-kubeconfig", "token: abcdef.0123456789abcdef\n");
        let text = format!("{:?}", credential(&root).expect("read"));
        assert!(text.contains("abcdef") && !text.contains("0123456789"), "{text}");
    }
}
