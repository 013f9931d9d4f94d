//! Values with the merge behaviour that their schema declares: which lists are maps or sets, and which values are atomic.

use serde_json::{Map, Value, json};

use super::field_set::{Element, FieldSet, Path};
use crate::custom::{field_schema, list_key};

/// The schema of metadata. Like the API types, it makes finalizers a set and owner references a map.
pub(super) fn with_metadata(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["properties"]["metadata"] = json!({
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "labels": {"additionalProperties": {}}, "annotations": {"additionalProperties": {}},
            "finalizers": {"x-kubernetes-list-type": "set"},
            "ownerReferences": {
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                "items": {"x-kubernetes-map-type": "atomic"},
            },
        },
    });
    schema
}

const NO_SCHEMA: &Value = &Value::Null;

/// The parts of a value that have an owner of their own; `None` for a scalar or an atomic value.
fn parts<'v>(schema: &'v Value, value: &'v Value) -> Option<Vec<(Element, &'v Value, &'v Value)>> {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    match value {
        Value::Object(fields) if text("x-kubernetes-map-type") != "atomic" => {
            let part = |(field, value): (&String, &'v Value)| {
                (Element::Field(field.clone()), field_schema(schema, field).unwrap_or(NO_SCHEMA), value)
            };
            Some(fields.iter().map(part).collect())
        }
        Value::Array(items) if matches!(text("x-kubernetes-list-type"), "map" | "set") => {
            let inner = schema.get("items").unwrap_or(NO_SCHEMA);
            let is_map = text("x-kubernetes-list-type") == "map";
            let part = |item: &'v Value| {
                let element = if is_map {
                    Element::Key(list_key(schema, item).to_string())
                } else {
                    Element::Value(item.to_string())
                };
                (element, inner, item)
            };
            Some(items.iter().map(part).collect())
        }
        _ => None,
    }
}

/// The fields that an applied configuration sets.
pub(super) fn fields_of(schema: &Value, value: &Value, path: &mut Path, into: &mut FieldSet) {
    let Some(parts) = parts(schema, value) else {
        into.0.insert(path.clone());
        return;
    };
    let is_list = value.is_array();
    for (element, inner, part) in parts {
        let is_declared = matches!(&element, Element::Field(name)
            if schema.get("properties").is_some_and(|properties| properties.get(name).is_some()));
        path.push(element);
        fields_of(inner, part, path, into);
        let is_empty = part.is_null() || part.as_object().is_some_and(Map::is_empty);
        if is_list || is_empty || !is_declared {
            into.0.insert(path.clone());
        }
        path.pop();
    }
}

/// The difference between two values.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Added and modified fields.
    pub(super) set: FieldSet,
    pub(super) removed: FieldSet,
}

pub(super) fn compare(
    schema: &Value,
    (old, new): (Option<&Value>, Option<&Value>),
    path: &mut Path,
    into: &mut Difference,
) {
    let split = |value: Option<&'_ Value>| value.is_some_and(|value| parts(schema, value).is_some());
    match (old, new) {
        (None, Some(_)) => drop(into.set.0.insert(path.clone())),
        (Some(_), None) => drop(into.removed.0.insert(path.clone())),
        (Some(one), Some(other)) if one != other && !(split(old) && split(new)) => {
            into.set.0.insert(path.clone());
        }
        _ => {}
    }
    let old_parts = old.and_then(|old| parts(schema, old)).unwrap_or_default();
    let new_parts = new.and_then(|new| parts(schema, new)).unwrap_or_default();
    for (element, inner, part) in &new_parts {
        let before = old_parts.iter().find(|(other, ..)| other == element).map(|(_, _, before)| *before);
        path.push(element.clone());
        compare(inner, (before, Some(part)), path, into);
        path.pop();
    }
    for (element, inner, part) in &old_parts {
        if !new_parts.iter().any(|(other, ..)| other == element) {
            path.push(element.clone());
            compare(inner, (Some(part), None), path, into);
            path.pop();
        }
    }
}

/// Merges an applied configuration into an object.
pub(super) fn merge(schema: &Value, live: &mut Value, config: &Value) {
    if parts(schema, live).is_none() || live.is_object() != config.is_object() {
        *live = config.clone();
        return;
    }
    let Some(parts) = parts(schema, config) else {
        *live = config.clone();
        return;
    };
    for (element, inner, part) in parts {
        match child(schema, live, &element) {
            Some(own) => merge(inner, own, part),
            None => match (&mut *live, element) {
                (Value::Object(fields), Element::Field(name)) => drop(fields.insert(name, part.clone())),
                (Value::Array(items), _) => items.push(part.clone()),
                _ => {}
            },
        }
    }
}

/// The index of a list element.
fn position(schema: &Value, items: &[Value], element: &Element) -> Option<usize> {
    items.iter().position(|item| match element {
        Element::Key(key) => serde_json::from_str::<Value>(key).is_ok_and(|key| list_key(schema, item) == key),
        Element::Value(value) => serde_json::from_str::<Value>(value).is_ok_and(|value| *item == value),
        Element::Field(_) => false,
    })
}

fn child<'v>(schema: &Value, value: &'v mut Value, element: &Element) -> Option<&'v mut Value> {
    match (value, element) {
        (Value::Object(fields), Element::Field(name)) => fields.get_mut(name),
        (Value::Array(items), element) => {
            let index = position(schema, items, element)?;
            items.get_mut(index)
        }
        _ => None,
    }
}

/// Removes the value at a path, and a parent that becomes empty by it.
pub(super) fn remove(schema: &Value, value: &mut Value, path: &[Element]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let inner = match first {
        Element::Field(name) => field_schema(schema, name),
        Element::Key(_) | Element::Value(_) => schema.get("items"),
    };
    if !rest.is_empty() {
        let Some(own) = child(schema, value, first) else {
            return;
        };
        remove(inner.unwrap_or(NO_SCHEMA), own, rest);
        let is_empty = match own {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if !is_empty {
            return;
        }
    }
    match (value, first) {
        (Value::Object(fields), Element::Field(name)) => drop(fields.remove(name)),
        (Value::Array(items), element) => {
            if let Some(index) = position(schema, items, element) {
                items.remove(index);
            }
        }
        _ => {}
    }
}
