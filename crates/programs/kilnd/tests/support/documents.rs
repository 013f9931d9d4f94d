//! NodeConfigs for tests: a minimal one, and random ones for property tests.

use kiln_node_config::NodeConfig;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A minimal NodeConfig, merged with these parts of a spec.
pub(crate) fn document(generation: u64, parts: &Value) -> NodeConfig {
    let mut spec = json!({
        "cluster": {
            "endpoint": "https://prod.example:443",
            "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
        },
        "kubelet": {"version": "1.33.7"},
    });
    for (name, part) in parts.as_object().expect("an object") {
        match spec.get_mut(name).and_then(Value::as_object_mut) {
            Some(known) => known.extend(part.as_object().expect("an object").clone()),
            None => spec[name] = part.clone(),
        }
    }
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {"name": "pool-a", "generation": generation},
        "spec": spec,
    });
    NodeConfig::parse(document.to_string().as_bytes()).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Random parts of a spec, from few names so that two documents often change the same items.
pub(crate) fn parts() -> impl Strategy<Value = Value> {
    let file = (0..4_u8, "[a-c]{0,2}", prop::sample::select(vec!["0644", "0600", "0755"])).prop_map(
        |(path, content, mode)| (path, json!({"path": format!("/etc/app/{path}"), "content": content, "mode": mode})),
    );
    let files = prop::collection::vec(file, 0..4).prop_map(|files| {
        let by_path: std::collections::BTreeMap<_, _> = files.into_iter().collect();
        by_path.into_values().collect::<Vec<Value>>()
    });
    let settings = prop::collection::btree_map(
        prop::sample::select(vec!["vm.swappiness", "net.ipv4.ip_forward", "fs.file-max"]),
        0..3_u8,
        0..3,
    );
    let users = prop::option::of("ssh-ed25519 [A-C]{1,3}");
    (files, settings, users, any::<bool>(), 10..14_u8, any::<bool>()).prop_map(|(files, settings, key, swap, pods, zone)| {
        let settings: serde_json::Map<String, Value> =
            settings.into_iter().map(|(name, value)| (name.to_owned(), json!(value.to_string()))).collect();
        let users = key.map_or(json!([]), |key| json!([{"name": "admin", "sshKeys": [key], "sudo": swap}]));
        json!({
            "files": files,
            "os": {"sysctl": settings, "swap": {"sizeMib": u64::from(swap)}, "time": {"zone": if zone { "Europe/Berlin" } else { "" }}},
            "platform": {"users": users},
            "kubelet": {"configuration": {"maxPods": pods}},
        })
    })
}
