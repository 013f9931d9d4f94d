//! Pruning and defaulting by a structural schema.

use serde_json::{Map, Value};

/// Fields that every object, and every embedded object, has.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// The schema of a field: the declared one, else that of additional properties. `None` if the schema has no such field.
pub(crate) fn field_schema<'s>(schema: &'s Value, field: &str) -> Option<&'s Value> {
    let declared = schema.get("properties").and_then(|properties| properties.get(field));
    declared.or_else(|| schema.get("additionalProperties").filter(|additional| **additional != Value::Bool(false)))
}

/// Removes fields that the schema does not have, and collects their paths.
pub(super) fn prune(schema: &Value, object: &mut Value, unknown: &mut Vec<String>) {
    let Value::Object(fields) = object else {
        return;
    };
    prune_fields(schema, fields, "", true, unknown);
}

fn prune_fields(
    schema: &Value,
    fields: &mut Map<String, Value>,
    path: &str,
    is_object: bool,
    unknown: &mut Vec<String>,
) {
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    fields.retain(|field, value| {
        if is_object && OBJECT_FIELDS.contains(&field.as_str()) {
            return true;
        }
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        match field_schema(schema, field) {
            Some(schema) => prune_value(schema, value, &path, unknown),
            None if preserve => {}
            None => {
                unknown.push(path);
                return false;
            }
        }
        true
    });
}

fn prune_value(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) if schema.is_object() => {
            prune_fields(schema, fields, path, flag(schema, "x-kubernetes-embedded-resource"), unknown);
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_value(schema, item, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// Removes nulls from fields that are not nullable, so that the fields get their default.
pub(super) fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|field, value| {
            let Some(schema) = field_schema(schema, field) else {
                return true;
            };
            drop_nulls(schema, value);
            !value.is_null() || !schema.is_object() || flag(schema, "nullable")
        }),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    drop_nulls(schema, item);
                }
            }
        }
        _ => {}
    }
}

/// Sets the defaults of missing fields, also inside of objects that are there.
pub(super) fn set_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = schema.get("properties") {
                for (field, schema) in properties {
                    if let Some(default) = schema.get("default").filter(|_| !fields.contains_key(field)) {
                        fields.insert(field.clone(), default.clone());
                    }
                }
            }
            for (field, value) in fields {
                if let Some(schema) = field_schema(schema, field) {
                    set_defaults(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    set_defaults(schema, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_removed_unless_they_are_preserved() {
        let schema = json!({"properties": {
            "spec": {"properties": {"list": {"items": {"properties": {"a": {}}}}}},
            "free": {"x-kubernetes-preserve-unknown-fields": true, "properties": {"strict": {"properties": {}}}},
            "map": {"additionalProperties": {"properties": {"a": {}}}},
            "embedded": {"x-kubernetes-embedded-resource": true},
        }});
        let mut object = json!({
            "apiVersion": "v1", "metadata": {"name": "n"}, "other": 1,
            "spec": {"list": [{"a": 1, "b": 2}]}, "free": {"any": {"thing": 1}, "strict": {"x": 1}},
            "map": {"k": {"a": 1, "b": 2}}, "embedded": {"kind": "K", "x": 1},
        });
        let mut unknown = Vec::new();
        prune(&schema, &mut object, &mut unknown);
        unknown.sort();
        assert_eq!(unknown, ["embedded.x", "free.strict.x", "map.k.b", "other", "spec.list[0].b"]);
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {"list": [{"a": 1}]},
                "free": {"any": {"thing": 1}, "strict": {}}, "map": {"k": {"a": 1}}, "embedded": {"kind": "K"},
            })
        );
    }

    #[test]
    fn defaults_replace_missing_fields_and_nulls() {
        let schema = json!({"properties": {
            "a": {"default": 1}, "b": {"nullable": true, "default": 2}, "c": {},
            "inner": {"default": {}, "properties": {"x": {"default": "y"}}},
            "absent": {"properties": {"x": {"default": "y"}}},
            "list": {"items": {"properties": {"z": {"default": true}}}},
        }});
        let mut object = json!({"a": null, "b": null, "c": null, "list": [{}, {"z": false}]});
        drop_nulls(&schema, &mut object);
        set_defaults(&schema, &mut object);
        assert_eq!(object, json!({"a": 1, "b": null, "inner": {"x": "y"}, "list": [{"z": true}, {"z": false}]}));
    }
}
