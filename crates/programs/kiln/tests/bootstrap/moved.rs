//! What differs, and what moved since a node was made.

use crate::fixture::{Folder, SOURCES, TOKEN, golden};

/// The example, and the same a month later.
fn later() -> Folder {
    let folder = Folder::new();
    for file in crate::fixture::FILES {
        let text = folder.read(file);
        folder.write(&format!("then/{file}"), &text);
    }
    folder
        .with_sources(&["render", "--to", "record", "-o", "node.record"])
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
fn drift_names_each_input_with_source_place_and_what_follows() {
    let folder = later();
    let finished = folder.with_sources(&["drift", "--record", "node.record"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    assert_eq!(finished.stderr, "error: drift found: the node needs a new node\n");
    golden("drift.txt", &finished.stdout);
    let json = folder.with_sources(&["drift", "--record", "node.record", "--output", "json"]);
    golden("drift.json", &json.stdout);
}

#[test]
fn a_rotated_token_alone_is_no_drift_and_neither_is_another_place() {
    let folder = later();
    for (file, _) in [("settings.yaml", 0), ("node-pool.yaml", 0), ("node-class.yaml", 0)] {
        folder.write(file, &folder.read(&format!("then/{file}")));
    }
    folder.replace("settings.yaml", TOKEN, "fedcba.fedcba9876543210");
    folder.replace("settings.yaml", "# What holds", "# Moved down by a line.\n# What holds");
    let finished = folder.with_sources(&["drift", "--record", "node.record"]).success();
    assert_eq!(finished.stdout, "nothing moved\n");
}

#[test]
fn what_another_kiln_rendered_from_the_same_inputs_is_drift_of_its_own() {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "-o", "r"]).code, Some(0));
    let mut record: serde_json::Value = serde_json::from_str(&folder.read("r")).unwrap();
    (record["version"], record["hash"]) = ("0.0.9".into(), "of-before".into());
    record["variables"]["KubeletFlags"] = "--as-it-was".into();
    folder.write("r", &record.to_string());
    let finished = folder.with_sources(&["drift", "--record", "r", "--output", "json"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    let json = finished.json();
    let moved = json["moved"].as_array().unwrap();
    assert_eq!((moved.len(), &moved[0]["input"], &moved[0]["place"]), (1, &"kiln".into(), &"kiln".into()), "{json}");
    assert_eq!((&moved[0]["from"], &moved[0]["to"]), (&"0.0.9".into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!((&moved[0]["computed"], json["drifted"].as_bool()), (&serde_json::json!(["KubeletFlags"]), Some(true)));
    let text = folder.with_sources(&["drift", "--record", "r"]);
    assert!(text.code == Some(5) && text.stdout.contains("kiln   0.0.9  "), "{text}");
}

#[test]
fn a_security_group_that_is_taken_out_of_the_settings_is_drift() {
    let folder = Folder::new();
    let set = ["render", "--to", "record", "-o", "r", "--set", "securityGroup=mine"];
    assert_eq!(folder.with_sources(&set).code, Some(0));
    let finished = folder.with_sources(&["drift", "--record", "r", "--output", "json"]);
    assert_eq!(finished.code, Some(5), "{finished}");
    let moved = &finished.json()["moved"];
    assert_eq!((moved.as_array().unwrap().len(), &moved[0]["input"]), (1, &"securityGroup".into()), "{moved}");
    assert_eq!((&moved[0]["from"], &moved[0]["source"]), (&"mine".into(), &"computed".into()), "{moved}");
    assert_eq!(moved[0]["computed"], serde_json::json!(["NetworkSecurityGroup"]));
}

#[test]
fn what_only_costs_a_restart_needs_only_a_new_document() {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "-o", "r"]).code, Some(0));
    let drift = |set: &str| {
        let finished = folder.with_sources(&["drift", "--record", "r", "--set", set, "--output", "json"]);
        assert_eq!(finished.code, Some(5), "{finished}");
        finished.json()
    };
    let pods = drift("maxPods=61");
    assert_eq!(
        (pods["needs"].as_str(), pods["moved"][0]["effect"].as_str()),
        (Some("new-node-config"), Some("restart"))
    );
    assert_eq!(pods["moved"][0]["computed"], serde_json::json!(["KubeletFlags"]));
    assert_eq!(drift("zone=eastus-1")["needs"], "new-node");
    assert_eq!(drift("additionalTags=a=b")["needs"], "nothing");
}

#[test]
fn two_sets_of_inputs_are_compared_field_by_field() {
    let folder = later();
    let finished = folder.run(&["diff", "then", "now"]).success();
    golden("diff-inputs.txt", &finished.stdout);
    assert!(finished.stdout.contains("***") && !finished.stdout.contains("fedcba9876543210"), "{finished}");
    assert_eq!(folder.run(&["diff", "then", "then"]).success().stdout, "nothing differs\n");
    assert_eq!(folder.run(&["diff", "then", "now", "--exit-code"]).code, Some(1));
    assert_eq!(folder.run(&["diff", "then", "then", "--exit-code"]).code, Some(0));
}

/// Renders both months to a target.
fn both(folder: &Folder, to: &str) -> [String; 2] {
    ["then", "now"].map(|month| {
        let sources =
            SOURCES.map(|word| if word.starts_with("--") { word.to_owned() } else { format!("{month}/{word}") });
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let file = format!("{month}.{to}");
        let finished =
            folder.run(&[&["render", "--to", to, "-o", &file, "--output", "json"], &sources[..]].concat()).success();
        assert_eq!(finished.stdout, "");
        file
    })
}

#[test]
fn two_documents_are_compared_with_what_each_difference_costs() {
    let folder = later();
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
fn documents_of_different_sorts_meet_in_the_form_that_both_have() {
    let folder = later();
    let [_, now] = both(&folder, "env");
    let count = |a: &str, b: &str| {
        folder.run(&["diff", a, b, "--output", "json"]).success().json().as_array().map_or(0, Vec::len)
    };
    assert_eq!(count("now", &now), 0, "inputs against their environment");
    assert!(count("then", &now) > 3);
    let script = folder.with_sources(&["render", "--to", "nbv-script", "-o", "script"]).success();
    assert_eq!(script.stdout, "");
    assert_eq!(count("script", &now), 0, "a script against the environment");
    let data = folder.with_sources(&["render", "--to", "custom-data", "-o", "data"]).success();
    assert_eq!(data.stdout, "");
    assert_eq!(count("data", "script"), 0, "custom data against a script");
    let [_, config] = both(&folder, "node-config");
    assert_eq!(count("now", &config), 0, "inputs against their NodeConfig");
    let apart = folder.run(&["diff", &config, &now]);
    assert!(apart.code == Some(2) && apart.stderr.contains("no form in common"), "{apart}");
}
