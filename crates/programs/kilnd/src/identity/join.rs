//! Determines from kubeconfigs how the kubelet of this disk joined. Only the kind of the credential leaves this module.

use crate::os::Root;
use kiln_node_config::spec::{CredentialFrom, CredentialKind};
use kiln_node_plan::layout::{BOOTSTRAP_KUBECONFIG, DOCUMENT, GENERATIONS, KUBECONFIG, current};
use kiln_types::{JoinCredential, TokenId};
use serde::Deserialize as _;
use serde_json::Value;

/// Bootstrap kubeconfigs of AKS (and AKS Engine) and of kubeadm.
pub(super) const BOOTSTRAP: [&str; 2] =
    ["/var/lib/kubelet/bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf"];
/// Permanent kubeconfigs.
const PERMANENT: [&str; 3] =
    ["/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/kubeconfig"];
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
    let mut problems = Vec::new();
    for path in first.chain(permanent) {
        let Some(bytes) = root.read_if_exists(&path)? else { continue };
        match kind(&path, &user(&String::from_utf8_lossy(&bytes))) {
            Ok(kind) => return Ok(Some(kind)),
            Err(why) => problems.push(format!("`{path}` {why}")),
        }
    }
    Ok((!problems.is_empty()).then(|| JoinCredential::Unknown { why: problems.join("; ") }))
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
        // Also of documents that this version would reject.
        let value: Value = serde_json::from_slice(&root.read(&document)?).unwrap_or_default();
        let from = CredentialFrom::deserialize(&value["spec"]["credentialFrom"]).unwrap_or_default();
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

/// A path without empty components and `.`.
pub(super) fn normalized(path: &str) -> String {
    path.split('/').filter(|part| !["", "."].contains(part)).fold(String::new(), |path, part| path + "/" + part)
}

/// Whether a text is a bootstrap token or a kubeconfig with one.
fn has_token(text: &str) -> bool {
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
        Some(file) if file.starts_with(OWN) => Err("names the certificate that the kubelet got for this node"),
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
        assert!(parse("    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n").is_err());
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
        let Some(JoinCredential::Unknown { why }) = credential(&root).expect("read") else { panic!("known") };
        assert!(why.contains("/var/lib/kubelet/kubeconfig"), "{why}");
        write("var/lib/kubelet/bootstrap-kubeconfig", "token: abcdef.0123456789abcdef\n");
        let text = format!("{:?}", credential(&root).expect("read"));
        assert!(text.contains("abcdef") && !text.contains("0123456789"), "{text}");
    }
}
