//! The syntax of names, labels and label keys.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::resource::{ObjectKind, Resource};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Checks name, labels and annotations of an object.
pub(crate) fn check(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let name = crate::meta::name(object);
    // Namespace names are DNS labels, all other names are DNS subdomains.
    let (invalid, why) = if resource.object_kind == ObjectKind::Namespace {
        (!is_dns_label(name), LABEL)
    } else {
        (!is_dns_subdomain(name), SUBDOMAIN)
    };
    if invalid {
        causes.push(FieldError::invalid("metadata.name", &json!(name), why));
    }
    for (field, values_are_labels) in [("labels", true), ("annotations", false)] {
        let Some(map) = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object) else { continue };
        for (key, value) in map {
            if !is_qualified(key) {
                causes.push(FieldError::invalid(format!("metadata.{field}"), &json!(key), QUALIFIED));
            }
            let text = value.as_str().unwrap_or_default();
            if values_are_labels && !is_label_value(text) {
                causes.push(FieldError::invalid(format!("metadata.{field}"), &json!(text), LABEL_VALUE));
            }
        }
    }
    causes
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(text.as_bytes().first()) && edge(text.as_bytes().last())
}

pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63
        && has_alphanumeric_ends(text)
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            has_alphanumeric_ends(part)
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
}

fn is_label_value(text: &str) -> bool {
    text.is_empty()
        || (text.len() <= 63
            && has_alphanumeric_ends(text)
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
}

/// A key of labels, annotations and taints: a name with an optional domain prefix.
pub(crate) fn is_qualified(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_subdomain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_and_labels_are_reported() {
        let count = |object_kind: ObjectKind, object: Value| check(object_kind.resource(), &object).len();
        assert_eq!(count(ObjectKind::Pod, json!({"metadata": {"name": "a.b-c", "labels": {"x.io/a_B": "V_1"}}})), 0);
        assert_eq!(count(ObjectKind::Namespace, json!({"metadata": {"name": "a.b"}})), 1);
        assert_eq!(count(ObjectKind::Pod, json!({"metadata": {"name": "A"}})), 1);
        assert_eq!(count(ObjectKind::Pod, json!({"metadata": {"name": "a", "labels": {"-x": "ok", "y": "no no"}}})), 2);
        assert_eq!(count(ObjectKind::Pod, json!({"metadata": {"name": "a", "annotations": {"y": "free text"}}})), 0);
    }
}
