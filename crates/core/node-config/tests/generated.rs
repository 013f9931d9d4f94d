//! The committed schema and page are those that the code makes. `KILN_BLESS=1` writes them.

use std::fs;
use std::path::PathBuf;

use kiln_node_config::{Effect, NodeConfig, reference, schema};

fn committed(path: &str, made: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let have = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(have, made, "{} is out of date: run the test with KILN_BLESS=1", path.display());
}

#[test]
fn the_committed_schema_is_the_one_that_the_fields_make() {
    let made = serde_json::to_string_pretty(&schema::node_config()).unwrap() + "\n";
    committed("schema/node-config.v1alpha1.json", &made);
}

#[test]
fn the_committed_page_lists_every_field() {
    committed("../../../docs/reference/node-config.md", &reference::page());
}

#[test]
fn every_field_has_an_effect_and_a_meaning() {
    let rows = reference::rows();
    assert!(rows.len() >= 100, "{}", rows.len());
    assert!(rows.iter().all(|row| !row.doc.is_empty()));
    for effect in Effect::ALL {
        assert!(rows.iter().any(|row| row.effect == effect), "{effect}");
    }
}

const EXAMPLE: &str = include_str!("example.json");

#[test]
fn the_example_is_read_and_the_schema_agrees() {
    let config = NodeConfig::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(config.unknown_fields(), Vec::<String>::new());
    let validator = jsonschema::validator_for(&schema::node_config()).unwrap();
    let written: serde_json::Value = serde_json::from_str(&config.to_json()).unwrap();
    let given: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
    assert!(validator.is_valid(&given) && validator.is_valid(&written));
    assert_eq!(written, given, "what was read is what is written");
    for (pointer, wrong) in
        [("/spec/cluster/endpoint", "7"), ("/spec/kubelet/taints/0/effect", "\"Sometimes\""), ("/kind", "\"Pod\"")]
    {
        let mut bad = given.clone();
        *bad.pointer_mut(pointer).unwrap() = serde_json::from_str(wrong).unwrap();
        assert!(!validator.is_valid(&bad), "{pointer}");
        assert!(NodeConfig::parse(bad.to_string().as_bytes()).is_err(), "{pointer}");
    }
}
