//! Bad documents, freezes and pauses.

use std::time::Duration;

use kiln_fleet_api::{Freeze, NodeState, Pool, Rollout, RolloutPhase, WaitReason};
use kube::api::DeleteParams;
use serde_json::json;

use crate::kilnd::Behaviour;
use crate::recording::Recording;
use crate::world::{World, restarting};

#[tokio::test(flavor = "multi_thread")]
async fn bad_document_stops_after_one_node_and_is_rejected() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(6).await;
    world.pool().await;
    let good = world.document("web-1", restarting("10Mi")).await;
    let bad = world.document("web-2", restarting("20Mi")).await;
    kilnd.on(&bad, Behaviour::Bad);
    let operator = world.operator("operator");
    let policy = json!({"waves": {"first": {"prefer": ["canary=true"]}}, "budgets": [{"maxUnavailable": 6}]});
    world.rollout("good", "web-1", policy.clone()).await;
    world.until_phase("good", RolloutPhase::Complete).await;

    let recording = Recording::start(&world.client);
    world.rollout("bad", "web-2", policy).await;
    let status = world.until_phase("bad", RolloutPhase::RolledBack).await;
    assert_eq!((status.failed, status.updated), (1, 0), "{status:?}");
    assert_eq!(status.failures[0].node, nodes[0]);
    assert_eq!(status.failures[0].reason, "the kubelet did not start");
    assert_eq!(recording.order(&bad), [(nodes[0].clone(), 1)], "no other node got the document");
    for state in world.list::<NodeState>().await {
        assert_eq!(state.spec.desired.unwrap().digest, good, "{:?}", state.metadata.name);
    }
    let pool = world.get::<Pool>("web").await.status.unwrap();
    assert_eq!(pool.rejected, std::slice::from_ref(&bad));
    assert_eq!(pool.target.unwrap().digest, Some(good));
    assert_eq!(world.events("bad", "NodeFailed").await.len(), 1);
    assert_eq!(world.events(&nodes[0], "NodeFailed").await.len(), 1);

    world.rollout("again", "web-2", json!({})).await;
    let waits = async || world.status("again").await.waiting_for.is_some();
    world.until("the rejected document is refused", waits).await;
    let waiting = world.status("again").await.waiting_for.unwrap();
    assert_eq!(waiting.reason, WaitReason::Reference, "{waiting:?}");
    assert_eq!(recording.order(&bad).len(), 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updated_nodes_return_to_the_previous_document() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(4).await;
    world.pool().await;
    let good = world.document("web-1", restarting("10Mi")).await;
    let bad = world.document("web-2", restarting("20Mi")).await;
    kilnd.on(&bad, Behaviour::Bad);
    kilnd.on_node(&bad, &nodes[0], Behaviour::InPlace);
    let operator = world.operator("operator");
    let policy = json!({"waves": {"first": {"prefer": ["canary=true"]}}});
    world.rollout("good", "web-1", policy.clone()).await;
    world.until_phase("good", RolloutPhase::Complete).await;
    world.rollout("bad", "web-2", policy).await;
    let status = world.until_phase("bad", RolloutPhase::RolledBack).await;
    assert_eq!(status.failed, 1, "{status:?}");
    for state in world.list::<NodeState>().await {
        let name = state.metadata.name.unwrap();
        assert_eq!(state.spec.desired.unwrap().digest, good, "`{name}`");
        assert_eq!(state.status.unwrap().current.unwrap().digest, good, "`{name}`");
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_while_a_freeze_exists_or_the_rollout_is_paused() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    world.nodes(3).await;
    world.pool().await;
    let digest = world.document("web-1", restarting("10Mi")).await;
    let recording = Recording::start(&world.client);
    world.create::<Freeze>(json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident 7"}})).await;
    let policy = json!({"waves": {"first": {"approve": "Manual"}}});
    world.rollout("frozen", "web-1", policy).await;
    let operator = world.operator("operator");
    let waits = async |reason: WaitReason| {
        world.status("frozen").await.waiting_for.is_some_and(|waiting| waiting.reason == reason)
    };
    world.until("the rollout waits for the freeze", async || waits(WaitReason::Freeze).await).await;
    let message = world.status("frozen").await.waiting_for.unwrap().message;
    assert!(message.contains("incident 7"), "{message}");
    let affected =
        async || world.get::<Freeze>("stop").await.status.is_some_and(|status| status.affected == ["frozen"]);
    world.until("the freeze names the rollout", affected).await;
    assert_eq!(recording.order(&digest), []);

    world.api::<Freeze>().delete("stop", &DeleteParams::default()).await.unwrap();
    world.until("the first wave ends", async || waits(WaitReason::Approval).await).await;
    world.change::<Rollout>("frozen", json!({"spec": {"paused": true, "approvedWave": 2}})).await;
    world.until("the rollout is paused", async || waits(WaitReason::Paused).await).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(recording.order(&digest).len(), 1, "only the first wave");
    world.change::<Rollout>("frozen", json!({"spec": {"paused": false}})).await;
    world.until_phase("frozen", RolloutPhase::Complete).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn freeze_ends_by_itself() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    world.nodes(1).await;
    world.pool().await;
    world.document("web-1", restarting("10Mi")).await;
    let until = crate::world::now() + jiff::SignedDuration::from_secs(4);
    world
        .create::<Freeze>(
            json!({"metadata": {"name": "short"}, "spec": {"reason": "lunch", "until": until.to_string()}}),
        )
        .await;
    world.rollout("after", "web-1", json!({})).await;
    let operator = world.operator("operator");
    world.until_phase("after", RolloutPhase::Complete).await;
    assert!(crate::world::now() >= until, "it started before the end of the freeze");
    operator.stop().await;
}
