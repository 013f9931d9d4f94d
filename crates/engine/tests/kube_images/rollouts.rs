//! Rollouts of image versions that succeed or are refused.

use kiln_fleet_api::{Freeze, Prototype, Rollout, RolloutPhase, Verdict};
use serde_json::json;

use crate::world::{SET, World};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_in_waves_by_machines_of_a_proven_version() {
    let world = World::new().await;
    world.pool(json!({"azureScaleSet": SET})).await;
    world.prototype("web", json!(null)).await;
    world.patch(&world.names().await[0].clone()).await;
    let _operator = world.operator("operator", true);
    let version = format!("web-{}", world.complete_run("1").await);
    let before = world.names().await;
    world.create::<Freeze>(json!({"metadata": {"name": "stop"}, "spec": {"reason": "sale"}})).await;
    let policy = json!({"waves": {"first": {"nodes": 1}, "then": {"factor": 2, "maxPercent": 100}}, "budgets": [{"maxUnavailable": 1}]});
    let spec = json!({"pools": ["web"], "target": {"imageVersion": version}, "policy": policy});
    world.create::<Rollout>(json!({"metadata": {"name": "good"}, "spec": spec})).await;
    let status = async || world.rollout_status("good").await;
    let frozen = async || status().await.waiting_for.is_some_and(|waiting| waiting.message.contains("Freeze `stop`"));
    world.until("the freeze stops it", frozen).await;
    assert_eq!(world.names().await, before);
    world.api::<Freeze>().delete("stop", &kube::api::DeleteParams::default()).await.unwrap();
    world.until("the rollout is complete", async || status().await.phase == RolloutPhase::Complete).await;
    let status = status().await;
    let waves: Vec<(i64, i64, Verdict)> =
        status.waves.iter().map(|wave| (wave.size, wave.done, wave.verdict)).collect();
    assert_eq!(waves, [(1, 1, Verdict::Passed), (2, 2, Verdict::Passed)]);
    assert_eq!((status.updated_text.as_str(), status.plan_text.as_str()), ("3/3", "replace:3"));
    let after = world.names().await;
    assert_eq!(after.len(), 3);
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?} instead of {before:?}");
    let counted = async || world.version(&version).await.and_then(|one| one.status).is_some_and(|one| one.nodes == 3);
    world.until("the record counts the machines", counted).await;
    world.assert_released().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_without_a_canary_is_refused() {
    let world = World::new().await;
    world.pool(json!({"azureScaleSet": SET})).await;
    world.prototype("web", json!(null)).await;
    world.change::<Prototype>("web", json!({"spec": {"canary": {"skip": true}}})).await;
    world.patch(&world.names().await[0].clone()).await;
    let _operator = world.operator("operator", true);
    let version = format!("web-{}", world.complete_run("1").await);
    for (name, target) in [("unproven", version.as_str()), ("missing", "web-1.2.3")] {
        let spec = json!({"pools": ["web"], "target": {"imageVersion": target}});
        world.create::<Rollout>(json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let message = async |name: &'static str| world.rollout_status(name).await.waiting_for.unwrap_or_default().message;
    world.until("it is refused", async || message("unproven").await.contains("is not proven")).await;
    world.until("it is missing", async || message("missing").await.contains("does not exist")).await;
    assert_eq!(world.names().await.len(), 3);
    let both = json!({"metadata": {"name": "both"}, "spec": {"pools": ["web"], "target": {"imageVersion": "a", "nodeConfig": "b"}}});
    let object: Rollout = serde_json::from_value(both).unwrap();
    let refused = world.api::<Rollout>().create(&kube::api::PostParams::default(), &object).await.unwrap_err();
    assert!(refused.to_string().contains("exactly one of `nodeConfig` and `imageVersion`"), "{refused}");
}
