//! The Node object that a kubelet writes.

use jiff::Timestamp;
use kiln_sim_azure::MachineView;
use serde_json::{Value, json};

use crate::meta;

/// Marks simulated nodes: pods with tasks are carried out by the simulated kubelet.
const SIMULATED: &str = "kiln.dev/simulated";

/// Marks a mirror pod; the kubelet sets it to a hash of the manifest.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The readiness of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum State<'a> {
    Ready,
    /// With a message.
    NotReady(&'a str),
}

/// The Node at registration.
pub(super) fn object(machine: &MachineView) -> Value {
    let name = machine.node_name();
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine.size, "topology.kubernetes.io/region": machine.location,
    });
    // AKS Engine uses the tag of a pool as the label of its nodes.
    if let Some(pool) = machine.tags.get("poolName") {
        labels["agentpool"] = json!(pool);
    }
    for (key, value) in &machine.node_labels {
        labels[key] = json!(value);
    }
    let taints: Vec<Value> = machine
        .node_taints
        .iter()
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
        .collect();
    let mut spec = json!({"providerID": machine.provider_id()});
    if !taints.is_empty() {
        spec["taints"] = json!(taints);
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "spec": spec,
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true", SIMULATED: "true"},
        },
    })
}

/// The status of a node that is up or shutting down.
pub(super) fn status(machine: &MachineView, before: &Value, state: State<'_>, now: Timestamp) -> Value {
    let healthy = |kind: &str, reason: &str, message: &str| condition(before, (kind, "False", reason, message), now);
    let ready = match state {
        State::Ready => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        State::NotReady(why) => ("Ready", "False", "KubeletNotReady", why),
    };
    let contents = &machine.contents;
    let machine_id = contents.identity.get("machine-id").cloned().unwrap_or_else(|| machine.vm_id.replace('-', ""));
    let images: Vec<Value> = contents.cached_images.iter().map(|image| json!({"names": [image]})).collect();
    let capacity = json!({"cpu": "2", "memory": "8145056Ki", "ephemeral-storage": "129886128Ki", "pods": "110"});
    json!({
        "addresses": [
            {"type": "InternalIP", "address": machine.address.to_string()},
            {"type": "Hostname", "address": machine.node_name()},
        ],
        "capacity": capacity, "allocatable": capacity,
        "conditions": [
            healthy("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            healthy("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            healthy("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition(before, ready, now),
        ],
        "images": images,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": contents.kubelet_version,
            "kubeProxyVersion": "", "containerRuntimeVersion": contents.runtime_version,
            "kernelVersion": contents.kernel, "osImage": contents.os_release, "machineID": machine_id,
            "systemUUID": machine.vm_id, "bootID": format!("{}-{}", machine.vm_id, machine.boots),
        },
    })
}

/// A condition that keeps its last transition time while its status does not change.
fn condition(before: &Value, (kind, status, reason, message): (&str, &str, &str, &str), now: Timestamp) -> Value {
    let since = match meta::condition(before, kind) {
        Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
        _ => json!(meta::time(now)),
    };
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": meta::time(now), "lastTransitionTime": since,
    })
}

/// The mirror pods of the node's static pods.
pub(super) fn mirror_pods(machine: &MachineView, now: Timestamp) -> Vec<Value> {
    let node = machine.node_name();
    let hash = "5c5f0e4ff1cbbd1f2dd9d1e4a8d0d3e6";
    vec![json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("kube-proxy-{node}"), "namespace": "kube-system",
            "labels": {"component": "kube-proxy", "tier": "node"},
            "annotations": {
                MIRROR: hash, "kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file",
                "kubernetes.io/config.seen": meta::time(now),
            },
        },
        "spec": {
            "nodeName": node, "hostNetwork": true,
            "containers": [{"name": "kube-proxy", "image": format!("kube-proxy:{}", machine.contents.kubelet_version)}],
            "tolerations": [{"operator": "Exists"}],
        },
    })]
}

/// Makes the node the owner of a mirror pod.
pub(super) fn owned(mut pod: Value, uid: &str) -> Value {
    let node = pod["spec"]["nodeName"].clone();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}]);
    pod
}
