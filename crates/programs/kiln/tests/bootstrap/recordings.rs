//! Recorded data of AKS and Karpenter, processed by the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiln_aks_formats::from_base64;
use serde_json::Value;
use testkit::recordings::golden;

use crate::fixture::Folder;

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden().join(folder)).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    assert!(!files.is_empty());
    files
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

fn environment(folder: &Folder, arguments: &[&str]) -> BTreeMap<String, String> {
    let finished = folder.run(&[&["render", "--to", "env", "--output", "json"], arguments].concat()).success();
    serde_json::from_str(&finished.stdout).expect("names and texts")
}

#[test]
fn variables_match_the_recordings() {
    let folder = Folder::new();
    for path in files("karp-nbv-derived", ".json") {
        let file = json(&path);
        folder.write("values.json", &file["input"].to_string());
        let expected: BTreeMap<String, String> = serde_json::from_value(file["expected_env"].clone()).expect("texts");
        assert_eq!(environment(&folder, &["--values", "values.json"]), expected, "{}", path.display());
    }
}

#[test]
fn environment_of_aks_node_config_matches_the_recordings() {
    let folder = Folder::new();
    for path in files("anc-buildcse", ".input.json") {
        let expected = json(Path::new(&path.to_string_lossy().replace(".input.", ".expected.")));
        let file = path.to_string_lossy();
        let got = environment(&folder, &["--aks-node-config", &file, "--containerd-version", "1.7.22"]);
        let decoded = |name: &str| String::from_utf8(from_base64(&got[name]).expect("base64")).expect("text");
        let entries = |key: &str| expected[key].as_object().cloned().unwrap_or_default();
        for (name, value) in entries("env_equals").into_iter().chain(entries("env_equals_legacy")) {
            assert_eq!(got.get(&name).map(String::as_str), value.as_str(), "{file}: {name}");
        }
        for (name, value) in entries("env_base64_decoded_equals") {
            assert_eq!(Some(decoded(&name).as_str()), value.as_str(), "{file}: {name}");
        }
        for (name, lines) in entries("env_base64_decoded_contains") {
            let text = decoded(&name);
            for line in lines.as_array().expect("lines").iter().filter_map(Value::as_str) {
                assert!(text.lines().any(|have| have == line), "{file}: {name} lacks {line}");
            }
        }
    }
}

#[test]
fn gpu_drivers_match_the_recordings() {
    let components = golden().join("anc-gpu-components-input.json");
    let folder = Folder::new();
    let cases = json(&golden().join("anc-gpu-driver-version.json"));
    for case in cases["cases"].as_array().expect("cases") {
        let size = case["size"].as_str().expect("a size");
        folder.write("anc.json", &serde_json::json!({"version": "v1", "vm_size": size}).to_string());
        let from = ["--aks-node-config", "anc.json", "--components"];
        let got = environment(&folder, &[&from[..], &[&components.to_string_lossy()]].concat());
        assert_eq!(Some(got["GPU_DRIVER_VERSION"].as_str()), case["want"].as_str(), "{size}");
    }
}

#[test]
fn documents_of_other_versions_survive_a_round_trip() {
    let [plain, unexpected] =
        ["anc-compat-test_aksnodeconfig.json", "anc-compat-test_aksnodeconfig_fields_unexpected.json"]
            .map(|name| golden().join(name));
    let folder = Folder::new();
    let through = |path: &Path| {
        let file = path.to_string_lossy();
        folder.run(&["render", "--aks-node-config", &file, "--to", "aks-node-config"]).success().json()
    };
    assert_eq!(through(&plain), json(&plain));
    assert_eq!(through(&unexpected), json(&plain));
    let checked = folder.run(&["check", &unexpected.to_string_lossy()]).success();
    assert!(
        checked.stdout.contains("warning: ") && checked.stdout.contains("unknown field; AKS ignores it"),
        "{checked}"
    );
}

#[test]
fn class_hashes_match_the_recordings() {
    let path = golden().join("karp-nodeclass-hash-sample.json");
    let (folder, file) = (Folder::new(), json(&path));
    for case in file["cases"].as_array().expect("cases") {
        let mut spec = file["base_spec"].as_object().expect("a spec").clone();
        spec.extend(case["merge"].as_object().expect("fields").clone());
        folder.write("class.json", &serde_json::json!({"kind": "AKSNodeClass", "spec": spec}).to_string());
        let hash = folder.run(&["hash", "--node-class", "class.json"]).success().stdout;
        assert_eq!(Some(hash.trim()), case["hash"].as_str());
    }
}
