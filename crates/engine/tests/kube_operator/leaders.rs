//! Several operators.

use std::time::Duration;

use kiln_engine::operator::OperatorEvent;
use kiln_fleet_api::{NodeState, RolloutPhase};
use kiln_kubernetes::connect;
use kube::Config;
use serde_json::json;

use crate::kilnd::Behaviour;
use crate::recording::Recording;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_operators_acts_and_the_other_continues_after_its_death() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    world.nodes(6).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Reboot);
    let recording = Recording::start(&world.client);
    let client = || world.client.clone();
    let lease = Duration::from_secs(3);
    let first = world.operator_with("first", client(), lease);
    let leads = |operator: &crate::world::Operator| {
        operator.log.lock().unwrap().iter().any(|event| matches!(event, OperatorEvent::Leading { .. }))
    };
    world.until("the first operator leads", async || leads(&first)).await;
    let second = world.operator_with("second", client(), lease);
    world
        .rollout("two", "web-1", json!({"budgets": [{"maxUnavailable": 2}], "waves": {"then": {"maxPercent": 50}}}))
        .await;
    let updated = async || world.status("two").await.updated >= 2;
    world.until("two nodes are updated", updated).await;
    assert!(!leads(&second), "{:?}", second.lines());
    // Killed without releasing its lease.
    drop(first);
    let status = world.until_phase("two", RolloutPhase::Complete).await;
    assert_eq!((status.updated, status.failed), (6, 0), "{status:?}");
    assert!(leads(&second), "{:?}", second.lines());
    for state in world.list::<NodeState>().await {
        assert_eq!(state.status.unwrap().boot_id, "boot-2", "{:?} reboots once", state.metadata.name);
    }
    for set in recording.cordoned() {
        assert!(set.len() <= 2, "{set:?}");
    }
    let twice: Vec<_> = recording.assignments().into_iter().filter(|(_, documents)| documents.len() != 1).collect();
    assert_eq!(twice, [], "each node is assigned once");
    let finished =
        async || world.get::<kiln_fleet_api::Rollout>("two").await.metadata.finalizers.unwrap_or_default().is_empty();
    world.until("the finalizer is removed", finished).await;
    world.assert_released().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_that_stops_hands_its_lease_over_at_once() {
    let world = World::new().await;
    // Longer than the test waits for anything.
    let lease = Duration::from_hours(1);
    let first = world.operator_with("first", world.client.clone(), lease);
    let leads = |operator: &crate::world::Operator| {
        operator.log.lock().unwrap().iter().any(|event| matches!(event, OperatorEvent::Leading { .. }))
    };
    world.until("the first operator leads", async || leads(&first)).await;
    first.stop().await;
    let second = world.operator_with("second", world.client.clone(), lease);
    world.until("the second operator leads", async || leads(&second)).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_without_permissions_reports_it_and_is_not_ready() {
    let world = World::new().await;
    let kubeconfig = crate::world::stranger();
    let options = kube::config::KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let operator = world.operator_with("stranger", connect(config).unwrap(), Duration::from_secs(10));
    let failing = async || {
        let log = operator.log.lock().unwrap();
        log.iter().any(|event| matches!(event, OperatorEvent::WatchFailed { kind: "Rollouts", .. }))
    };
    world.until("the watch fails", failing).await;
    let (code, text) = crate::pools::http(operator.address().await, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("Rollouts") && text.contains("forbidden"), "{text}");
    operator.stop().await;
}
