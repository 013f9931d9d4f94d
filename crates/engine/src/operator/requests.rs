//! Labels and taints that nodes ask for, because a node may not set them itself.
//!
//! A node asks in the status of its NodeState, which anyone with its credential can write. So only what a document of the cluster contains
//! is granted: a value must be in the document that the node has or gets, and only labels and taints of some document are removed.

use k8s_openapi::api::core::v1::{Node, Taint};
use kiln_fleet_api::NodeState;
use kiln_node_config::spec::Kubelet;
use serde_json::{Map, Value, json};

use super::documents::Documents;

/// The merge patch that grants the requests of a node; `None` if there is nothing to change.
pub(super) fn plan(node: &Node, state: &NodeState, documents: &Documents) -> Option<Value> {
    let status = state.status.as_ref()?;
    let requests = &status.requests;
    if requests.labels.is_empty() && requests.taints.is_empty() {
        return None;
    }
    let current = status.current.as_ref().map(|current| current.digest.as_str());
    let desired = state.spec.desired.as_ref().map(|desired| desired.digest.as_str());
    let own = [desired, current].into_iter().flatten();
    let own: Vec<&Kubelet> =
        own.filter_map(|digest| documents.by_digest(digest)).map(|document| &document.config.spec.kubelet).collect();
    let any = || documents.all().map(|document| &document.config.spec.kubelet);

    let mut labels = Map::new();
    for (key, wanted) in &requests.labels {
        let present = node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let is_granted = match wanted {
            Some(value) => own.iter().any(|kubelet| kubelet.labels.get(key) == Some(value)),
            None => any().any(|kubelet| kubelet.labels.contains_key(key)),
        };
        if is_granted && present != wanted.as_ref() {
            labels.insert(key.clone(), json!(wanted));
        }
    }

    let before = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut taints = before.clone();
    for (id, wanted) in &requests.taints {
        let Some((key, effect)) = id.rsplit_once(':') else { continue };
        let is_it = |taint: &Taint| taint.key == key && taint.effect == effect;
        let names = |kubelet: &Kubelet, value: Option<&String>| {
            let mut taints = kubelet.taints.iter().filter(|taint| taint.key == key && taint.effect.as_str() == effect);
            taints.any(|taint| value.is_none_or(|value| taint.value == *value))
        };
        match wanted {
            Some(value) if own.iter().any(|kubelet| names(kubelet, Some(value))) => {
                if taints.iter().any(|taint| is_it(taint) && taint.value.as_deref().unwrap_or_default() == value) {
                    continue;
                }
                taints.retain(|taint| !is_it(taint));
                let value = (!value.is_empty()).then(|| value.clone());
                taints.push(Taint { key: key.to_owned(), effect: effect.to_owned(), value, time_added: None });
            }
            None if any().any(|kubelet| names(kubelet, None)) => taints.retain(|taint| !is_it(taint)),
            _ => {}
        }
    }

    let mut patch = Map::new();
    if !labels.is_empty() {
        patch.insert("metadata".to_owned(), json!({"labels": labels}));
    }
    if taints != before {
        patch.insert("spec".to_owned(), json!({"taints": taints}));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_fleet_api::{NodeConfig, NodeConfigSpec};

    use super::*;
    use crate::operator::documents::valid_document;
    use crate::operator::store::Snapshot;

    fn documents() -> (Documents, String) {
        let config = |name: &str, kubelet: Value| {
            let document = valid_document(name, &kubelet);
            (name.to_owned(), Arc::new(NodeConfig::new(name, NodeConfigSpec { document })))
        };
        let mut documents = Documents::default();
        documents.update(&Snapshot::from([
            config("old", json!({"labels": {"node-role.kubernetes.io/old": ""}, "taints": [{"key": "old", "value": "", "effect": "NoSchedule"}]})),
            config("new", json!({"labels": {"node-role.kubernetes.io/gpu": "a"}, "taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]})),
        ]));
        let digest = documents.get("new").unwrap().unwrap().digest.clone();
        (documents, digest)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
    fn state(digest: &str, requests: Value) -> NodeState {
        let status = json!({"phase": "Current", "current": {"digest": digest}, "requests": requests});
        NodeState { status: serde_json::from_value(status).unwrap(), ..NodeState::default() }
    }

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_the_document_contains_is_granted_once() {
        let (documents, digest) = documents();
        let asks = state(
            &digest,
            json!({
                "labels": {"node-role.kubernetes.io/gpu": "a", "node-role.kubernetes.io/old": null},
                "taints": {"gpu:NoSchedule": "x", "old:NoSchedule": null},
            }),
        );
        let before = node(json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/old": "", "keep": "1"}},
            "spec": {"taints": [{"key": "old", "effect": "NoSchedule"}, {"key": "person", "effect": "NoExecute"}]},
        }));
        let patch = plan(&before, &asks, &documents).unwrap();
        assert_eq!(
            patch["metadata"]["labels"],
            json!({"node-role.kubernetes.io/gpu": "a", "node-role.kubernetes.io/old": null})
        );
        assert_eq!(
            patch["spec"]["taints"],
            json!([{"key": "person", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoSchedule", "value": "x"}])
        );
        let after = node(json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": "a", "keep": "1"}},
            "spec": {"taints": patch["spec"]["taints"]},
        }));
        assert_eq!(plan(&after, &asks, &documents), None);
    }

    #[test]
    fn what_no_document_contains_is_refused() {
        let (documents, digest) = documents();
        let asks = state(
            &digest,
            json!({
                "labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/gpu": "other", "team": null},
                "taints": {"gpu:NoSchedule": "y", "person:NoExecute": null, "gpu:NoExecute": "x", "malformed": "x"},
            }),
        );
        let before = node(json!({
            "metadata": {"name": "n", "labels": {"team": "a"}}, "spec": {"taints": [{"key": "person", "effect": "NoExecute"}]},
        }));
        assert_eq!(plan(&before, &asks, &documents), None);
    }
}
