//! Faults of objects: each has a condition, and one Event with advice.

use kiln_fleet_api::{Condition, NodeConfig, Pool, Rollout, RolloutPhase, RolloutPolicy, WaitReason};
use kube::api::DeleteParams;
use serde_json::json;

use crate::world::{World, document, restarting};

impl World {
    async fn waits_for(&self, rollout: &str, reason: WaitReason) -> String {
        let waits = async || self.status(rollout).await.waiting_for.is_some_and(|waiting| waiting.reason == reason);
        self.until(&format!("`{rollout}` waits for {reason:?}"), waits).await;
        self.status(rollout).await.waiting_for.unwrap().message
    }
}

fn ready(conditions: &[Condition]) -> (String, String) {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    (ready.status.clone(), ready.message.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_invalid_references_are_named_and_the_rollout_continues_when_they_are_fixed() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    world.nodes(1).await;
    let operator = world.operator("operator");
    world.rollout_with("r", json!({"target": {"nodeConfig": "web-1"}, "policyRef": "careful"})).await;
    assert!(world.waits_for("r", WaitReason::Reference).await.contains("Pool `web` does not exist"));
    world.pool().await;
    let missing = async |text: &str| {
        let says = async || world.status("r").await.waiting_for.is_some_and(|waiting| waiting.message.contains(text));
        world.until(text, says).await;
    };
    missing("RolloutPolicy `careful` does not exist").await;
    world.create::<RolloutPolicy>(json!({"metadata": {"name": "careful"}, "spec": {"drainTimeout": "soon"}})).await;
    missing("`drainTimeout`: invalid duration `soon`").await;
    let shown = async || world.get::<RolloutPolicy>("careful").await.status.is_some();
    world.until("the policy has a status", shown).await;
    let status = world.get::<RolloutPolicy>("careful").await.status.unwrap();
    let (is_ready, message) = ready(&status.conditions);
    assert!(is_ready == "False" && message.contains("invalid duration `soon`"), "{message}");
    assert_eq!(status.used_by, ["r"]);
    assert_eq!(world.events("careful", "Invalid").await.len(), 1);
    world.change::<RolloutPolicy>("careful", json!({"spec": {"drainTimeout": "1m"}})).await;
    missing("NodeConfig `web-1` does not exist").await;
    assert!(Condition::is_true(&world.status("r").await.conditions, "Stalled"), "{:?}", world.status("r").await);
    world.document("web-1", restarting("10Mi")).await;
    world.until_phase("r", RolloutPhase::Complete).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_has_one_event() {
    let world = World::new().await;
    world.nodes(1).await;
    world.pool().await;
    world.create::<NodeConfig>(json!({"metadata": {"name": "broken"}, "spec": {"document": "{}"}})).await;
    let window = json!({"from": "22:00", "to": "05:00", "timeZone": "Mars/Base"});
    world.create::<RolloutPolicy>(json!({"metadata": {"name": "odd"}, "spec": {"windows": [window]}})).await;
    world.rollout("faulty", "broken", json!({})).await;
    let operator = world.operator("operator");
    let message = world.waits_for("faulty", WaitReason::Reference).await;
    assert!(message.contains("NodeConfig `broken` is invalid"), "{message}");
    let shown = async || world.get::<RolloutPolicy>("odd").await.status.is_some();
    world.until("the policy has a status", shown).await;
    // Each change makes the operator look at everything again.
    for round in 0..5 {
        world.change::<Pool>("web", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    let (is_ready, message) = ready(&world.get::<NodeConfig>("broken").await.status.unwrap().conditions);
    assert!(is_ready == "False" && message.contains("`apiVersion` and `kind` are not set"), "{message}");
    assert_eq!(world.events("broken", "Invalid").await.len(), 1);
    let notes = world.events("odd", "Invalid").await;
    assert!(notes.len() == 1 && notes[0].contains("unknown time zone `Mars/Base`"), "{notes:?}");
    let all = operator.lines();
    let about = all.iter().filter(|line| line.contains("Rollout `faulty`")).count();
    assert_eq!(about, 1, "{all:#?}");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_rollout_on_the_same_pool_waits_for_the_older_one() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    world.nodes(2).await;
    world.pool().await;
    world.document("web-1", restarting("10Mi")).await;
    let second = world.document("web-2", restarting("20Mi")).await;
    world.rollout("a-first", "web-1", json!({"waves": {"first": {"approve": "Manual"}}})).await;
    // Creation times are whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    world.rollout("b-second", "web-2", json!({})).await;
    let operator = world.operator("operator");
    world.waits_for("b-second", WaitReason::OtherRollout).await;
    assert_eq!(world.status("b-second").await.waiting_for.unwrap().objects, ["a-first"]);
    world.waits_for("a-first", WaitReason::Approval).await;
    world.change::<Rollout>("a-first", json!({"spec": {"approvedWave": 2}})).await;
    world.until_phase("a-first", RolloutPhase::Complete).await;
    world.until_phase("b-second", RolloutPhase::Complete).await;
    let target = world.get::<Pool>("web").await.status.unwrap().target.unwrap();
    assert_eq!(target.digest, Some(second));
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_approval_and_replaced_document_stop_the_rollout() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    world.nodes(3).await;
    world.pool().await;
    world.document("web-1", restarting("10Mi")).await;
    let spec = json!({
        "target": {"nodeConfig": "web-1"}, "policy": {"waves": {"first": {"approve": "Manual"}}},
        "approvedWave": 2, "approvedUntil": "2020-01-01T00:00:00Z",
    });
    world.rollout_with("r", spec).await;
    let operator = world.operator("operator");
    let message = world.waits_for("r", WaitReason::Approval).await;
    assert!(message.contains("2020-01-01"), "{message}");
    world.api::<NodeConfig>().delete("web-1", &DeleteParams::default()).await.unwrap();
    let other = json!({"metadata": {"name": "web-1"}, "spec": {"document": document("web-1", restarting("30Mi"))}});
    world.create::<NodeConfig>(other).await;
    // In between, the operator may see that it does not exist.
    world
        .until("the rollout names the replaced document", async || {
            let waiting = world.status("r").await.waiting_for;
            waiting.is_some_and(|waiting| {
                waiting.reason == WaitReason::Reference && waiting.message.contains("was replaced")
            })
        })
        .await;
    assert_eq!(world.status("r").await.updated, 1);
    operator.stop().await;
}
