//! Parsing, serialization and hashing of documents.

use kiln_node_config::spec::Spec;
use kiln_node_config::{FieldType, Metadata, NodeConfig, ParseError, secrets, v1alpha1};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const EXAMPLE: &str = include_str!("example.json");

fn example() -> NodeConfig {
    NodeConfig::parse(EXAMPLE.as_bytes()).unwrap()
}

#[test]
fn field_order_does_not_change_the_canonical_text() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    let metadata = value.as_object_mut().unwrap().remove("metadata").unwrap();
    value["metadata"] = metadata;
    let again = NodeConfig::parse(serde_json::to_string_pretty(&value).unwrap().as_bytes()).unwrap();
    assert_eq!((again.to_json(), again.hash()), (example().to_json(), example().hash()));
}

#[test]
fn hash_excludes_the_signature_and_spec_hash_excludes_metadata() {
    let mut other = example();
    other.signature = None;
    assert_eq!((other.hash(), other.signed_bytes()), (example().hash(), example().signed_bytes()));
    other.metadata.generation += 1;
    assert_ne!(other.hash(), example().hash());
    assert_eq!(other.spec_hash(), example().spec_hash());
    other.spec.kubelet.version = "1.33.8".to_owned();
    assert_ne!(other.spec_hash(), example().spec_hash());
}

#[test]
fn unknown_fields_are_preserved_and_listed() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    value["spec"]["os"]["color"] = "blue".into();
    value["spec"]["files"][0]["acl"] = "x".into();
    value["status"] = serde_json::json!({"x": 1});
    let config = NodeConfig::parse(value.to_string().as_bytes()).unwrap();
    assert_eq!(config.unknown_fields(), ["spec.files[0].acl", "spec.os.color", "status"]);
    assert_eq!(serde_json::from_str::<Value>(&config.to_json()).unwrap(), value);
}

#[test]
fn unsupported_version_is_rejected() {
    let text = EXAMPLE.replace("v1alpha1", "v2");
    let error = NodeConfig::parse(text.as_bytes()).unwrap_err();
    assert!(matches!(&error, ParseError::Unsupported(unsupported) if unsupported.api_version == "node.kiln.dev/v2"));
    assert!(error.to_string().contains("node.kiln.dev/v1alpha1"));
}

#[test]
fn wrong_type_is_reported_with_position_and_path() {
    let text = EXAMPLE.replace("\"generation\": 7", "\"generation\": \"seven\"");
    let ParseError::Json { line, path, .. } = NodeConfig::parse(text.as_bytes()).unwrap_err() else {
        panic!("expected a JSON error")
    };
    assert_eq!((line, path.as_str()), (4, "metadata.generation"));
    assert!(!NodeConfig::parse(text.as_bytes()).unwrap_err().to_string().contains("seven"));
    let text = EXAMPLE.replace("\"enabled\": true", "\"enabled\": \"yes\"");
    let ParseError::Json { path, .. } = NodeConfig::parse(text.as_bytes()).unwrap_err() else {
        panic!("expected a JSON error")
    };
    assert_eq!(path, "spec.units[0].enabled");
}

/// Collects the JSON pointers of all strings.
fn collect_strings(value: &Value, pointer: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                collect_strings(value, &format!("{pointer}/{}", name.replace('/', "~1")), out);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect_strings(value, &format!("{pointer}/{index}"), out);
            }
        }
        Value::String(_) => out.push(pointer.to_owned()),
        _ => {}
    }
}

#[test]
fn secret_in_any_field_is_rejected_and_never_shown() {
    let value: Value = serde_json::from_str(EXAMPLE).unwrap();
    let mut pointers = Vec::new();
    collect_strings(&value, "", &mut pointers);
    pointers.retain(|pointer| !pointer.starts_with("/signature") && pointer != "/apiVersion" && pointer != "/kind");
    assert!(pointers.len() > 40);
    for pointer in pointers {
        let mut planted = value.clone();
        *planted.pointer_mut(&pointer).unwrap() = "x abcdef.0123456789abcdef y".into();
        let error = NodeConfig::parse(planted.to_string().as_bytes()).expect_err(&pointer);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("0123456789abcdef"), "{pointer}: {shown}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NodeConfig::parse(&bytes);
    }

    #[test]
    fn document_with_a_changed_byte_is_rejected_or_survives_a_round_trip(at in 0_usize..EXAMPLE.len(), byte in any::<u8>()) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(config) = NodeConfig::parse(&bytes) {
            let again = NodeConfig::parse(config.to_json().as_bytes()).unwrap();
            prop_assert_eq!(again.to_json(), config.to_json());
        }
    }
}

/// A value of a type, with a secret in every string.
fn planted(kind: &FieldType) -> Value {
    match kind {
        FieldType::Text => json!("abcdef.0123456789abcdef"),
        FieldType::Boolean => json!(true),
        FieldType::Integer => json!(1),
        FieldType::Choice(names) => json!(names[0]),
        FieldType::Any => json!({"deep": ["abcdef.0123456789abcdef"], "password": "x"}),
        FieldType::List(inner) => json!([planted(inner), planted(inner)]),
        FieldType::Map(inner) => json!({"one": planted(inner), "accessKey": planted(inner)}),
        FieldType::Object(shape) => {
            let fields = shape().fields;
            let mut object: Map<String, Value> =
                fields.iter().map(|field| (field.name.clone(), planted(&field.kind))).collect();
            object.insert("later".to_owned(), json!({"token": "x", "list": ["abcdef.0123456789abcdef"]}));
            object.into()
        }
    }
}

#[test]
fn secrets_are_found_in_every_string_field() {
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": planted(&FieldType::Object(Metadata::shape)),
        "spec": planted(&FieldType::Object(Spec::shape)),
        "later": "abcdef.0123456789abcdef",
    });
    let mut everywhere = secrets::find(&document);
    everywhere.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(everywhere.len() > 150, "{}", everywhere.len());
    let config = NodeConfig::from(serde_json::from_value::<v1alpha1::NodeConfig>(document.clone()).unwrap());
    assert_eq!(config.suspected_secrets(), everywhere);
    let error = NodeConfig::parse(document.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("spec.files[1].content") && !error.contains("0123456789abcdef"), "{error}");
}
