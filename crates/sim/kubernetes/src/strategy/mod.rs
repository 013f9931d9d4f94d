//! Defaults and validation of each resource.

mod budget;
mod node;
pub(crate) mod pod;
mod workload;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::custom::{Definitions, definition};
use crate::error::{ApiError, FieldError, Result};
use crate::resource::{ObjectKind, Resource, Subresource};
use crate::{meta, names};

/// Prepares a new object: removes fields that clients may not set, and adds defaults.
pub(crate) fn prepare(resource: &Resource, object: &mut Value, now: Timestamp) {
    match resource.object_kind {
        ObjectKind::Pod => pod::prepare(object, now),
        ObjectKind::Node => node::prepare(object),
        ObjectKind::Namespace => {
            let name = meta::name(object).to_owned();
            let metadata = meta::metadata(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = json!(name);
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        ObjectKind::Secret => secret(object),
        ObjectKind::Budget => budget::prepare(object),
        ObjectKind::DaemonSet | ObjectKind::ReplicaSet => workload::prepare(resource, object),
        ObjectKind::Service => service(object),
        // Only the attacher reports whether the volume is attached.
        ObjectKind::VolumeAttachment => object["status"] = json!({"attached": false}),
        ObjectKind::Lease => drop(meta::child(object, "spec")),
        ObjectKind::Definition => definition::prepare(object, now),
        ObjectKind::Custom(_) if has_status(resource) => {
            drop(object.as_object_mut().and_then(|new| new.remove("status")));
        }
        ObjectKind::Event | ObjectKind::NewEvent => event(object),
        ObjectKind::ConfigMap | ObjectKind::Custom(_) => {}
    }
}

/// Validates a new object.
pub(crate) fn check_new(definitions: &Definitions, resource: &Resource, object: &Value) -> Result<()> {
    let mut causes = names::check(resource, object);
    causes.extend(check(resource, object));
    if let Some(definition) = definitions.of(resource) {
        causes.extend(definition.check(object, None));
    }
    reject_invalid(resource, object, &causes)
}

/// Prepares a change of an object, except its status.
pub(crate) fn prepare_change(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.object_kind == ObjectKind::Secret {
        secret(new);
    }
    if resource.object_kind == ObjectKind::Namespace {
        // Only the server can finalize a namespace.
        new["spec"] = old["spec"].clone();
    }
    if has_status(resource) {
        restore_field(old, new, "status");
    }
    if resource.object_kind == ObjectKind::Definition {
        definition::prepare_change(new);
    }
}

fn has_status(resource: &Resource) -> bool {
    resource.subresources.contains(&Subresource::Status)
}

/// Prepares a change of an object's status.
pub(crate) fn prepare_status(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.is_custom() {
        // Unlike a built-in kind, it also keeps its metadata.
        let status = new.get("status").cloned();
        *new = old.clone();
        restore_field(&status.map_or_else(|| json!({}), |status| json!({"status": status})), new, "status");
        return;
    }
    restore_field(old, new, "spec");
    if resource.object_kind == ObjectKind::Node {
        node::default_status(new);
    }
    let owners = old.pointer("/metadata/ownerReferences").cloned();
    match owners {
        Some(owners) => drop(meta::metadata(new).insert("ownerReferences".to_owned(), owners)),
        None => drop(meta::metadata(new).remove("ownerReferences")),
    }
}

/// Validates a change.
pub(crate) fn check_change(definitions: &Definitions, resource: &Resource, old: &Value, new: &Value) -> Result<()> {
    let mut causes = names::check(resource, new);
    causes.extend(check(resource, new));
    if let Some(definition) = definitions.of(resource) {
        causes.extend(definition.check(new, Some(old)));
    }
    if meta::is_terminating(old) {
        let before = meta::finalizers(old);
        let added: Vec<_> = meta::finalizers(new).into_iter().filter(|one| !before.contains(one)).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            causes.push(FieldError::forbidden("metadata.finalizers", &why));
        }
    }
    match resource.object_kind {
        ObjectKind::Pod => causes.extend(pod::check_change(old, new)),
        ObjectKind::Node => causes.extend(node::check_change(old, new)),
        ObjectKind::Definition => causes.extend(definition::check_change(old, new)),
        ObjectKind::ConfigMap | ObjectKind::Secret if old.get("immutable") == Some(&json!(true)) => {
            for field in ["data", "binaryData", "stringData"] {
                if old.get(field) != new.get(field) {
                    causes.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
                }
            }
        }
        ObjectKind::Secret if old.get("type") != new.get("type") => {
            causes.push(FieldError::invalid("type", &new["type"], "field is immutable"));
        }
        ObjectKind::DaemonSet | ObjectKind::ReplicaSet
            if old.pointer("/spec/selector") != new.pointer("/spec/selector") =>
        {
            causes.push(FieldError::invalid("spec.selector", &new["spec"]["selector"], "field is immutable"));
        }
        ObjectKind::VolumeAttachment if old.get("spec") != new.get("spec") => {
            causes.push(FieldError::invalid("spec", &new["spec"], "field is immutable"));
        }
        _ => {}
    }
    reject_invalid(resource, new, &causes)
}

fn check(resource: &Resource, object: &Value) -> Vec<FieldError> {
    match resource.object_kind {
        ObjectKind::Pod => pod::check(object),
        ObjectKind::Node => node::check(object),
        ObjectKind::Budget => budget::check(object),
        ObjectKind::DaemonSet | ObjectKind::ReplicaSet => workload::check(object),
        ObjectKind::Event | ObjectKind::NewEvent => {
            let (event, about) = (meta::namespace(object), meta::text(object, "/involvedObject/namespace"));
            // Events about cluster-scoped objects are in `default`.
            if about == event || (about.is_empty() && event == "default") {
                Vec::new()
            } else {
                let why = "does not match event.namespace";
                vec![FieldError::invalid("involvedObject.namespace", &json!(about), why)]
            }
        }
        ObjectKind::VolumeAttachment => ["attacher", "nodeName"]
            .into_iter()
            .filter(|field| meta::text(object, &format!("/spec/{field}")).is_empty())
            .map(|field| FieldError::required(format!("spec.{field}"), ""))
            .collect(),
        ObjectKind::Service if object.pointer("/spec/ports").and_then(Value::as_array).is_none_or(Vec::is_empty) => {
            vec![FieldError::required("spec.ports".to_owned(), "")]
        }
        ObjectKind::Definition => definition::check(object),
        ObjectKind::Namespace
        | ObjectKind::ConfigMap
        | ObjectKind::Secret
        | ObjectKind::Lease
        | ObjectKind::Service
        | ObjectKind::Custom(_) => Vec::new(),
    }
}

/// The fields of an event that the API type always has.
fn event(object: &mut Value) {
    for (field, value) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        if object.get(field).is_none() {
            object[field] = value;
        }
    }
}

/// Sets the defaults of a Service. No cluster IP is allocated.
fn service(object: &mut Value) {
    object["status"] = json!({"loadBalancer": {}});
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter(|port| port.is_object()) {
        if meta::text(port, "/protocol").is_empty() {
            port["protocol"] = json!("TCP");
        }
        if port.get("targetPort").is_none() {
            port["targetPort"] = port["port"].clone();
        }
    }
    for (field, value) in [("type", "ClusterIP"), ("sessionAffinity", "None"), ("internalTrafficPolicy", "Cluster")] {
        if meta::text(object, &format!("/spec/{field}")).is_empty() {
            object["spec"][field] = json!(value);
        }
    }
}

fn reject_invalid(resource: &Resource, object: &Value, causes: &[FieldError]) -> Result<()> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(resource, meta::name(object), causes)) }
}

fn restore_field(old: &Value, new: &mut Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => drop(new.as_object_mut().and_then(|new| new.remove(field))),
    }
}

/// Moves the write-only `stringData` to `data`.
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
