//! Detection of values that look like secrets, which a document must not contain.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::content_secrets;
use crate::describe::below;

/// A value that looks like a secret. The value itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectedSecret {
    pub path: String,
    /// The key inside the value, if the value is the content of a file.
    pub key: Option<String>,
    /// For example `a private key`.
    pub looks_like: &'static str,
}

impl std::fmt::Display for SuspectedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            Some(key) => write!(f, "`{key}` in the content looks like {}", self.looks_like),
            None => write!(f, "the value looks like {}", self.looks_like),
        }
    }
}

impl SuspectedSecret {
    /// Prepends the path of a field or an element.
    pub(crate) fn within(self, parent: &str) -> Self {
        Self { path: below(parent, &self.path), ..self }
    }
}

/// Returns everything in a document that looks like a secret.
pub fn find(document: &Value) -> Vec<SuspectedSecret> {
    find_in_field("", document)
}

/// Returns everything in the value of a field that looks like a secret.
pub(crate) fn find_in_field(name: &str, value: &Value) -> Vec<SuspectedSecret> {
    let mut found = Vec::new();
    walk(name, value, &mut String::new(), &mut found);
    found
}

/// Judges the text of a field by the name of the field, by the text, and by the keys in the text. Base64 is decoded first.
pub(crate) fn find_in_text(name: &str, text: &str) -> Option<SuspectedSecret> {
    let found = |looks_like| SuspectedSecret { path: String::new(), key: None, looks_like };
    if is_named_secret(name) && !text.is_empty() {
        return Some(found("a field for a secret"));
    }
    let in_content = |text: &str| {
        let by_shape = classify(text).map(found);
        let by_key = || {
            let secret = content_secrets::find(text)?;
            Some(SuspectedSecret { key: Some(secret.key), ..found(secret.looks_like) })
        };
        by_shape.or_else(by_key)
    };
    in_content(text).or_else(|| in_content(&decoded(text.trim())?))
}

fn walk(name: &str, value: &Value, path: &mut String, found: &mut Vec<SuspectedSecret>) {
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
            found.extend(find_in_text(name, text).map(|secret| SuspectedSecret { path: path.clone(), ..secret }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn decoded(text: &str) -> Option<String> {
    // The length rules out most texts that are not base64.
    let bytes = if text.len().is_multiple_of(4) { STANDARD.decode(text).ok()? } else { return None };
    String::from_utf8(bytes).ok()
}

/// Whether a field name indicates a secret value. Names of files with secrets do not count.
fn is_named_secret(name: &str) -> bool {
    let backwards = || name.bytes().rev().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    ["password", "passwd", "secret", "token", "privatekey", "clientkeydata", "accesskey", "apikey"]
        .iter()
        .any(|ending| backwards().take(ending.len()).eq(ending.bytes().rev()))
}

/// Returns what kind of secret a text looks like.
pub fn classify(text: &str) -> Option<&'static str> {
    if text.contains("PRIVATE KEY-----") {
        Some("a private key")
    } else if has_join_token(text) {
        Some("a bootstrap token")
    } else if has_web_token(text) {
        Some("a JSON web token")
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

/// Detects bootstrap tokens: six characters, a dot and sixteen characters, not part of a longer word.
fn has_join_token(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let words = text.split(|c: char| !(plain(c) || c == '.' || c == '-' || c == '_' || c.is_ascii_uppercase()));
    words
        .filter_map(|word| word.split_once('.'))
        .any(|(id, secret)| id.len() == 6 && secret.len() == 16 && id.chars().all(plain) && secret.chars().all(plain))
}

/// Detects JSON web tokens: three parts separated by dots, where the first two are base64 of JSON objects.
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
    fn secrets_are_found_at_any_depth() {
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
    fn path_is_reported_without_the_secret() {
        let found = find(&json!({"spec": {"files": [{"content": "abcdef.0123456789abcdef"}]}}));
        assert_eq!(
            found,
            [SuspectedSecret { path: "spec.files[0].content".to_owned(), key: None, looks_like: "a bootstrap token" }]
        );
    }

    #[test]
    fn secret_in_the_content_of_a_file_is_reported_with_its_key() {
        let azure = r#"{"tenantId": "t", "aadClientId": "c", "aadClientSecret": "hunter2"}"#;
        for file in [json!({"content": azure}), json!({"contentBase64": STANDARD.encode(azure)})] {
            let document = json!({"spec": {"files": [file]}});
            let found = find(&document);
            assert_eq!(found.len(), 1, "{document}");
            assert!(found[0].path.starts_with("spec.files[0].content"), "{}", found[0].path);
            let text = found[0].to_string();
            assert_eq!(text, "`aadClientSecret` in the content looks like a key with a secret");
        }
    }

    #[test]
    fn names_of_secret_files_are_not_secrets() {
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
        fn token_is_found_between_separators(before in "[ \n\"':=,]{1,3}", id in "[a-z0-9]{6}", secret in "[a-z0-9]{16}") {
            let text = format!("x{before}{id}.{secret}{before}y");
            prop_assert!(classify(&text).is_some());
        }

        #[test]
        fn search_never_panics(text in "\\PC{0,60}") {
            let _ = classify(&text);
        }
    }
}
