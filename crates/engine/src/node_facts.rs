//! A node as judgements see it.

use kiln_kubernetes::{NodeSeen, Readiness};
use kiln_prototype::donor::{Node, Taint};

/// What judgements need of a node. A mark of ours that cannot be read counts as somebody's hold.
pub(crate) fn facts_of(node: &NodeSeen) -> Node {
    let taint = |taint: &kiln_kubernetes::Taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.clone(),
    };
    let held_by = match node.hold() {
        Ok(hold) => hold.map(|hold| hold.owner.to_string()),
        Err(_) => Some("somebody whose mark cannot be read".to_owned()),
    };
    Node {
        name: node.name.to_string(),
        provider_id: node.provider_id.clone(),
        labels: node.labels.clone(),
        annotations: node.annotations.clone(),
        taints: node.taints.iter().map(taint).collect(),
        cordoned: node.cordoned,
        ready: node.readiness == Readiness::Ready,
        ready_since: node.ready_since,
        heartbeat: node.heartbeat,
        created: node.created,
        windows: node.is_windows(),
        kernel: node.system.kernel.clone(),
        kubelet: node.system.kubelet.clone(),
        os_image: node.system.os_image.clone(),
        runtime: node.system.runtime.clone(),
        held_by,
    }
}
