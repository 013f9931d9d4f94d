//! Tests of `kiln bootstrap explain`.

use serde_json::Value;

use crate::fixture::{Folder, golden};

#[test]
fn explain_lists_every_field_with_its_provenance() {
    let folder = Folder::new();
    golden("explain.txt", &folder.with_sources(&["explain"]).success().stdout);
    let lines = folder.with_sources(&["explain", "--output", "json"]).success().json();
    let lines = lines.as_array().expect("lines");
    assert_eq!(lines.len(), kiln_bootstrap::Field::all().len());
    for line in lines {
        for key in ["field", "value", "kind", "position", "overrode", "effect"] {
            assert!(line.get(key).is_some(), "{line} has {key}");
        }
    }
}

#[test]
fn field_is_found_by_name_and_by_environment_variable() {
    let folder = Folder::new();
    golden("explain-subnet.txt", &folder.with_sources(&["explain", "vnetSubnetId"]).success().stdout);
    let by_env = folder.with_sources(&["explain", "SUBNET", "--output", "json"]).success().json();
    assert_eq!((by_env["field"].as_str(), by_env["value"].as_str()), (Some("Subnet"), Some("checkout")));
    let wrong = folder.with_sources(&["explain", "maxpods"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("did you mean `maxPods`?"), "{wrong}");
}

#[test]
fn explicit_value_overrides_detected_value_and_both_are_shown() {
    let folder = Folder::new();
    let version = folder.with_sources(&["explain", "kubernetesVersion", "--output", "json"]).success().json();
    assert_eq!((version["value"].as_str(), version["kind"].as_str()), (Some("1.33.7"), Some("settings")));
    assert_eq!(version["overrode"][0]["kind"], "detected");
    assert_eq!(version["overrode"][0]["position"], "node-class.yaml:16 status.kubernetesVersion");
    folder.replace("settings.yaml", "kubernetesVersion: \"1.33.7\"\n", "");
    let version = folder.with_sources(&["explain", "kubernetesVersion", "--output", "json"]).success().json();
    assert_eq!((version["value"].as_str(), version["kind"].as_str()), (Some("1.33.6"), Some("detected")));
}

#[test]
fn position_of_an_environment_variable_is_its_name() {
    let folder = Folder::new();
    let line =
        folder.run_with(&[("ARM_TENANT_ID", "t")], &["explain", "tenantId", "--output", "json"]).success().json();
    assert_eq!((line["value"].as_str(), line["position"].as_str()), (Some("t"), Some("$ARM_TENANT_ID")));
}

#[test]
fn computed_fields_are_null_while_an_input_is_missing() {
    let folder = Folder::new();
    let line = folder.run(&["explain", "KubeletFlags", "--set", "location=x"]).success();
    assert!(line.stdout.contains("not computed     required fields are not set: `tenantId`"), "{line}");
    let all = folder.run(&["explain", "--output", "json", "--set", "location=x"]).success().json();
    let nulls = all.as_array().expect("lines").iter().filter(|line| line["value"] == Value::Null).count();
    assert!(nulls > 10, "{nulls}");
}

#[test]
fn chosen_shows_only_explicitly_set_fields() {
    let folder = Folder::new();
    let lines = folder.run(&["explain", "--chosen", "--output", "json", "--set", "location=x"]).success().json();
    assert_eq!(lines.as_array().map(Vec::len), Some(1));
    assert_eq!(lines[0]["position"], "--set location");
}
