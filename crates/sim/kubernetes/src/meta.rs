//! Accessors of object metadata.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The text at a JSON pointer; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// The grace period of a terminating object.
pub(crate) fn deletion_grace(object: &Value) -> Option<i64> {
    object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "/metadata/finalizers").iter().filter_map(Value::as_str).collect()
}

/// The array at a JSON pointer; empty if it is missing.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value of a label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str)
}

/// The metadata, created if it is missing.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    child(object, "metadata")
}

/// A field that is an object, created if it is missing.
pub(crate) fn child<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let map = object.as_object_mut().expect("it is an object");
    let value = map.entry(field).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is an object")
}

pub(crate) fn set_resource_version(object: &mut Value, revision: u64) {
    metadata(object).insert("resourceVersion".to_owned(), json!(revision.to_string()));
}

/// The format of Kubernetes timestamps: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The owner reference of the controller.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// The condition of this type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition `Ready` of a pod or node is true.
pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|condition| condition["status"] == "True")
}
