//! Removes secrets from texts that leave the machine: reports to the platform and support bundles.
//!
//! Two methods together: [`patterns`] finds what looks like a secret, and a [`Redactor`] also knows the secrets of this node, which it
//! replaces wherever they appear.

pub mod patterns;

use std::collections::BTreeSet;

use kiln_node_plan::layout::{
    BOOTSTRAP_KUBECONFIG, CLIENT_CERTIFICATE, CREDENTIAL, CUSTOM_DATA, GIVEN_CERTIFICATE, KUBECONFIG,
};
use serde_json::Value;

use crate::node::Node;
use crate::os::Generations;
use crate::sources;

/// What replaces a secret.
pub const HIDDEN: &str = "***";
/// Fields of a document whose values are whole files.
const CONTENTS: [&str; 2] = ["content", "contentBase64"];
/// A shorter word would also be part of other words.
const SHORTEST: usize = 6;

/// Removes secrets.
#[derive(Default)]
pub struct Redactor {
    /// Longest first, so that a secret inside a longer one leaves no remainder.
    known: Vec<String>,
}

/// Does not show the secrets.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} known secrets", self.known.len())
    }
}

impl Redactor {
    /// A redactor that knows these secrets.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let known: BTreeSet<String> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
        let mut known: Vec<String> = known.into_iter().collect();
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { known }
    }

    /// A redactor that knows the secrets on this node: join credentials, keys, custom data, and the password on the provisioning media.
    pub fn of_node(node: &Node) -> Self {
        let root = &node.root;
        let mut secrets = Vec::new();
        let mut paths = vec![CLIENT_CERTIFICATE.to_owned()];
        for generation in Generations::new(root).list().unwrap_or_default() {
            let folder = Generations::folder(&generation);
            let files = [CREDENTIAL, GIVEN_CERTIFICATE, KUBECONFIG, BOOTSTRAP_KUBECONFIG];
            paths.extend(files.iter().map(|file| format!("{folder}/{file}")));
        }
        for path in paths {
            let bytes = root.read_if_exists(&path).ok().flatten().unwrap_or_default();
            secrets.extend(patterns::secrets_in(&String::from_utf8_lossy(&bytes)));
        }
        for entry in std::fs::read_dir(&node.endpoints.credentials).into_iter().flatten().flatten() {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            secrets.extend(patterns::secrets_in(&String::from_utf8_lossy(&text)));
        }
        let saved = root.read_if_exists(CUSTOM_DATA).ok().flatten();
        let media = sources::ovf_env(&node.endpoints).ok().flatten();
        secrets.extend(media.as_ref().and_then(|ovf| ovf.password.as_ref()).map(|one| text_of(one.expose())));
        let media = media.and_then(|ovf| ovf.custom_data);
        for encoded in saved.as_deref().into_iter().chain(media.as_ref().map(kiln_types::SecretBytes::expose)) {
            secrets.push(text_of(encoded));
            if let Some(bytes) = sources::unbase64(encoded) {
                secrets.extend(patterns::secrets_in(&text_of(&bytes)));
            }
        }
        Self::new(secrets)
    }

    /// A text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut text = patterns::redact(text);
        for secret in self.known.iter().filter(|secret| **secret != HIDDEN) {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }

    /// A message in one line without secrets.
    pub fn line(&self, line: &str) -> String {
        self.text(line).replace('\n', " ")
    }

    /// A JSON document without secrets: fields with a name of a secret, contents of files, and everything that looks like a secret.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    match value {
                        Value::String(text) if CONTENTS.contains(&name.as_str()) => {
                            *text = format!("{} bytes, not included", text.len());
                        }
                        Value::String(text) if patterns::is_secret_name(name) && !text.is_empty() => {
                            HIDDEN.clone_into(text);
                        }
                        other => self.json(other),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.json(value)),
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_are_replaced_in_any_context() {
        let redactor = Redactor::new(["correct horse".to_owned(), "horse-battery".to_owned(), "horse".to_owned()]);
        assert_eq!(
            redactor.text("a correct horse, horse-battery: horse"),
            "a ***, ***: horse",
            "too short to be known"
        );
        assert_eq!(format!("{redactor:?}"), "2 known secrets");
    }

    #[test]
    fn documents_lose_contents_and_secret_fields() {
        let mut document = serde_json::json!({
            "files": [{"path": "/etc/a", "content": "swordfish"}],
            "kubelet": {"flags": {"--token": "x"}, "labels": {"a": "b"}},
            "clientSecret": "y",
            "note": "password=z",
        });
        Redactor::default().json(&mut document);
        let expected = serde_json::json!({
            "files": [{"path": "/etc/a", "content": "9 bytes, not included"}],
            "kubelet": {"flags": {"--token": "***"}, "labels": {"a": "b"}},
            "clientSecret": "***",
            "note": "password=***",
        });
        assert_eq!(document, expected);
    }
}
