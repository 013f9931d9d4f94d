//! Nodes that cannot be finished: a drain that a budget blocks, and a node that is deleted.

use kiln_fleet_api::{NodeState, RolloutPhase};
use serde_json::json;

use super::fleet::Fleet;
use super::node::Counts;
use super::pods::{BUDGET, delete_pod, start_blocking_pod};

pub(crate) fn blocked(fleet: &mut Fleet) {
    let target = fleet.documents.draining();
    fleet.store(&target);
    start_blocking_pod(fleet, "node-2");
    let before = fleet.counts();
    let policy = json!({
        "waves": {"first": {"prefer": ["kubernetes.io/hostname=node-2"]}, "then": {"maxPercent": 100}},
        "budgets": [{"maxUnavailable": 1}], "drainTimeout": "10s", "failure": {"nodes": 2, "inFirstWave": 2},
    });
    fleet.create(
        "Rollout",
        "blocked",
        &json!({"pools": ["right"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    fleet.wait("node-2 is cordoned", |fleet| fleet.is_cordoned("node-2").then_some(()));
    let status = fleet.wait_phase("blocked", RolloutPhase::Complete);
    assert_eq!((status.updated, status.failed), (1, 1), "{status:?}");
    let failure = &status.failures[0];
    assert_eq!(failure.node, "node-2");
    assert!(failure.reason.contains(BUDGET) && failure.reason.contains("default/web-"), "{failure:?}");
    fleet.assert_released();
    fleet.assert_in_force("node-4", &target);
    assert_eq!(fleet.node("node-2").counts(), before[1], "the kubelet of node-2 was not restarted");
    assert_eq!(fleet.rejected("right").iter().filter(|digest| **digest == target.digest).count(), 0);
    delete_pod(fleet);
}

pub(crate) fn deleted(fleet: &mut Fleet) {
    let target = fleet.documents.draining();
    fleet.store(&target);
    start_blocking_pod(fleet, "node-4");
    let before = fleet.counts();
    let policy = json!({
        "waves": {"first": {"prefer": ["kubernetes.io/hostname=node-4"]}, "then": {"maxPercent": 100}},
        "budgets": [{"maxUnavailable": 1}],
    });
    fleet.create(
        "Rollout",
        "deleted",
        &json!({"pools": ["right"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    fleet.wait("node-4 is cordoned", |fleet| fleet.is_cordoned("node-4").then_some(()));
    let node = fleet.node_mut("node-4");
    node.is_kept_off = true;
    node.machine.cut_power();
    fleet.plane.run_kubectl(&["delete", "node", "node-4"]).expect("deleted");
    let status = fleet.wait_phase("deleted", RolloutPhase::Complete);
    assert_eq!((status.total, status.updated, status.failed), (1, 1, 0), "{status:?}");
    fleet.assert_in_force("node-2", &target);
    assert_eq!(fleet.node("node-2").counts().since(before[1]), Counts { kubelet_starts: 1, boots: 0 });
    fleet.wait("the NodeState is garbage-collected", |fleet| fleet.get::<NodeState>("node-4").is_none().then_some(()));
    fleet.assert_released();
    delete_pod(fleet);

    // The machine returns as a new node, and is assigned the last complete target outside of a rollout.
    fleet.node_mut("node-4").is_kept_off = false;
    fleet.join(3);
    fleet.wait("the new node is assigned the target and answers", |fleet| {
        let state = fleet.state("node-4")?;
        let desired = state.spec.desired.filter(|desired| desired.rollout.is_empty())?;
        let is_answered = state.status?.observed_generation == state.metadata.generation;
        (is_answered && desired.digest == target.digest).then_some(())
    });
    fleet.assert_released();
}
