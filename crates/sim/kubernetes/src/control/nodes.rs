//! Nodes: taints that follow their conditions, and conditions that expire without heartbeats.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::meta;
use crate::pods::set_condition;
use crate::resource::ObjectKind;
use crate::store::{Object, Store};

/// The default `--node-monitor-grace-period` of the controller manager.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(50);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Adds the taints of a node's conditions and removes outdated ones.
pub(super) fn update_taints(store: &mut Store, name: &str, now: Timestamp) {
    let Some(node) = store.get(ObjectKind::Node.resource(), "", name).cloned() else { return };
    let ready = meta::condition(&node, "Ready").map_or("", |condition| meta::text(condition, "/status"));
    let cordoned = node.pointer("/spec/unschedulable") == Some(&json!(true));
    let wanted = |key: &str, effect: &str| match (key, effect) {
        (NOT_READY, "NoSchedule") => ready == "False" || ready.is_empty(),
        (NOT_READY, "NoExecute") => ready == "False",
        (UNREACHABLE, _) => ready == "Unknown",
        (UNSCHEDULABLE, "NoSchedule") => cordoned,
        _ => false,
    };
    let managed = [
        (NOT_READY, "NoSchedule"),
        (NOT_READY, "NoExecute"),
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
        (UNSCHEDULABLE, "NoSchedule"),
    ];
    let current = meta::list(&node, "/spec/taints");
    let mut taints: Vec<Value> = current
        .iter()
        .filter(|taint| {
            let (key, effect) = (meta::text(taint, "/key"), meta::text(taint, "/effect"));
            !managed.contains(&(key, effect)) || wanted(key, effect)
        })
        .cloned()
        .collect();
    for (key, effect) in managed {
        if wanted(key, effect) && !taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": meta::time(now)}));
        }
    }
    if taints == current {
        return;
    }
    let mut new = Value::clone(&node);
    if taints.is_empty() {
        meta::child(&mut new, "spec").remove("taints");
    } else {
        new["spec"]["taints"] = json!(taints);
    }
    store.put(ObjectKind::Node, new);
}

/// Sets the conditions of nodes without recent heartbeats to unknown.
pub(super) fn expire(store: &mut Store, now: Timestamp) {
    for node in store.objects(ObjectKind::Node, None) {
        let Some(heartbeat) = last_heartbeat(store, &node) else { continue };
        if now - GRACE_PERIOD <= heartbeat {
            continue;
        }
        let is_known =
            |kind: &str| meta::condition(&node, kind).is_some_and(|condition| condition["status"] != "Unknown");
        let kinds: Vec<&str> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
            .into_iter()
            .filter(|kind| is_known(kind))
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
        store.put(ObjectKind::Node, new);
        mark_pods_not_ready(store, meta::name(&node), now);
    }
}

/// Marks the pods of an unreachable node as not ready.
fn mark_pods_not_ready(store: &mut Store, node: &str, now: Timestamp) {
    for pod in store.objects(ObjectKind::Pod, None) {
        if meta::text(&pod, "/spec/nodeName") != node || !meta::is_ready(&pod) {
            continue;
        }
        let mut new = Value::clone(&pod);
        set_condition(
            &mut new,
            json!({"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": meta::time(now)}),
        );
        store.put(ObjectKind::Pod, new);
    }
}

/// The last heartbeat of a node's kubelet, in its lease or its status.
fn last_heartbeat(store: &Store, node: &Object) -> Option<Timestamp> {
    let name = meta::name(node);
    let lease = store
        .get(ObjectKind::Lease.resource(), "kube-node-lease", name)
        .and_then(|lease| meta::text(lease, "/spec/renewTime").parse::<Timestamp>().ok());
    let status = meta::condition(node, "Ready")
        .and_then(|condition| meta::text(condition, "/lastHeartbeatTime").parse::<Timestamp>().ok());
    lease.max(status)
}
