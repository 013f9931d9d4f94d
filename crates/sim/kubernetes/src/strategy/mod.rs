//! What each resource adds to its objects, and what it does not let pass.

mod budget;
mod node;
pub(crate) mod pod;
mod workload;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::{ApiError, Cause, Result};
use crate::resource::{Resource, Sort};
use crate::{meta, names};

/// Prepares a new object: what the client may not set goes, what it left open gets its default.
pub(crate) fn prepare(resource: &Resource, object: &mut Value, now: Timestamp) {
    match resource.sort {
        Sort::Pod => pod::prepare(object, now),
        Sort::Node => node::prepare(object),
        Sort::Namespace => {
            let name = meta::name(object).to_owned();
            let metadata = meta::metadata(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = json!(name);
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        Sort::Secret => secret(object),
        Sort::Budget => budget::prepare(object),
        Sort::DaemonSet | Sort::ReplicaSet => workload::prepare(resource, object),
        Sort::ConfigMap | Sort::Event | Sort::NewEvent | Sort::Lease => {}
    }
}

/// Judges a new object.
pub(crate) fn check_new(resource: &Resource, object: &Value) -> Result<()> {
    let mut causes = names::check(resource, object);
    causes.extend(check(resource, object));
    refuse(resource, object, &causes)
}

/// Prepares a change of an object itself, not of its status.
pub(crate) fn prepare_change(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.sort == Sort::Secret {
        secret(new);
    }
    if resource.sort == Sort::Namespace {
        // Only the server itself lets a namespace go.
        new["spec"] = old["spec"].clone();
    }
    if resource.subresources.contains(&crate::resource::Subresource::Status) {
        keep(old, new, "status");
    }
}

/// Prepares a change of an object's status alone.
pub(crate) fn prepare_status(old: &Value, new: &mut Value) {
    keep(old, new, "spec");
    let owners = old.pointer("/metadata/ownerReferences").cloned();
    match owners {
        Some(owners) => drop(meta::metadata(new).insert("ownerReferences".to_owned(), owners)),
        None => drop(meta::metadata(new).remove("ownerReferences")),
    }
}

/// Judges a change.
pub(crate) fn check_change(resource: &Resource, old: &Value, new: &Value) -> Result<()> {
    let mut causes = names::check(resource, new);
    causes.extend(check(resource, new));
    if meta::is_terminating(old) {
        let before = meta::finalizers(old);
        let added: Vec<_> = meta::finalizers(new).into_iter().filter(|one| !before.contains(one)).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    match resource.sort {
        Sort::Pod => causes.extend(pod::check_change(old, new)),
        Sort::Node => causes.extend(node::check_change(old, new)),
        Sort::ConfigMap | Sort::Secret if old.get("immutable") == Some(&json!(true)) => {
            for field in ["data", "binaryData", "stringData"] {
                if old.get(field) != new.get(field) {
                    causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
                }
            }
        }
        Sort::Secret if old.get("type") != new.get("type") => {
            causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
        }
        Sort::DaemonSet | Sort::ReplicaSet if old.pointer("/spec/selector") != new.pointer("/spec/selector") => {
            causes.push(Cause::invalid("spec.selector", &new["spec"]["selector"], "field is immutable"));
        }
        _ => {}
    }
    refuse(resource, new, &causes)
}

fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    match resource.sort {
        Sort::Pod => pod::check(object),
        Sort::Node => node::check(object),
        Sort::Budget => budget::check(object),
        Sort::DaemonSet | Sort::ReplicaSet => workload::check(object),
        Sort::Event | Sort::NewEvent => {
            let (event, about) = (meta::namespace(object), meta::text(object, "/involvedObject/namespace"));
            // Events about what is in no namespace are in `default`.
            if about == event || (about.is_empty() && event == "default") {
                Vec::new()
            } else {
                let why = "does not match event.namespace";
                vec![Cause::invalid("involvedObject.namespace", &json!(about), why)]
            }
        }
        Sort::Namespace | Sort::ConfigMap | Sort::Secret | Sort::Lease => Vec::new(),
    }
}

fn refuse(resource: &Resource, object: &Value, causes: &[Cause]) -> Result<()> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(resource, meta::name(object), causes)) }
}

fn keep(old: &Value, new: &mut Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => drop(new.as_object_mut().and_then(|new| new.remove(field))),
    }
}

/// `stringData` is for writing alone.
fn secret(object: &mut Value) {
    if let Some(Value::Object(texts)) = object.as_object_mut().and_then(|object| object.remove("stringData")) {
        let data = meta::child(object, "data");
        for (key, text) in texts {
            let encoded = BASE64_STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, json!(encoded));
        }
    }
    if meta::text(object, "/type").is_empty() {
        object["type"] = json!("Opaque");
    }
}
