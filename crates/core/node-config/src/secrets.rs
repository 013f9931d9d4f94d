//! Finding what must not be in a document: things that look like a secret, wherever they stand.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::describe::below;

/// Something that looks like a secret. What it is stays unsaid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub path: String,
    /// What it looks like.
    pub looks_like: &'static str,
}

impl Found {
    /// The same, in a field or an element.
    pub(crate) fn within(self, place: &str) -> Self {
        Self { path: below(place, &self.path), ..self }
    }
}

/// Everything in a document that looks like a secret.
pub fn find(document: &Value) -> Vec<Found> {
    named("", document)
}

/// The same in the value of a field of this name.
pub(crate) fn named(name: &str, value: &Value) -> Vec<Found> {
    let mut found = Vec::new();
    walk(name, value, &mut String::new(), &mut found);
    found
}

/// What the text of a field of this name looks like, where it looks like a secret.
pub(crate) fn in_text(name: &str, text: &str) -> Option<&'static str> {
    if is_named_secret(name) && !text.is_empty() {
        return Some("a field for a secret");
    }
    looks_secret(text).or_else(|| looks_secret(&decoded(text.trim())?))
}

fn walk(name: &str, value: &Value, path: &mut String, found: &mut Vec<Found>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                walk(name, value, path, found);
                path.truncate(length);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                walk("", value, path, found);
                path.truncate(length);
            }
        }
        Value::String(text) => {
            found.extend(in_text(name, text).map(|looks_like| Found { path: path.clone(), looks_like }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn decoded(text: &str) -> Option<String> {
    // Most texts are none of base64, and their length says so.
    let bytes = if text.len().is_multiple_of(4) { STANDARD.decode(text).ok()? } else { return None };
    String::from_utf8(bytes).ok()
}

/// Names that hold secrets by themselves, not the names of files with one.
fn is_named_secret(name: &str) -> bool {
    let backwards = || name.bytes().rev().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    ["password", "passwd", "secret", "token", "privatekey", "clientkeydata", "accesskey", "apikey"]
        .iter()
        .any(|ending| backwards().take(ending.len()).eq(ending.bytes().rev()))
}

/// What a text looks like, where it looks like a secret.
pub fn looks_secret(text: &str) -> Option<&'static str> {
    if text.contains("PRIVATE KEY-----") {
        Some("a private key")
    } else if has_join_token(text) {
        Some("a token to join a cluster with")
    } else if has_web_token(text) {
        Some("a web token")
    } else if has_url_password(text) {
        Some("a password in a URL")
    } else if text.contains("client-key-data:") || text.contains("\"client-key-data\"") {
        Some("a key in a kubeconfig")
    } else if text.contains("sig=") && text.contains("se=") && text.contains("sv=") {
        Some("a shared access signature")
    } else {
        None
    }
}

/// Six characters, a dot, sixteen characters, and nothing that makes it part of a longer name.
fn has_join_token(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let words = text.split(|c: char| !(plain(c) || c == '.' || c == '-' || c == '_' || c.is_ascii_uppercase()));
    words
        .filter_map(|word| word.split_once('.'))
        .any(|(id, secret)| id.len() == 6 && secret.len() == 16 && id.chars().all(plain) && secret.chars().all(plain))
}

/// Three parts of base64 with dots between, the first two of which are JSON objects.
fn has_web_token(text: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).any(|word| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() == 3 && parts[0].starts_with("eyJ") && parts[1].starts_with("eyJ")
    })
}

fn has_url_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let rest = &text[at + 3..];
        let authority = &rest[..rest.find(|c: char| "/?#\"' \n".contains(c)).unwrap_or(rest.len())];
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        let token = "abcdef.0123456789abcdef";
        let encoded = STANDARD.encode(format!("token={token}\n"));
        for document in [
            json!({"spec": {"kubelet": {"flags": {"--x": token}}}}),
            json!({"spec": {"files": [{"content": format!("a\n{token}\n")}]}}),
            json!({"spec": {"files": [{"contentBase64": encoded}]}}),
            json!({"spec": {"new": {"deep": [[token]]}}}),
            json!({"spec": {"os": {"proxy": {"http": "http://user:hunter2@proxy:3128"}}}}),
            json!({"metadata": {"annotations": {"a": "-----BEGIN EC PRIVATE KEY-----"}}}),
            json!({"spec": {"kubelet": {"configuration": {"clientSecret": "x"}}}}),
            json!({"a": "Bearer eyJhbGciOi.eyJzdWIiOi.c2ln"}),
            json!({"a": "https://x.blob/y?sv=2020&se=2030&sig=abc"}),
        ] {
            assert_eq!(find(&document).len(), 1, "{document}");
        }
    }

    #[test]
    fn the_place_is_named_and_the_secret_is_not() {
        let found = find(&json!({"spec": {"files": [{"content": "abcdef.0123456789abcdef"}]}}));
        assert_eq!(
            found,
            [Found { path: "spec.files[0].content".to_owned(), looks_like: "a token to join a cluster with" }]
        );
    }

    #[test]
    fn names_and_files_that_only_speak_of_secrets_are_none() {
        for document in [
            json!({"tlsPrivateKeyFile": "/etc/kubernetes/certs/kubeletserver.key", "authenticationTokenWebhook": "true"}),
            json!({"a": "myhost.internalcloudapp.net", "b": "1.33.7", "c": "https://user@host/path:x@y"}),
            json!({"token": "", "secret": null, "certificate": "-----BEGIN CERTIFICATE-----"}),
        ] {
            assert_eq!(find(&document), [], "{document}");
        }
    }

    proptest! {
        #[test]
        fn a_token_between_any_spaces_is_found(before in "[ \n\"':=,]{1,3}", id in "[a-z0-9]{6}", secret in "[a-z0-9]{16}") {
            let text = format!("x{before}{id}.{secret}{before}y");
            prop_assert!(looks_secret(&text).is_some());
        }

        #[test]
        fn no_text_makes_the_search_panic(text in "\\PC{0,60}") {
            let _ = looks_secret(&text);
        }
    }
}
