//! Replica sets and daemon sets: as many pods as they want, or one for each node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::tolerated;
use crate::delete::{self, Options};
use crate::meta;
use crate::resource::Sort;
use crate::store::{Object, Store};
use crate::write;

/// Daemons stay where others may not: what the controller adds to each of their pods.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Gives a set the pods that it lacks, takes those that are too many, and writes down how many there are.
pub(super) fn fill(store: &mut Store, sort: Sort, namespace: &str, name: &str, now: Timestamp) {
    let Some(set) = store.get(sort.resource(), namespace, name).cloned() else { return };
    if meta::is_terminating(&set) {
        return;
    }
    let pods: Vec<Object> = store
        .owned_by(meta::uid(&set))
        .into_iter()
        .filter(|(sort, pod)| *sort == Sort::Pod && is_alive(pod))
        .map(|(_, pod)| pod)
        .collect();
    match sort {
        Sort::ReplicaSet => replicas(store, &set, &pods, now),
        Sort::DaemonSet => daemons(store, &set, &pods, now),
        _ => {}
    }
}

/// Pods that end or have ended do not count: another one takes their place.
fn is_alive(pod: &Value) -> bool {
    !meta::is_terminating(pod) && !matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn replicas(store: &mut Store, set: &Object, pods: &[Object], now: Timestamp) {
    let wanted = set["spec"]["replicas"].as_u64().and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(1);
    let mut made = pods.len().min(wanted);
    for _ in pods.len()..wanted {
        made += usize::from(add(store, set, json!({}), now));
    }
    // Those that do nothing yet go first.
    let mut order: Vec<&Object> = pods.iter().collect();
    order.sort_by_key(|pod| (meta::is_ready(pod), !meta::text(pod, "/spec/nodeName").is_empty()));
    for pod in order.into_iter().take(pods.len().saturating_sub(wanted)) {
        let _ = delete::delete(store, Sort::Pod.resource(), pod, &Options::default(), now);
    }
    let ready = pods.iter().filter(|pod| meta::is_ready(pod)).count().min(wanted);
    let mut status =
        json!({"replicas": made, "fullyLabeledReplicas": made, "observedGeneration": set["metadata"]["generation"]});
    if ready > 0 {
        status["readyReplicas"] = json!(ready);
        status["availableReplicas"] = json!(ready);
    }
    write_status(store, set, status);
}

fn daemons(store: &mut Store, set: &Object, pods: &[Object], now: Timestamp) {
    let mut at: BTreeMap<&str, &Object> = BTreeMap::new();
    let mut spare = Vec::new();
    for pod in pods {
        if at.insert(meta::text(pod, "/spec/nodeName"), pod).is_some() {
            spare.push(pod);
        }
    }
    let selector = set.pointer("/spec/template/spec/nodeSelector").and_then(Value::as_object);
    let nodes: Vec<Object> = store
        .objects(Sort::Node, None)
        .into_iter()
        .filter(|node| selector.into_iter().flatten().all(|(key, value)| meta::label(node, key) == value.as_str()))
        .collect();
    let (mut current, mut ready) = (0, 0);
    for node in &nodes {
        let name = meta::name(node);
        if let Some(pod) = at.remove(name) {
            current += 1;
            ready += usize::from(meta::is_ready(pod));
        } else if tolerates(set, node) {
            let tolerations: Vec<Value> = TOLERATED
                .iter()
                .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}))
                .collect();
            current += usize::from(add(store, set, json!({"nodeName": name, "tolerations": tolerations}), now));
        }
    }
    for pod in at.into_values().chain(spare) {
        let _ = delete::delete(store, Sort::Pod.resource(), pod, &Options::default(), now);
    }
    let status = json!({
        "desiredNumberScheduled": current, "currentNumberScheduled": current, "numberReady": ready,
        "numberAvailable": ready, "numberMisscheduled": 0, "updatedNumberScheduled": current,
        "observedGeneration": set["metadata"]["generation"],
    });
    write_status(store, set, status);
}

/// Whether a daemon may be on a node: taints of the node's own state it tolerates always.
fn tolerates(set: &Value, node: &Value) -> bool {
    let own = meta::list(set, "/spec/template/spec/tolerations");
    meta::list(node, "/spec/taints").iter().all(|taint| {
        let (key, effect) = (meta::text(taint, "/key"), meta::text(taint, "/effect"));
        key.starts_with("node.kubernetes.io/")
            || effect == "PreferNoSchedule"
            || own.iter().any(|toleration| tolerated(taint, toleration))
    })
}

/// Makes one pod of a set's template. Whether it could be made.
fn add(store: &mut Store, set: &Object, more: Value, now: Timestamp) -> bool {
    let template = &set["spec"]["template"];
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", meta::name(set)), "namespace": meta::namespace(set),
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": set["kind"], "name": meta::name(set), "uid": meta::uid(set),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    });
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        pod["metadata"]["annotations"] = annotations.clone();
    }
    if let Value::Object(more) = more {
        for (field, value) in more {
            match (&mut pod["spec"][&field], value) {
                (Value::Array(list), Value::Array(added)) => list.extend(added),
                (place, value) => *place = value,
            }
        }
    }
    write::create_object(store, Sort::Pod.resource(), pod, now, false).is_ok()
}

fn write_status(store: &mut Store, set: &Object, status: Value) {
    if set["status"] != status {
        let mut new = Value::clone(set);
        new["status"] = status;
        let sort = if set["kind"] == "DaemonSet" { Sort::DaemonSet } else { Sort::ReplicaSet };
        store.put(sort, new);
    }
}
