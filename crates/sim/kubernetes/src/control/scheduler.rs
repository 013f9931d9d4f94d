//! A minimal scheduler: each pod goes to the suitable node with the fewest pods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::tolerates;
use crate::meta;
use crate::pods;
use crate::resource::ObjectKind;
use crate::store::Store;

/// The pod capacity of a node that does not report one.
const DEFAULT_CAPACITY: usize = 110;

/// Binds unbound pods.
pub(super) fn schedule(store: &mut Store, now: Timestamp) {
    let all = store.objects(ObjectKind::Pod, None);
    let waiting: Vec<_> = all.iter().filter(|pod| is_unscheduled(pod)).cloned().collect();
    if waiting.is_empty() {
        return;
    }
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &all {
        let node = meta::text(pod, "/spec/nodeName");
        if !node.is_empty() && !matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed") {
            *load.entry(node.to_owned()).or_default() += 1;
        }
    }
    let nodes = store.objects(ObjectKind::Node, None);
    for pod in waiting {
        let candidates =
            nodes.iter().filter(|node| fits(node, &pod, load.get(meta::name(node)).copied().unwrap_or_default()));
        let best = candidates.min_by_key(|node| load.get(meta::name(node)).copied().unwrap_or_default());
        if let Some(node) = best {
            let name = meta::name(node);
            pods::assign(store, &pod, name, now);
            *load.entry(name.to_owned()).or_default() += 1;
        }
    }
}

fn is_unscheduled(pod: &Value) -> bool {
    meta::text(pod, "/spec/nodeName").is_empty()
        && !meta::is_terminating(pod)
        && meta::text(pod, "/spec/schedulerName") == "default-scheduler"
        && meta::list(pod, "/spec/schedulingGates").is_empty()
}

fn fits(node: &Value, pod: &Value, load: usize) -> bool {
    let room = meta::text(node, "/status/allocatable/pods").parse().unwrap_or(DEFAULT_CAPACITY);
    let selector = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    load < room
        && meta::is_ready(node)
        && selector.into_iter().flatten().all(|(key, value)| meta::label(node, key) == value.as_str())
        && meta::list(node, "/spec/taints").iter().all(|taint| {
            meta::text(taint, "/effect") == "PreferNoSchedule"
                || meta::list(pod, "/spec/tolerations").iter().any(|toleration| tolerates(taint, toleration))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(store: &mut Store, name: &str, more: &Value) {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"name": name}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            node[field] = value.clone();
        }
        store.put(ObjectKind::Node, node);
    }

    fn place(store: &mut Store, name: &str, spec: &Value) -> String {
        let mut pod = json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec});
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        store.put(ObjectKind::Pod, pod);
        schedule(store, Timestamp::UNIX_EPOCH);
        meta::text(store.get(ObjectKind::Pod.resource(), "a", name).unwrap(), "/spec/nodeName").to_owned()
    }

    #[test]
    fn pods_are_spread_over_suitable_nodes() {
        let mut store = Store::new(1);
        node(
            &mut store,
            "cordoned",
            &json!({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
        );
        node(&mut store, "down", &json!({"status": {}}));
        node(&mut store, "one", &json!({}));
        node(&mut store, "two", &json!({}));
        assert_eq!(place(&mut store, "a", &json!({})), "one");
        assert_eq!(place(&mut store, "b", &json!({})), "two");
        assert_eq!(place(&mut store, "c", &json!({"nodeSelector": {"name": "two"}})), "two");
        assert_eq!(place(&mut store, "d", &json!({})), "one");
        assert_eq!(place(&mut store, "e", &json!({"nodeSelector": {"name": "none"}})), "");
        assert_eq!(place(&mut store, "f", &json!({"nodeSelector": {"name": "cordoned"}})), "");
        let tolerant = json!({"nodeSelector": {"name": "cordoned"}, "tolerations": [{"operator": "Exists"}]});
        assert_eq!(place(&mut store, "g", &tolerant), "cordoned");
    }
}
