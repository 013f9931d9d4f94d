//! Recordings of Karpenter and the Node Bootstrapping Variables.

use std::collections::BTreeMap;

use kiln_aks_formats::gpu::{self, Os, Vendor};
use kiln_aks_formats::image::{self, ImageId};
use kiln_aks_formats::karpenter::{NodeClassSpec, node_class_hash};
use kiln_aks_formats::nbv::kubelet::KubeletSettings;
use kiln_aks_formats::nbv::{Inputs, labels, rules};
use kiln_aks_formats::{Arch, Secret, go, hydrate};
use serde_json::Value;

use super::{cases, files_in, read, recorded, text};

#[test]
fn variables_match_the_recordings() {
    for path in files_in("karp-nbv-derived", ".json") {
        let file = read(&path);
        let inputs: Inputs = serde_json::from_value(file["input"].clone()).unwrap();
        let environment = inputs.variables().unwrap().environment();
        let expected: BTreeMap<String, String> = serde_json::from_value(file["expected_env"].clone()).unwrap();
        assert_eq!(expected.len(), 128);
        for (name, value) in &expected {
            assert_eq!(environment.get(name), Some(value), "{}: {name}", path.display());
        }
        assert_eq!(environment.len(), expected.len());
    }
}

#[test]
fn class_hash_matches_the_recording() {
    let file = recorded("karp-nodeclass-hash-sample.json");
    for case in file["cases"].as_array().unwrap() {
        let mut spec = file["base_spec"].clone();
        spec.as_object_mut().unwrap().extend(case["merge"].as_object().unwrap().clone());
        let spec: NodeClassSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(node_class_hash(&spec), text(&case["hash"]));
    }
}

#[test]
fn cluster_id_matches_the_recording() {
    let file = recorded("karp-cluster-id.json");
    for case in file["cases"].as_array().unwrap() {
        assert_eq!(go::cluster_id::from_fqdn(text(&case["fqdn"])), text(&case["cluster_id"]));
    }
    for case in file["nsg_name_cases"].as_array().unwrap() {
        assert_eq!(
            go::cluster_id::from_security_group(text(&case["nsg"])).unwrap_or_default(),
            text(&case["cluster_id"])
        );
    }
}

#[test]
fn gpu_sizes_match_the_recordings() {
    let check = |name: &str, decide: fn(&str) -> bool| {
        for case in cases(name) {
            assert_eq!(decide(text(&case["input"])), case["output"], "{name}: {case}");
        }
    };
    check("karp-gpu-amd.json", |size| gpu::vendor(size) == Some(Vendor::Amd));
    check("karp-gpu-is-gpu.json", |size| gpu::vendor(size).is_some());
    check("karp-gpu-driver-install.json", gpu::installs_driver);
    check("karp-gpu-mariner-sku.json", |size| gpu::works_on(size, Os::AzureLinux));
    for case in cases("karp-gpu-os-support.json") {
        let works = Os::from_name(text(&case["osName"])).is_some_and(|os| gpu::works_on(text(&case["vmSize"]), os));
        assert_eq!(works, case["output"], "{case}");
    }
}

#[test]
fn hydrated_custom_data_matches_the_recording() {
    for case in cases("karp-hydrate-token.json") {
        let token = Secret::new(text(&case["bootstrapToken"]));
        let custom_data = hydrate::custom_data(text(&case["customDataDehydratable"]), &token);
        if case["expectError"] == true {
            assert!(custom_data.is_err(), "{case}");
            continue;
        }
        assert_eq!(custom_data.unwrap().expose(), text(&case["expectedCustomData"]));
        assert_eq!(hydrate::command(text(&case["cseDehydratable"]), &token).expose(), text(&case["expectedCSE"]));
    }
}

#[test]
fn image_versions_match_the_recordings() {
    for case in cases("karp-image-is-newer-version.json") {
        assert_eq!(image::is_newer(text(&case["version1"]), text(&case["version2"])), case["expected"], "{case}");
    }
    for case in cases("karp-machine-image-version.json") {
        let name = text(&case["imageID"]).parse::<ImageId>().and_then(|id| id.node_image_version());
        match text(&case["expectedError"]) {
            "" => assert_eq!(name.unwrap(), text(&case["expectedResult"])),
            _ => assert!(name.is_err(), "{case}"),
        }
    }
}

#[test]
fn kubelet_binaries_labels_and_flags_match_the_recordings() {
    for case in cases("karp-kube-binary-url.json") {
        let version = text(&case["version"]).parse().unwrap();
        assert_eq!(rules::kube_binary_url(&version, Arch::Amd64), text(&case["expected"]));
    }
    for case in cases("karp-kubelet-can-set-label.json") {
        assert_eq!(labels::kubelet_may_set(text(&case["label"])), case["expectedKubelet"], "{case}");
    }
    let file = recorded("karp-kubelet-config-map.json");
    let settings: KubeletSettings = serde_json::from_value(file["input"].clone()).unwrap();
    let flags: Value = serde_json::to_value(settings.flags()).unwrap();
    assert_eq!(flags, file["expected"]);
}
