//! The operator is killed with SIGKILL in every phase of a node's turn.

use kiln_fleet_api::{Phase, RequestedAction, RolloutPhase};
use serde_json::json;

use super::fleet::Fleet;
use super::node::Counts;
use super::pods::{delete_budget, delete_pod, start_blocking_pod};

/// Effects on a node of a document that needs a reboot: kilnd restarts the kubelet when it applies the document, and the machine
/// boots once.
const ONCE: Counts = Counts { kubelet_starts: 2, boots: 1 };

pub(crate) fn every_phase(fleet: &mut Fleet) {
    let target = fleet.documents.rebooting();
    fleet.store(&target);
    start_blocking_pod(fleet, "node-1");
    let before = fleet.counts();
    let boot_id = |fleet: &Fleet, node: &str| fleet.state(node)?.status.map(|status| status.boot_id);
    let boot = boot_id(fleet, "node-1").expect("a boot id");
    let policy = json!({
        "waves": {"first": {"prefer": ["kubernetes.io/hostname=node-1"]}, "then": {"maxPercent": 100}},
        "budgets": [{"maxUnavailable": 1}],
    });

    // After the assignment: kilnd has not seen it.
    fleet.node("node-1").freeze_kilnd();
    fleet.create(
        "Rollout",
        "killed",
        &json!({"pools": ["left"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    fleet.wait_assigned("node-1", "killed");
    fleet.operator.kill();
    fleet.node("node-1").thaw_kilnd();
    wait_request(fleet, "node-1", "", RequestedAction::Reboot);
    assert!(!fleet.is_cordoned("node-1"));

    // During the drain, which the budget blocks.
    fleet.operator.start();
    fleet.wait("node-1 is cordoned", |fleet| fleet.is_cordoned("node-1").then_some(()));
    fleet.operator.kill();
    assert_eq!(fleet.state("node-1").expect("a NodeState").spec.allow, None, "not drained yet");
    fleet.node("node-1").freeze_kilnd();
    fleet.operator.start();
    delete_budget(fleet);

    // After the consent: kilnd has not seen it.
    fleet.wait("node-1 is allowed to change", |fleet| {
        (fleet.state("node-1")?.spec.allow? == target.digest).then_some(())
    });
    fleet.operator.kill();
    fleet.node("node-1").thaw_kilnd();
    wait_request(fleet, "node-1", &target.digest, RequestedAction::Reboot);
    fleet.node("node-1").freeze_kilnd();
    fleet.operator.start();

    // After the order to reboot: kilnd has not seen it.
    fleet.wait("node-1 is ordered to reboot", |fleet| fleet.state("node-1")?.spec.reboot.filter(|id| *id == boot));
    fleet.operator.kill();
    fleet.node("node-1").thaw_kilnd();
    fleet.wait("node-1 has rebooted and committed", |fleet| {
        let status = fleet.state("node-1")?.status?;
        (status.boot_id != boot && status.phase == Phase::Current).then_some(())
    });
    assert!(fleet.is_cordoned("node-1"), "only the operator releases it");
    fleet.operator.start();

    // During the reboot of the second node, which then ends its trial without an operator.
    fleet.node_mut("node-3").is_kept_off = true;
    fleet.wait("node-3 is off", |fleet| fleet.node_mut("node-3").machine.is_off().then_some(()));
    fleet.operator.kill();
    fleet.node_mut("node-3").is_kept_off = false;
    fleet.wait("node-3 has committed", |fleet| {
        let status = fleet.state("node-3")?.status?;
        (status.phase == Phase::Current && status.current?.digest == target.digest).then_some(())
    });
    fleet.operator.start();

    let status = fleet.wait_phase("killed", RolloutPhase::Complete);
    assert_eq!((status.updated, status.failed), (2, 0), "{status:?}");
    for (name, index) in [("node-1", 0), ("node-3", 2)] {
        fleet.assert_in_force(name, &target);
        assert_eq!(fleet.node(name).counts().since(before[index]), ONCE, "{name}");
    }
    for (name, index) in [("node-2", 1), ("node-4", 3)] {
        assert_eq!(fleet.node(name).counts(), before[index], "{name} is in another pool");
    }
    fleet.assert_released();
    delete_pod(fleet);
}

/// Waits until a node asks for an action while this document is in force; while another one is, if the digest is empty.
#[track_caller]
fn wait_request(fleet: &mut Fleet, node: &str, in_force: &str, action: RequestedAction) {
    fleet.wait(&format!("{node} asks for {action:?}"), |fleet| {
        let state = fleet.state(node)?;
        let status = state.status?;
        let digest = status.current?.digest;
        let is_pending = status.phase == Phase::Pending && status.requests.action == Some(action);
        (is_pending && (in_force.is_empty() || digest == in_force)).then_some(())
    });
}
