//! Documents as they are read, written and hashed.

use kiln_node_config::spec::Spec;
use kiln_node_config::{Kind, Metadata, NodeConfig, ParseError, secrets, v1alpha1};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const EXAMPLE: &str = include_str!("example.json");

fn example() -> NodeConfig {
    NodeConfig::parse(EXAMPLE.as_bytes()).unwrap()
}

#[test]
fn a_document_has_one_text_whatever_the_order_of_its_fields() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    let metadata = value.as_object_mut().unwrap().remove("metadata").unwrap();
    value["metadata"] = metadata;
    let again = NodeConfig::parse(serde_json::to_string_pretty(&value).unwrap().as_bytes()).unwrap();
    assert_eq!((again.to_json(), again.hash()), (example().to_json(), example().hash()));
}

#[test]
fn the_signature_is_no_part_of_what_it_signs_and_the_number_no_part_of_what_the_node_is() {
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
fn fields_of_a_later_minor_version_are_kept_and_named() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    value["spec"]["os"]["color"] = "blue".into();
    value["spec"]["files"][0]["acl"] = "x".into();
    value["status"] = serde_json::json!({"x": 1});
    let config = NodeConfig::parse(value.to_string().as_bytes()).unwrap();
    assert_eq!(config.unknown_fields(), ["spec.files[0].acl", "spec.os.color", "status"]);
    assert_eq!(serde_json::from_str::<Value>(&config.to_json()).unwrap(), value);
}

#[test]
fn another_major_version_is_refused_by_name() {
    let text = EXAMPLE.replace("v1alpha1", "v2");
    let error = NodeConfig::parse(text.as_bytes()).unwrap_err();
    assert!(matches!(&error, ParseError::Unsupported(unsupported) if unsupported.api_version == "node.kiln.dev/v2"));
    assert!(error.to_string().contains("node.kiln.dev/v1alpha1"));
}

#[test]
fn a_wrong_form_is_named_by_line_column_and_path() {
    let text = EXAMPLE.replace("\"generation\": 7", "\"generation\": \"seven\"");
    let ParseError::Form { line, path, .. } = NodeConfig::parse(text.as_bytes()).unwrap_err() else { panic!("a form") };
    assert_eq!((line, path.as_str()), (4, "metadata.generation"));
    assert!(!NodeConfig::parse(text.as_bytes()).unwrap_err().to_string().contains("seven"));
    let text = EXAMPLE.replace("\"enabled\": true", "\"enabled\": \"yes\"");
    let ParseError::Form { path, .. } = NodeConfig::parse(text.as_bytes()).unwrap_err() else { panic!("a form") };
    assert_eq!(path, "spec.units[0].enabled");
}

/// Every place of the example that holds a text.
fn texts(value: &Value, pointer: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                texts(value, &format!("{pointer}/{}", name.replace('/', "~1")), out);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                texts(value, &format!("{pointer}/{index}"), out);
            }
        }
        Value::String(_) => out.push(pointer.to_owned()),
        _ => {}
    }
}

#[test]
fn a_secret_in_any_field_is_refused_and_never_shown() {
    let value: Value = serde_json::from_str(EXAMPLE).unwrap();
    let mut places = Vec::new();
    texts(&value, "", &mut places);
    places.retain(|place| !place.starts_with("/signature") && place != "/apiVersion" && place != "/kind");
    assert!(places.len() > 40);
    for place in places {
        let mut planted = value.clone();
        *planted.pointer_mut(&place).unwrap() = "x abcdef.0123456789abcdef y".into();
        let error = NodeConfig::parse(planted.to_string().as_bytes()).expect_err(&place);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("0123456789abcdef"), "{place}: {shown}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NodeConfig::parse(&bytes);
    }

    #[test]
    fn a_document_with_one_byte_changed_is_read_or_refused(at in 0_usize..EXAMPLE.len(), byte in any::<u8>()) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(config) = NodeConfig::parse(&bytes) {
            let again = NodeConfig::parse(config.to_json().as_bytes()).unwrap();
            prop_assert_eq!(again.to_json(), config.to_json());
        }
    }
}

/// A value of a form, with a secret in every text.
fn planted(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!("abcdef.0123456789abcdef"),
        Kind::Boolean => json!(true),
        Kind::Integer => json!(1),
        Kind::Choice(words) => json!(words[0]),
        Kind::Any => json!({"deep": ["abcdef.0123456789abcdef"], "password": "x"}),
        Kind::List(inner) => json!([planted(inner), planted(inner)]),
        Kind::Map(inner) => json!({"one": planted(inner), "accessKey": planted(inner)}),
        Kind::Object(shape) => {
            let fields = shape().fields;
            let mut object: Map<String, Value> =
                fields.iter().map(|field| (field.name.clone(), planted(&field.kind))).collect();
            object.insert("later".to_owned(), json!({"token": "x", "list": ["abcdef.0123456789abcdef"]}));
            object.into()
        }
    }
}

#[test]
fn a_secret_is_found_in_every_text_that_a_document_has_a_place_for() {
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": planted(&Kind::Object(Metadata::shape)),
        "spec": planted(&Kind::Object(Spec::shape)),
        "later": "abcdef.0123456789abcdef",
    });
    let mut everywhere = secrets::find(&document);
    everywhere.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(everywhere.len() > 150, "{}", everywhere.len());
    let config = NodeConfig::from(serde_json::from_value::<v1alpha1::NodeConfig>(document.clone()).unwrap());
    assert_eq!(config.secrets(), everywhere);
    let error = NodeConfig::parse(document.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("spec.files[1].content") && !error.contains("0123456789abcdef"), "{error}");
}
