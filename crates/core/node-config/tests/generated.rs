//! Checks that the committed schema and reference page are up to date. `KILN_BLESS=1` rewrites them.

use std::fs;
use std::path::PathBuf;

use kiln_node_config::{Effect, NodeConfig, reference, schema};

fn assert_committed(path: &str, generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, generated, "{} is out of date: run the test with KILN_BLESS=1", path.display());
}

#[test]
fn schema_is_up_to_date() {
    let generated = serde_json::to_string_pretty(&schema::node_config()).unwrap() + "\n";
    assert_committed("schema/node-config.v1alpha1.json", &generated);
}

#[test]
fn reference_page_is_up_to_date() {
    assert_committed("../../../docs/reference/node-config.md", &reference::page());
}

#[test]
fn every_field_has_an_effect_and_a_description() {
    let rows = reference::rows();
    assert!(rows.len() >= 100, "{}", rows.len());
    assert!(rows.iter().all(|row| !row.doc.is_empty()));
    for effect in Effect::ALL {
        assert!(rows.iter().any(|row| row.effect == effect), "{effect}");
    }
}

const EXAMPLE: &str = include_str!("example.json");

#[test]
fn example_is_valid_by_code_and_schema() {
    let config = NodeConfig::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(config.unknown_fields(), Vec::<String>::new());
    let validator = jsonschema::validator_for(&schema::node_config()).unwrap();
    let written: serde_json::Value = serde_json::from_str(&config.to_json()).unwrap();
    let given: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
    assert!(validator.is_valid(&given) && validator.is_valid(&written));
    assert_eq!(written, given, "the document survives a round trip");
    for (pointer, wrong) in
        [("/spec/cluster/endpoint", "7"), ("/spec/kubelet/taints/0/effect", "\"Sometimes\""), ("/kind", "\"Pod\"")]
    {
        let mut bad = given.clone();
        *bad.pointer_mut(pointer).unwrap() = serde_json::from_str(wrong).unwrap();
        assert!(!validator.is_valid(&bad), "{pointer}");
        assert!(NodeConfig::parse(bad.to_string().as_bytes()).is_err(), "{pointer}");
    }
}

/// Each row of the page about AKS's provisioning names who does the step, and only fields that exist.
#[test]
fn fields_in_the_agentbaker_page_exist() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/agentbaker.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let fields: Vec<String> = reference::rows().into_iter().map(|row| row.path).collect();
    let words = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("spec."));
    // A field is a row itself or contains rows.
    let exists = |word: &str| fields.iter().any(|field| field == word || field.starts_with(&format!("{word}.")));
    let unknown: Vec<&str> = words.filter(|word| !exists(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| step |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 60, "{}", rows.len());
    for row in rows {
        assert!(row.len() == 3 && ["kilnd", "image", "not planned"].contains(&row[1]) && !row[2].is_empty(), "{row:?}");
    }
}
