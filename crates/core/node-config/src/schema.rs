//! JSON Schema of the newest version, generated from the field declarations.

use serde_json::{Map, Value, json};

use crate::describe::{FieldType, Shape};
use crate::node_config::Metadata;
use crate::spec::Spec;
use crate::v1alpha1::{API_VERSION, KIND};

/// Returns the schema. Each field has `x-kiln-effect`. Unknown fields are allowed, because they are preserved.
pub fn node_config() -> Value {
    let mut definitions = Map::new();
    let metadata = object(&Metadata::shape(), &mut definitions);
    let spec = object(&Spec::shape(), &mut definitions);
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://node.kiln.dev/schemas/v1alpha1/node-config.json",
        "title": KIND,
        "type": "object",
        "required": ["apiVersion", "kind", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": metadata,
            "spec": spec,
            "signature": {
                "type": "object",
                "required": ["keyId", "algorithm", "value"],
                "properties": {
                    "keyId": text, "algorithm": text, "pool": text, "cluster": text, "issued": time, "expires": time, "value": text,
                },
            },
        },
        "$defs": definitions,
    })
}

fn object(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    let reference = json!({"$ref": format!("#/$defs/{}", shape.name)});
    if definitions.contains_key(shape.name) {
        return reference;
    }
    definitions.insert(shape.name.to_owned(), Value::Null);
    let mut properties = Map::new();
    for field in &shape.fields {
        let mut schema = type_schema(&field.kind, definitions);
        schema["description"] = field.doc.as_str().into();
        if let Some(effect) = field.effect {
            schema["x-kiln-effect"] = effect.as_str().into();
        }
        properties.insert(field.name.clone(), schema);
    }
    let schema = json!({"type": "object", "description": shape.doc, "properties": properties});
    definitions.insert(shape.name.to_owned(), schema);
    reference
}

fn type_schema(kind: &FieldType, definitions: &mut Map<String, Value>) -> Value {
    match kind {
        FieldType::Text => json!({"type": "string"}),
        FieldType::Boolean => json!({"type": "boolean"}),
        FieldType::Integer => json!({"type": "integer", "minimum": 0}),
        FieldType::Choice(names) => json!({"enum": names}),
        FieldType::Any => json!({}),
        FieldType::List(inner) => json!({"type": "array", "items": type_schema(inner, definitions)}),
        FieldType::Map(inner) => json!({"type": "object", "additionalProperties": type_schema(inner, definitions)}),
        FieldType::Object(shape) => object(&shape(), definitions),
    }
}
