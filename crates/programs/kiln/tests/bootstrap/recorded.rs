//! Compares the program's output with recordings of AKS and Karpenter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiln_aks_formats::from_base64;
use serde_json::Value;

use crate::fixture::Folder;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/golden");

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(Path::new(RECORDED).join(folder)) else { return Vec::new() };
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
    let components = Path::new(RECORDED).join("anc-gpu-components-input.json");
    if !components.is_file() {
        return;
    }
    let folder = Folder::new();
    let cases = json(&Path::new(RECORDED).join("anc-gpu-driver-version.json"));
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
            .map(|name| Path::new(RECORDED).join(name));
    if !plain.is_file() {
        return;
    }
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
    let path = Path::new(RECORDED).join("karp-nodeclass-hash-sample.json");
    if !path.is_file() {
        return;
    }
    let (folder, file) = (Folder::new(), json(&path));
    for case in file["cases"].as_array().expect("cases") {
        let mut spec = file["base_spec"].as_object().expect("a spec").clone();
        spec.extend(case["merge"].as_object().expect("fields").clone());
        folder.write("class.json", &serde_json::json!({"kind": "AKSNodeClass", "spec": spec}).to_string());
        let hash = folder.run(&["hash", "--node-class", "class.json"]).success().stdout;
        assert_eq!(Some(hash.trim()), case["hash"].as_str());
    }
}

/// The first row of the recordings, for runs without them.
#[test]
fn class_hash_is_karpenters_decimal() {
    let folder = Folder::new();
    folder.write(
        "class.yaml",
        "kind: AKSNodeClass\nspec:\n  vnetSubnetID: subnet-id\n  osDiskSizeGB: 30\n  imageFamily: Ubuntu2204\n  tags: {keyTag-1: valueTag-1}\n  maxPods: 100\n  \
         kubelet: {cpuManagerPolicy: static, cpuCFSQuota: true, cpuCFSQuotaPeriod: 100ms, imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80, \
         topologyManagerPolicy: none, allowedUnsafeSysctls: [net.core.somaxconn], containerLogMaxSize: 10Mi, containerLogMaxFiles: 10}\n",
    );
    assert_eq!(folder.run(&["hash", "--node-class", "class.yaml"]).success().stdout, "4108492229247269128\n");
    let json = folder.run(&["hash", "--node-class", "class.yaml", "--output", "json"]).success().json();
    assert_eq!((json["hash"].as_str(), json["version"].as_str()), (Some("4108492229247269128"), Some("v3")));
}

#[test]
fn drift_reasons_are_karpenters() {
    let folder = Folder::new();
    folder.write("claim.yaml", "kind: NodeClaim\nmetadata: {name: c}\nspec: {}\nstatus: {nodeName: n, providerID: azure:///vm, imageID: /old}\n");
    folder.write("node.yaml", "kind: Node\nmetadata: {name: n, labels: {kubernetes.azure.com/kubelet-identity-client-id: 33333333-3333-3333-3333-333333333333}}\nstatus: {nodeInfo: {kubeletVersion: v1.33.6}}\n");
    let drift = |class_status: &str, settings: &str| {
        folder.write(
            "class.yaml",
            &format!("kind: AKSNodeClass\nmetadata: {{name: d}}\nspec: {{}}\nstatus:\n{class_status}"),
        );
        folder.write("s.yaml", settings);
        folder.run(&[
            "drift",
            "--node-claim",
            "claim.yaml",
            "--node-class",
            "class.yaml",
            "--node",
            "node.yaml",
            "--settings",
            "s.yaml",
            "--output",
            "json",
        ])
    };
    let same = "kubeletIdentityClientId: 33333333-3333-3333-3333-333333333333\n";
    let version = |version: &str| {
        format!("  kubernetesVersion: {version}\n  conditions: [{{type: KubernetesVersionReady, status: \"True\"}}]\n")
    };
    let behind = drift(&version("1.33.7"), same);
    assert_eq!((behind.code, behind.json()["karpenter"].as_str()), (Some(5), Some("K8sVersionDrift")), "{behind}");
    // Replacing a newer node would create the same node again.
    assert_eq!(drift(&version("1.33.5"), same).code, Some(0));
    let identity = drift(&version("1.33.6"), "kubeletIdentityClientId: 55555555-5555-5555-5555-555555555555\n");
    assert_eq!(identity.json()["karpenter"], "KubeletIdentityDrift");
    let image = drift("  images: [{id: /new}]\n  conditions: [{type: ImagesReady, status: \"True\"}]\n", same);
    assert_eq!(
        (image.json()["karpenter"].as_str(), image.json()["needs"].as_str()),
        (Some("ImageDrift"), Some("new-node"))
    );
}
