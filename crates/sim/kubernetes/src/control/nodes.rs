//! Nodes: taints that follow their state, and silence that makes it unknown.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::meta;
use crate::pods::set_condition;
use crate::resource::Sort;
use crate::store::{Object, Store};

/// How long a node may be silent: what the controller manager grants by default.
const SILENCE: SignedDuration = SignedDuration::from_secs(50);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Gives a node the taints of its state and takes those of other states.
pub(super) fn taint(store: &mut Store, name: &str, now: Timestamp) {
    let Some(node) = store.get(Sort::Node.resource(), "", name).cloned() else { return };
    let ready = meta::condition(&node, "Ready").map_or("", |condition| meta::text(condition, "/status"));
    let cordoned = node.pointer("/spec/unschedulable") == Some(&json!(true));
    let wanted = |key: &str, effect: &str| match (key, effect) {
        (NOT_READY, "NoSchedule") => ready == "False" || ready.is_empty(),
        (NOT_READY, "NoExecute") => ready == "False",
        (UNREACHABLE, _) => ready == "Unknown",
        (UNSCHEDULABLE, "NoSchedule") => cordoned,
        _ => false,
    };
    let ours = [
        (NOT_READY, "NoSchedule"),
        (NOT_READY, "NoExecute"),
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
        (UNSCHEDULABLE, "NoSchedule"),
    ];
    let has = meta::list(&node, "/spec/taints");
    let mut taints: Vec<Value> = has
        .iter()
        .filter(|taint| {
            let (key, effect) = (meta::text(taint, "/key"), meta::text(taint, "/effect"));
            !ours.contains(&(key, effect)) || wanted(key, effect)
        })
        .cloned()
        .collect();
    for (key, effect) in ours {
        if wanted(key, effect) && !taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": meta::time(now)}));
        }
    }
    if taints == has {
        return;
    }
    let mut new = Value::clone(&node);
    if taints.is_empty() {
        meta::child(&mut new, "spec").remove("taints");
    } else {
        new["spec"]["taints"] = json!(taints);
    }
    store.put(Sort::Node, new);
}

/// Nodes whose kubelet was not heard for too long are in an unknown state.
pub(super) fn expire(store: &mut Store, now: Timestamp) {
    for node in store.objects(Sort::Node, None) {
        let Some(heard) = heard(store, &node) else { continue };
        if now - SILENCE <= heard {
            continue;
        }
        let silent =
            |kind: &str| meta::condition(&node, kind).is_some_and(|condition| condition["status"] != "Unknown");
        let kinds: Vec<&str> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
            .into_iter()
            .filter(|kind| silent(kind))
            .collect();
        if kinds.is_empty() {
            continue;
        }
        let mut new = Value::clone(&node);
        for kind in kinds {
            let before = meta::condition(&node, kind).cloned().unwrap_or_default();
            set_condition(
                &mut new,
                json!({
                    "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": before["lastHeartbeatTime"], "lastTransitionTime": meta::time(now),
                }),
            );
        }
        store.put(Sort::Node, new);
        forget_pods(store, meta::name(&node), now);
    }
}

/// The pods of a node that is silent are not ready any more.
fn forget_pods(store: &mut Store, node: &str, now: Timestamp) {
    for pod in store.objects(Sort::Pod, None) {
        if meta::text(&pod, "/spec/nodeName") != node || !meta::is_ready(&pod) {
            continue;
        }
        let mut new = Value::clone(&pod);
        set_condition(
            &mut new,
            json!({"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": meta::time(now)}),
        );
        store.put(Sort::Pod, new);
    }
}

/// When a node's kubelet was last heard: by its lease, or by its status.
fn heard(store: &Store, node: &Object) -> Option<Timestamp> {
    let name = meta::name(node);
    let lease = store
        .get(Sort::Lease.resource(), "kube-node-lease", name)
        .and_then(|lease| meta::text(lease, "/spec/renewTime").parse::<Timestamp>().ok());
    let status = meta::condition(node, "Ready")
        .and_then(|condition| meta::text(condition, "/lastHeartbeatTime").parse::<Timestamp>().ok());
    lease.max(status)
}
