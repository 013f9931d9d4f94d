//! Replica sets and daemon sets: the desired number of pods, or one per node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::tolerates;
use crate::delete::{self, Options};
use crate::meta;
use crate::resource::ObjectKind;
use crate::store::{Object, Store};
use crate::write;

/// The tolerations that the DaemonSet controller adds to each pod.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Creates missing pods of a set, deletes surplus ones, and updates its status.
pub(super) fn sync(store: &mut Store, object_kind: ObjectKind, namespace: &str, name: &str, now: Timestamp) {
    let Some(resource) = store.resource(object_kind) else {
        return;
    };
    let Some(set) = store.get(resource, namespace, name).cloned() else {
        return;
    };
    if meta::is_terminating(&set) {
        return;
    }
    let pods: Vec<Object> = store
        .owned_by(meta::uid(&set))
        .into_iter()
        .filter(|(object_kind, pod)| *object_kind == ObjectKind::Pod && is_active(pod))
        .map(|(_, pod)| pod)
        .collect();
    match object_kind {
        ObjectKind::ReplicaSet => replicas(store, &set, &pods, now),
        ObjectKind::DaemonSet => daemons(store, &set, &pods, now),
        _ => {}
    }
}

/// Terminating and ended pods do not count, so they are replaced.
fn is_active(pod: &Value) -> bool {
    !meta::is_terminating(pod) && !matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn replicas(store: &mut Store, set: &Object, pods: &[Object], now: Timestamp) {
    let wanted = set["spec"]["replicas"].as_u64().and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(1);
    let mut made = pods.len().min(wanted);
    for _ in pods.len()..wanted {
        made += usize::from(add(store, set, json!({}), now));
    }
    // Pods that are not ready or not bound are deleted first.
    let mut order: Vec<&Object> = pods.iter().collect();
    order.sort_by_key(|pod| (meta::is_ready(pod), !meta::text(pod, "/spec/nodeName").is_empty()));
    for pod in order.into_iter().take(pods.len().saturating_sub(wanted)) {
        let _ = delete::delete(store, ObjectKind::Pod.resource(), pod, &Options::default(), now);
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
        .objects(ObjectKind::Node, None)
        .into_iter()
        .filter(|node| selector.into_iter().flatten().all(|(key, value)| meta::label(node, key) == value.as_str()))
        .collect();
    let (mut current, mut ready) = (0, 0);
    for node in &nodes {
        let name = meta::name(node);
        if let Some(pod) = at.remove(name) {
            current += 1;
            ready += usize::from(meta::is_ready(pod));
        } else if may_run(set, node) {
            let tolerations: Vec<Value> = DAEMON_TOLERATIONS
                .iter()
                .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}))
                .collect();
            current += usize::from(add(store, set, json!({"nodeName": name, "tolerations": tolerations}), now));
        }
    }
    for pod in at.into_values().chain(spare) {
        let _ = delete::delete(store, ObjectKind::Pod.resource(), pod, &Options::default(), now);
    }
    let status = json!({
        "desiredNumberScheduled": current, "currentNumberScheduled": current, "numberReady": ready,
        "numberAvailable": ready, "numberMisscheduled": 0, "updatedNumberScheduled": current,
        "observedGeneration": set["metadata"]["generation"],
    });
    write_status(store, set, status);
}

/// Whether a daemon pod may run on a node. It always tolerates the taints of node conditions.
fn may_run(set: &Value, node: &Value) -> bool {
    let own = meta::list(set, "/spec/template/spec/tolerations");
    meta::list(node, "/spec/taints").iter().all(|taint| {
        let (key, effect) = (meta::text(taint, "/key"), meta::text(taint, "/effect"));
        key.starts_with("node.kubernetes.io/")
            || effect == "PreferNoSchedule"
            || own.iter().any(|toleration| tolerates(taint, toleration))
    })
}

/// Creates one pod from a set's template, and returns whether that succeeded.
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
                (field, value) => *field = value,
            }
        }
    }
    write::create_object(store, ObjectKind::Pod.resource(), pod, now, false).is_ok()
}

fn write_status(store: &mut Store, set: &Object, status: Value) {
    if set["status"] != status {
        let mut new = Value::clone(set);
        new["status"] = status;
        let object_kind = if set["kind"] == "DaemonSet" { ObjectKind::DaemonSet } else { ObjectKind::ReplicaSet };
        store.put(object_kind, new);
    }
}
