//! Compares with recordings of Karpenter.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::recordings::golden;

use crate::common::inputs;
use crate::node_drift::TABLE;

#[test]
fn derived_variables_match_the_recordings() {
    for entry in std::fs::read_dir(golden().join("karp-nbv-derived")).unwrap() {
        let path = entry.unwrap().path();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let given = &file["input"];
        let resolved = inputs(&[
            ("kubernetesVersion", given["kubernetes_version"].clone()),
            ("arch", given["arch"].clone()),
            ("caBundle", given["ca_bundle"].clone()),
            ("kubeletIdentityClientId", given["kubelet_identity_client_id"].clone()),
            ("networkPolicy", given["network_policy"].clone()),
            ("clusterId", json!("46593302")),
            ("taints", given.get("taints").cloned().unwrap_or_else(|| json!([]))),
            ("gpuMode", json!(if given["gpu_driver_install"] == false { "None" } else { "Driver" })),
            ("vmSize", json!(if given["gpu_node"] == true { "standard_nc6s_v3" } else { "standard_d2_v2" })),
        ]);
        let expected: BTreeMap<String, String> = serde_json::from_value(file["expected_env"].clone()).unwrap();
        let environment = resolved.variables().unwrap().environment();
        for (name, value) in expected.iter().filter(|(name, _)| *name != "KUBELET_NODE_LABELS") {
            assert_eq!(environment.get(name), Some(value), "{}: {name}", path.display());
        }
    }
}

#[test]
fn drift_table_matches_the_recording() {
    let text = std::fs::read(golden().join("karp-drift.json")).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let want = if case["error"] == true { None } else { case["reason"].as_str() };
        assert!(TABLE.contains(&(case["when"].as_str().unwrap(), want)), "{case}");
    }
}
