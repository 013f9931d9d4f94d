//! Tests of `kiln bootstrap drift` and `diff`.

use crate::fixture::{Folder, SOURCES, TOKEN, golden};

/// The example with changed values; the original is in `then`.
fn changed() -> Folder {
    let folder = Folder::new();
    for file in crate::fixture::FILES {
        let text = folder.read(file);
        folder.write(&format!("then/{file}"), &text);
    }
    folder
        .with_sources(&["render", "--to", "record", "--out", "node.record"])
        .success()
        .stdout
        .is_empty()
        .then_some(())
        .unwrap();
    folder.replace("settings.yaml", "kubernetesVersion: \"1.33.7\"", "kubernetesVersion: \"1.34.2\"");
    folder.replace("settings.yaml", TOKEN, "fedcba.fedcba9876543210");
    folder.replace("settings.yaml", "owner: platform", "owner: infra");
    folder.replace("node-class.yaml", "maxPods: 60", "maxPods: 110");
    folder.replace("node-pool.yaml", "Standard_D4s_v5", "Standard_D8s_v5");
    for file in crate::fixture::FILES {
        let text = folder.read(file);
        folder.write(&format!("now/{file}"), &text);
    }
    folder
}

#[test]
fn drift_reports_each_input_with_its_source_and_dependents() {
    let folder = changed();
    let finished = folder.with_sources(&["drift", "--record", "node.record"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    assert_eq!(finished.stderr, "error: drift found: the node needs a new node\n");
    golden("drift.txt", &finished.stdout);
    let json = folder.with_sources(&["drift", "--record", "node.record", "--output", "json"]);
    golden("drift.json", &json.stdout);
}

#[test]
fn rotated_token_and_moved_line_are_not_drift() {
    let folder = changed();
    for (file, _) in [("settings.yaml", 0), ("node-pool.yaml", 0), ("node-class.yaml", 0)] {
        folder.write(file, &folder.read(&format!("then/{file}")));
    }
    folder.replace("settings.yaml", TOKEN, "fedcba.fedcba9876543210");
    folder.replace("settings.yaml", "# Settings", "# Moved down by a line.\n# Settings");
    let finished = folder.with_sources(&["drift", "--record", "node.record"]).success();
    assert_eq!(finished.stdout, "no drift\n");
}

#[test]
fn changes_by_a_different_kiln_version_are_drift() {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "--out", "r"]).code, Some(0));
    let mut record: serde_json::Value = serde_json::from_str(&folder.read("r")).unwrap();
    (record["version"], record["hash"]) = ("0.0.9".into(), "old-hash".into());
    record["variables"]["KubeletFlags"] = "--old-flag".into();
    folder.write("r", &record.to_string());
    let finished = folder.with_sources(&["drift", "--record", "r", "--output", "json"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    let json = finished.json();
    let changes = json["changes"].as_array().unwrap();
    assert_eq!(
        (changes.len(), &changes[0]["input"], &changes[0]["position"]),
        (1, &"kiln".into(), &"kiln".into()),
        "{json}"
    );
    assert_eq!((&changes[0]["from"], &changes[0]["to"]), (&"0.0.9".into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(
        (&changes[0]["computed"], json["drifted"].as_bool()),
        (&serde_json::json!(["KubeletFlags"]), Some(true))
    );
    let text = folder.with_sources(&["drift", "--record", "r"]);
    assert!(text.code == Some(5) && text.stdout.contains("kiln   0.0.9  "), "{text}");
}

#[test]
fn unset_security_group_is_drift() {
    let folder = Folder::new();
    let set = ["render", "--to", "record", "--out", "r", "--set", "securityGroup=mine"];
    assert_eq!(folder.with_sources(&set).code, Some(0));
    let finished = folder.with_sources(&["drift", "--record", "r", "--output", "json"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    let changes = &finished.json()["changes"];
    assert_eq!((changes.as_array().unwrap().len(), &changes[0]["input"]), (1, &"securityGroup".into()), "{changes}");
    assert_eq!((&changes[0]["from"], &changes[0]["source"]), (&"mine".into(), &"computed".into()), "{changes}");
    assert_eq!(changes[0]["computed"], serde_json::json!(["NetworkSecurityGroup"]));
}

#[test]
fn restart_effect_needs_only_a_new_node_config() {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "--out", "r"]).code, Some(0));
    let drift = |set: &str| {
        let finished = folder.with_sources(&["drift", "--record", "r", "--set", set, "--output", "json"]);
        assert_eq!(finished.code, Some(5), "{finished}");
        finished.json()
    };
    let pods = drift("maxPods=61");
    assert_eq!(
        (pods["needs"].as_str(), pods["changes"][0]["effect"].as_str()),
        (Some("new-node-config"), Some("restart"))
    );
    assert_eq!(pods["changes"][0]["computed"], serde_json::json!(["KubeletFlags"]));
    assert_eq!(drift("zone=eastus-1")["needs"], "new-node");
    assert_eq!(drift("additionalTags=a=b")["needs"], "nothing");
}

#[test]
fn folders_are_compared_field_by_field() {
    let folder = changed();
    let finished = folder.run(&["diff", "then", "now"]).success();
    golden("diff-inputs.txt", &finished.stdout);
    assert!(finished.stdout.contains("***") && !finished.stdout.contains("fedcba9876543210"), "{finished}");
    assert_eq!(folder.run(&["diff", "then", "then"]).success().stdout, "no differences\n");
    assert_eq!(folder.run(&["diff", "then", "now", "--exit-code"]).code, Some(1));
    assert_eq!(folder.run(&["diff", "then", "then", "--exit-code"]).code, Some(0));
}

/// Renders original and changed sources to a target.
fn both(folder: &Folder, to: &str) -> [String; 2] {
    ["then", "now"].map(|version| {
        let sources =
            SOURCES.map(|word| if word.starts_with("--") { word.to_owned() } else { format!("{version}/{word}") });
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let file = format!("{version}.{to}");
        let finished =
            folder.run(&[&["render", "--to", to, "--out", &file, "--output", "json"], &sources[..]].concat()).success();
        assert_eq!(finished.stdout, "");
        file
    })
}

#[test]
fn documents_are_compared_with_effects() {
    let folder = changed();
    let [then, now] = both(&folder, "node-config");
    golden("diff-node-config.txt", &folder.run(&["diff", &then, &now]).success().stdout);
    let [then, now] = both(&folder, "aks-node-config");
    let finished = folder.run(&["diff", &then, &now]).success();
    golden("diff-aks-node-config.txt", &finished.stdout);
    assert!(finished.stdout.contains("tls_bootstrapping_token"), "{finished}");
    let [then, now] = both(&folder, "record");
    let finished = folder.run(&["diff", &then, &now, "--output", "json"]).success();
    let paths: Vec<_> = finished.json().as_array().expect("a list").iter().map(|one| one["path"].to_string()).collect();
    assert!(paths.contains(&"\"maxPods\"".to_owned()) && paths.contains(&"\"KubeletFlags\"".to_owned()), "{paths:?}");
}

#[test]
fn documents_of_different_kinds_are_compared_in_a_common_format() {
    let folder = changed();
    let [_, now] = both(&folder, "env");
    let count = |a: &str, b: &str| {
        folder.run(&["diff", a, b, "--output", "json"]).success().json().as_array().map_or(0, Vec::len)
    };
    assert_eq!(count("now", &now), 0, "inputs against their environment");
    assert!(count("then", &now) > 3);
    let script = folder.with_sources(&["render", "--to", "nbv-script", "--out", "script"]).success();
    assert_eq!(script.stdout, "");
    assert_eq!(count("script", &now), 0, "a script against the environment");
    let data = folder.with_sources(&["render", "--to", "custom-data", "--out", "data"]).success();
    assert_eq!(data.stdout, "");
    assert_eq!(count("data", "script"), 0, "custom data against a script");
    let [_, config] = both(&folder, "node-config");
    assert_eq!(count("now", &config), 0, "inputs against their NodeConfig");
    let apart = folder.run(&["diff", &config, &now]);
    assert!(apart.code == Some(2) && apart.stderr.contains("no common format"), "{apart}");
}
