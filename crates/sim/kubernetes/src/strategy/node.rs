//! Nodes.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::{meta, names};

/// A new node has a not-ready taint until its kubelet reports otherwise.
pub(crate) fn prepare(node: &mut Value) {
    default_status(node);
    let taints = meta::child(node, "spec").entry("taints").or_insert_with(|| json!([]));
    let Some(taints) = taints.as_array_mut() else {
        return;
    };
    if !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

/// The fields of a status that the API type always has.
pub(crate) fn default_status(node: &mut Value) {
    let status = meta::child(node, "status");
    status.entry("daemonEndpoints").or_insert_with(|| json!({"kubeletEndpoint": {"Port": 0}}));
    let info = status.entry("nodeInfo").or_insert_with(|| json!({}));
    for field in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        if info.get(field).is_none() {
            info[field] = json!("");
        }
    }
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(crate) fn check(node: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let taints = meta::list(node, "/spec/taints");
    for (index, taint) in taints.iter().enumerate() {
        let field = |name: &str| format!("metadata.taints[{index}].{name}");
        let key = meta::text(taint, "/key");
        if !names::is_qualified(key) {
            causes.push(FieldError::invalid(field("key"), &json!(key), "must be a qualified name"));
        }
        if !EFFECTS.contains(&meta::text(taint, "/effect")) {
            causes.push(FieldError::unsupported(field("effect"), &taint["effect"], &EFFECTS));
        }
        let same = |other: &&Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if taints.iter().take(index).any(|other| same(&other)) {
            causes.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("metadata.taints[{index}]"),
                message: format!("Duplicate value: {taint}: taints must be unique by key and effect pair"),
            });
        }
    }
    causes
}

pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    for field in ["providerID", "podCIDR"] {
        let (before, after) = (&old["spec"][field], &new["spec"][field]);
        // Set once and never changed.
        if before.as_str().is_some_and(|before| !before.is_empty()) && before != after {
            let why = "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature gate is enabled)";
            causes.push(FieldError::forbidden(format!("spec.{field}"), why));
        }
    }
    causes
}
