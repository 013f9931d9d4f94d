//! Snapshots of complete environments, which also cover variables without recordings. `KILN_BLESS=1` rewrites them; review the diff
//! before committing it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kiln_aks_formats::anc::{self, Host};
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::{from_base64, gpu};
use serde_json::{Value, json};

/// Decodes variables that contain base64-encoded files.
fn readable(environment: BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let shown = |name: &str, text: String| match name {
        "CONTAINERD_CONFIG_CONTENT" | "CONTAINERD_CONFIG_NO_GPU_CONTENT" | "SYSCTL_CONTENT" | "KUBENET_TEMPLATE" => {
            let file = String::from_utf8(from_base64(&text).unwrap()).unwrap();
            assert!(file.ends_with('\n'), "{name}");
            Value::from(file.lines().collect::<Vec<_>>())
        }
        _ => Value::from(text),
    };
    environment.into_iter().map(|(name, text)| (name.clone(), shown(&name, text))).collect()
}

fn assert_snapshot(name: &str, environment: BTreeMap<String, String>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.json"));
    let rendered = serde_json::to_string_pretty(&readable(environment)).unwrap() + "\n";
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), rendered, "{}", path.display());
}

fn inputs(version: &str, arch: &str, size: &str) -> Inputs {
    let driver = gpu::driver(size);
    let is_gpu = gpu::installs_driver(size);
    serde_json::from_value(json!({
        "arch": arch,
        "kubernetes_version": version,
        "ca_bundle": "Q0E=",
        "api_server_name": "prod.hcp.eastus.azmk8s.io",
        "bootstrap_token": "abcdef.0123456789abcdef",
        "tenant_id": "tenant",
        "subscription_id": "subscription",
        "location": "eastus",
        "resource_group": "MC_prod",
        "kubelet_identity_client_id": "identity",
        "network_plugin": "none",
        "network_policy": "cilium",
        "nsg_name": "aks-agentpool-46593302-nsg",
        "route_table": "aks-agentpool-46593302-routetable",
        "subnet_id": "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes",
        "labels": {"team": "a", "kubernetes.azure.com/mode": "user", "node-restriction.kubernetes.io/x": "no"},
        "taints": ["karpenter.sh/unregistered:NoExecute", "dedicated=gpu:NoSchedule"],
        "kubelet_config_flags": {"--max-pods": "250"},
        "gpu_node": is_gpu,
        "gpu_driver_version": if is_gpu { driver.version } else { String::new() },
        "gpu_driver_type": if is_gpu { driver.kind.to_string() } else { String::new() },
        "gpu_image_sha": if is_gpu { driver.image_sha } else { String::new() },
    }))
    .unwrap()
}

#[test]
fn variables_of_each_minor_version_match_their_snapshot() {
    for (name, version, arch, size) in [
        ("nbv-1.29-arm64", "1.29.2", "arm64", "standard_d2pds_v5"),
        ("nbv-1.33", "1.33.7", "amd64", "standard_d2_v2"),
        ("nbv-1.34-gpu", "1.34.1", "amd64", "standard_nc6s_v3"),
        ("nbv-1.35", "1.35.5", "amd64", "standard_d2_v2"),
    ] {
        let environment = inputs(version, arch, size).variables().unwrap().environment();
        assert_eq!(environment.len(), 128);
        assert_snapshot(name, environment);
    }
}

#[test]
fn environment_of_the_node_controller_matches_its_snapshot() {
    let config = json!({
        "version": "v1",
        "kubernetes_version": "1.33.7",
        "vm_size": "Standard_ND96asr_v4",
        "cluster_config": {"location": "China East 2", "vm_type": "VM_TYPE_VMSS", "load_balancer_config": {"load_balancer_sku": 2}},
        "gpu_config": {"enable_nvidia": true, "gpu_instance_profile": "MIG7g"},
        "network_config": {"network_plugin": "NETWORK_PLUGIN_KUBENET", "network_policy": "NETWORK_POLICY_AZURE"},
        "custom_linux_os_config": {
            "enable_swap_config": true,
            "swap_file_size": 1500,
            "sysctl_config": {"net_ipv4_ip_local_port_range": "32768 65400", "net_ipv4_tcp_tw_reuse": true, "fs_file_max": 8192},
            "ulimit_config": {"no_file": "1048576"},
        },
        "kubelet_config": {"kubelet_flags": {"--b": "2", "--a": "1"}, "kubelet_disk_type": "KUBELET_DISK_TEMP_DISK", "container_data_dir": "/mnt/c"},
        "enable_artifact_streaming": true,
        "needs_cgroupv2": true,
        "cse_timeout": 1200,
    });
    let parsed = anc::parse(config.to_string().as_bytes());
    assert_eq!((parsed.error, parsed.ignored), (None, Vec::new()));
    for (name, version) in [("anc-containerd-1", "1.7.22"), ("anc-containerd-2", "2.0.1")] {
        assert_snapshot(
            name,
            parsed.config.environment(&Host { containerd_version: version.to_owned(), ..Host::default() }),
        );
    }
}
