//! Where a value comes from.

use serde_json::Value;

use crate::fixture::{Folder, golden};

#[test]
fn every_field_has_a_line_with_value_kind_place_and_what_it_overrode() {
    let folder = Folder::new();
    golden("explain.txt", &folder.with_sources(&["explain"]).success().stdout);
    let lines = folder.with_sources(&["explain", "--output", "json"]).success().json();
    let lines = lines.as_array().expect("lines");
    assert_eq!(lines.len(), kiln_bootstrap::Field::all().len());
    for line in lines {
        for key in ["field", "value", "kind", "place", "overrode", "effect"] {
            assert!(line.get(key).is_some(), "{line} has {key}");
        }
    }
}

#[test]
fn one_field_is_explained_by_either_of_its_names() {
    let folder = Folder::new();
    golden("explain-subnet.txt", &folder.with_sources(&["explain", "vnetSubnetId"]).success().stdout);
    let by_env = folder.with_sources(&["explain", "SUBNET", "--output", "json"]).success().json();
    assert_eq!((by_env["field"].as_str(), by_env["value"].as_str()), (Some("Subnet"), Some("checkout")));
    let wrong = folder.with_sources(&["explain", "maxpods"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("`maxPods` may be meant"), "{wrong}");
}

#[test]
fn explicit_beats_detected_and_the_loser_is_shown() {
    let folder = Folder::new();
    let version = folder.with_sources(&["explain", "kubernetesVersion", "--output", "json"]).success().json();
    assert_eq!((version["value"].as_str(), version["kind"].as_str()), (Some("1.33.7"), Some("settings")));
    assert_eq!(version["overrode"][0]["kind"], "detected");
    assert_eq!(version["overrode"][0]["place"], "node-class.yaml:16 status.kubernetesVersion");
    folder.replace("settings.yaml", "kubernetesVersion: \"1.33.7\"\n", "");
    let version = folder.with_sources(&["explain", "kubernetesVersion", "--output", "json"]).success().json();
    assert_eq!((version["value"].as_str(), version["kind"].as_str()), (Some("1.33.6"), Some("detected")));
}

#[test]
fn an_environment_variable_is_named_as_the_place() {
    let folder = Folder::new();
    let line =
        folder.run_with(&[("ARM_TENANT_ID", "t")], &["explain", "tenantId", "--output", "json"]).success().json();
    assert_eq!((line["value"].as_str(), line["place"].as_str()), (Some("t"), Some("$ARM_TENANT_ID")));
}

#[test]
fn while_something_is_missing_what_follows_is_unknown_and_says_why() {
    let folder = Folder::new();
    let line = folder.run(&["explain", "KubeletFlags", "--set", "location=x"]).success();
    assert!(line.stdout.contains("unknown    nobody set `tenantId`"), "{line}");
    let all = folder.run(&["explain", "--output", "json", "--set", "location=x"]).success().json();
    let nulls = all.as_array().expect("lines").iter().filter(|line| line["value"] == Value::Null).count();
    assert!(nulls > 10, "{nulls}");
}

#[test]
fn only_what_somebody_chose_is_shown_on_request() {
    let folder = Folder::new();
    let lines = folder.run(&["explain", "--chosen", "--output", "json", "--set", "location=x"]).success().json();
    assert_eq!(lines.as_array().map(Vec::len), Some(1));
    assert_eq!(lines[0]["place"], "--set location");
}
