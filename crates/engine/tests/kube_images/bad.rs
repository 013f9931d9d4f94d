//! A version whose machines never become Ready.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kiln_engine::DiscardEvents;
use kiln_fleet_api::{Pool, Rollout, RolloutPhase};
use serde_json::json;

use crate::world::{SET, World, is_ready};

#[tokio::test(flavor = "multi_thread")]
async fn bad_version_is_rejected_and_the_pool_returns_to_the_version_before_and_is_paused() {
    let world = World::new().await;
    world.pool(json!({"azureScaleSet": SET})).await;
    world.prototype("web", json!(null)).await;
    world.patch(&world.names().await[0].clone()).await;
    let _operator = world.operator("operator", true);
    let good = world.complete_run("1").await;
    world.next_day();
    world.patch(&world.names().await[1].clone()).await;
    let bad = world.complete_run("2").await;
    assert_ne!(good, bad);
    world.is_bad.store(true, Ordering::Relaxed);
    let before = world.names().await;
    let policy = json!({"nodeTimeout": "20s", "budgets": [{"maxUnavailable": 1}]});
    let spec = json!({"pools": ["web"], "target": {"imageVersion": format!("web-{bad}")}, "policy": policy});
    world.create::<Rollout>(json!({"metadata": {"name": "bad"}, "spec": spec})).await;
    let status = async || world.rollout_status("bad").await;
    world.until("the rollout is rolled back", async || status().await.phase == RolloutPhase::RolledBack).await;
    let status = status().await;
    assert_eq!((status.failed, status.waves[0].failed, status.waves[0].done), (1, 1, 0), "{status:#?}");
    assert_eq!(world.names().await, before, "no old node was removed, and the new machine is gone");
    assert_eq!(world.nodes().await.iter().filter(|node| is_ready(node)).count(), 3);

    let record = async || world.version(&format!("web-{bad}")).await.and_then(|one| one.status).unwrap_or_default();
    world
        .until("the version is rejected", async || record().await.rejected.is_some() && !record().await.included)
        .await;
    let why = record().await.rejected.unwrap().why;
    assert!(why.contains("Rollout `bad`") && why.contains("not Ready"), "{why}");
    let pool = async || world.api::<Pool>().get("web").await.unwrap().status.unwrap_or_default();
    let paused = async || {
        let image = pool().await.image;
        image.is_some_and(|image| image.paused.is_some() && image.version.as_ref() == Some(&good))
    };
    world.until("the pool is paused on the version before", paused).await;
    let context = world.process("test", Arc::new(DiscardEvents));
    assert_eq!(context.pools(&[SET.parse().unwrap()]).await.unwrap()[0].capacity, 3);
    world.assert_released().await;
}
