//! `CustomResourceDefinition` objects: defaults, validation and status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::flag;
use super::rules;
use crate::error::FieldError;
use crate::{meta, names};

/// Sets the defaults of a definition, and its status: the server accepts the names at once.
pub(crate) fn prepare(object: &mut Value, now: Timestamp) {
    set_defaults(object);
    let accepted = object["spec"]["names"].clone();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "lastTransitionTime": meta::time(now), "reason": reason,
            "message": message,
        })
    };
    object["status"] = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": accepted,
        "storedVersions": stored_versions(object, &[]),
    });
}

/// Follows a change of the spec in the status.
pub(crate) fn prepare_change(object: &mut Value) {
    set_defaults(object);
    let names = object["spec"]["names"].clone();
    let before = meta::list(object, "/status/storedVersions").to_vec();
    let stored = stored_versions(object, &before);
    let status = meta::child(object, "status");
    status.insert("acceptedNames".to_owned(), names);
    status.insert("storedVersions".to_owned(), stored);
}

fn set_defaults(object: &mut Value) {
    let kind = meta::text(object, "/spec/names/kind").to_owned();
    let spec = meta::child(object, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        for (field, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            let name = names.entry(field).or_insert(Value::Null);
            if name.as_str().is_none_or(str::is_empty) {
                *name = json!(default);
            }
        }
    }
}

/// The versions in which objects may be stored.
fn stored_versions(object: &Value, before: &[Value]) -> Value {
    let mut stored = before.to_vec();
    for version in meta::list(object, "/spec/versions").iter().filter(|version| flag(version, "storage")) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    json!(stored)
}

pub(crate) fn check(object: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let text = |pointer: &str| meta::text(object, pointer);
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    if meta::name(object) != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(FieldError::invalid("metadata.name", &json!(meta::name(object)), why));
    }
    if !group.contains('.') {
        causes.push(FieldError::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(&format!("/spec/names/{field}"));
        if !names::is_dns_label(&name.to_lowercase()) {
            let why = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
            causes.push(FieldError::invalid(format!("spec.names.{field}"), &json!(name), why));
        }
    }
    if !matches!(text("/spec/scope"), "Cluster" | "Namespaced") {
        causes.push(FieldError::unsupported("spec.scope", &object["spec"]["scope"], &["Cluster", "Namespaced"]));
    }
    if text("/spec/conversion/strategy") != "None" {
        // The real server also accepts webhooks, which this one cannot call.
        let strategy = &object["spec"]["conversion"]["strategy"];
        causes.push(FieldError::unsupported("spec.conversion.strategy", strategy, &["None"]));
    }
    let versions = meta::list(object, "/spec/versions");
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(FieldError::invalid("spec.versions", &object["spec"]["versions"], why));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => causes.push(FieldError::required(path, "")),
            Some(schema) => {
                if schema.get("type") != Some(&json!("object")) {
                    let given = schema.get("type").cloned().unwrap_or_else(|| json!(""));
                    causes.push(FieldError::invalid(format!("{path}.type"), &given, "must be object at the root"));
                }
                check_structure(schema, &path, &mut causes);
                causes.extend(rules::errors(schema, &path));
            }
        }
    }
    causes
}

/// Every field of a structural schema has a type, unless it accepts several.
fn check_structure(schema: &Value, path: &str, causes: &mut Vec<FieldError>) {
    let inner = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let inner = inner.map(|(field, schema)| (schema, format!("{path}.properties[{field}]"), "object fields"));
    let items = schema.get("items").map(|schema| (schema, format!("{path}.items"), "array items"));
    let more = schema.get("additionalProperties").filter(|schema| schema.is_object());
    let more = more.map(|schema| (schema, format!("{path}.additionalProperties"), "object fields"));
    for (schema, path, what) in inner.chain(items).chain(more) {
        let typed = schema.get("type").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty());
        let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
        if !typed && !free.iter().any(|name| flag(schema, name)) {
            causes
                .push(FieldError::required(format!("{path}.type"), &format!("must not be empty for specified {what}")));
        }
        check_structure(schema, &path, causes);
    }
}

/// Names and scope never change, because objects are stored by them.
pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<FieldError> {
    ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"]
        .into_iter()
        .filter(|pointer| old.pointer(pointer) != new.pointer(pointer))
        .map(|pointer| {
            let value = new.pointer(pointer).cloned().unwrap_or_default();
            FieldError::invalid(pointer.trim_start_matches('/').replace('/', "."), &value, "field is immutable")
        })
        .collect()
}
