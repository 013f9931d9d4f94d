//! Objects that disappear during a rollout.

use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{NodeState, Rollout, RolloutPhase};
use kiln_kubernetes::HOLD_ANNOTATION;
use kube::api::DeleteParams;
use serde_json::json;

use crate::drains::{kured, lock};
use crate::kilnd::Behaviour;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn deleted_rollout_releases_its_nodes_first() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(2).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    let operator = world.operator("operator");
    world.rollout("deleted", "web-1", json!({"waves": {"first": {"prefer": ["canary=true"]}}})).await;
    let held = async || {
        let annotations = world.get::<Node>(&nodes[0]).await.metadata.annotations.unwrap_or_default();
        annotations.contains_key(HOLD_ANNOTATION)
    };
    world.until("the node is held", held).await;
    world.api::<Rollout>().delete("deleted", &DeleteParams::default()).await.unwrap();
    let gone = async || world.api::<Rollout>().get_opt("deleted").await.unwrap().is_none();
    world.until("the rollout is gone", gone).await;
    // Released before it disappeared.
    world.assert_released().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_that_is_deleted_while_no_operator_runs_stays_until_one_released_its_nodes() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    let first = world.operator("first");
    world.rollout("orphaned", "web-1", json!({})).await;
    let held = async || {
        let annotations = world.get::<Node>(&nodes[0]).await.metadata.annotations.unwrap_or_default();
        annotations.contains_key(HOLD_ANNOTATION)
    };
    world.until("the node is held", held).await;
    first.stop().await;
    assert!(held().await, "the hold stays for the next operator");
    world.api::<Rollout>().delete("orphaned", &DeleteParams::default()).await.unwrap();
    assert!(world.api::<Rollout>().get_opt("orphaned").await.unwrap().is_some(), "the finalizer keeps it");
    let second = world.operator("second");
    let gone = async || world.api::<Rollout>().get_opt("orphaned").await.unwrap().is_none();
    world.until("the rollout is gone", gone).await;
    world.assert_released().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_without_a_rollout_is_released() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    let hold = json!({"owner": "rollout/gone/11111111-1111-1111-1111-111111111111", "wasCordoned": false, "loadBalancerWas": "absent"});
    let patch =
        json!({"metadata": {"annotations": {HOLD_ANNOTATION: hold.to_string()}}, "spec": {"unschedulable": true}});
    world.change::<Node>(&nodes[0], patch).await;
    let operator = world.operator("operator");
    let released = async || {
        let node = world.get::<Node>(&nodes[0]).await;
        node.spec.is_none_or(|spec| spec.unschedulable != Some(true))
    };
    world.until("the node is released", released).await;
    world.assert_released().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_is_deleted_in_its_turn_frees_its_place() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(3).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    // Nothing answers for the first node after its drain: it stays in its turn.
    kilnd.on(&digest, Behaviour::Drain);
    kilnd.on_node(&digest, &nodes[0], Behaviour::Reboot);
    kured(&world, json!({})).await;
    let operator = world.operator("operator");
    let policy = json!({"waves": {"first": {"prefer": ["canary=true"]}}, "budgets": [{"maxUnavailable": 1}]});
    world.rollout("gone", "web-1", policy).await;
    let held = async || {
        let annotations = world.get::<Node>(&nodes[0]).await.metadata.annotations.unwrap_or_default();
        annotations.contains_key(HOLD_ANNOTATION)
    };
    world.until("the node is held", held).await;
    world.api::<Node>().delete(&nodes[0], &DeleteParams::default()).await.unwrap();
    let status = world.until_phase("gone", RolloutPhase::Complete).await;
    assert_eq!((status.total, status.updated, status.failed), (2, 2, 0), "{status:?}");
    let collected = async || world.api::<NodeState>().get_opt(&nodes[0]).await.unwrap().is_none();
    world.until("its NodeState is garbage-collected", collected).await;
    world.until("kured's lock is free", async || lock(&world).await.is_none()).await;
    world.assert_released().await;
    operator.stop().await;
}
