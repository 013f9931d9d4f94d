//! Prototype runs.

use std::sync::Arc;
use std::time::Duration;

use kiln_engine::DiscardEvents;
use kiln_fleet_api::{Freeze, Pool, Prototype, RunOutcome};
use kiln_kubernetes::PoolLease;
use serde_json::json;

use crate::world::{SET, World, true_condition};

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_prototype_are_conditions_that_say_what_to_do() {
    let world = World::new().await;
    world.prototype("web", json!({"at": "02:00", "timeZone": "Europe/Berlin"})).await;
    let stalled = async || true_condition(&world.status().await.conditions, "Stalled").unwrap_or_default();
    let operator = world.operator("without", false);
    world.until("images are off", async || stalled().await.0 == "ImagesOff").await;
    assert!(stalled().await.1.contains("`kiln operator --images`"));
    drop(operator);
    let _operator = world.operator("with", true);
    world.until("the pool is missing", async || stalled().await.0 == "NoPool").await;
    world.pool(json!(null)).await;
    world.until("the factory is missing", async || stalled().await.0 == "NoFactory").await;
    world.change::<Pool>("web", json!({"spec": {"factory": {"azureScaleSet": "other"}}})).await;
    let unreadable = async || {
        let status = world.api::<Pool>().get("web").await.unwrap().status.unwrap_or_default();
        status
            .conditions
            .iter()
            .any(|one| one.reason == "FactoryUnreadable" && one.message.contains("`other` does not exist"))
    };
    world.until("the scale set does not exist", unreadable).await;
    let next = async || world.status().await.next_run.is_some();
    world.until("the next run is known", next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_by_annotation_and_by_schedule() {
    let world = World::new().await;
    world.pool(json!({"azureScaleSet": SET})).await;
    world.prototype("web", json!(null)).await;
    let donor = world.names().await.remove(1);
    world.patch(&donor).await;
    world.create::<Freeze>(json!({"metadata": {"name": "stop"}, "spec": {"reason": "sale"}})).await;
    let _operator = world.operator("operator", true);
    world.request("1").await;
    let frozen = async || world.status().await.conditions.iter().any(|one| one.message.contains("Freeze"));
    world.until("the run waits for the freeze", frozen).await;
    assert_eq!(world.status().await.last_run, None);
    world.api::<Freeze>().delete("stop", &kube::api::DeleteParams::default()).await.unwrap();
    let version = world.complete_run("1").await;
    let status = world.status().await;
    assert_eq!(
        (status.donor.as_deref(), status.last_run.unwrap().outcome),
        (Some(donor.as_str()), RunOutcome::Completed)
    );

    let record = format!("web-{version}");
    let proven =
        async || world.version(&record).await.and_then(|one| one.status).is_some_and(|one| one.proven && one.included);
    world.until("the version has a record", proven).await;
    let spec = world.version(&record).await.unwrap().spec;
    assert_eq!(
        (spec.pool.as_str(), spec.version, spec.donor.as_deref()),
        ("web", version.clone(), Some(donor.as_str()))
    );
    let image = async || world.api::<Pool>().get("web").await.unwrap().status.and_then(|status| status.image);
    world
        .until("the pool shows the version", async || {
            image().await.is_some_and(|image| image.version.as_ref() == Some(&version))
        })
        .await;

    // A time of the schedule comes, and today has its version already.
    let due = world.clock() + jiff::SignedDuration::from_mins(1);
    let at = due.strftime("%H:%M").to_string();
    world.change::<Prototype>("web", json!({"spec": {"schedule": {"at": at}}})).await;
    let skipped = async || world.status().await.last_run.is_some_and(|run| run.outcome == RunOutcome::Skipped);
    world.until("the schedule starts a run", skipped).await;
    assert!(!world.status().await.reasons.is_empty());
    assert_eq!(world.versions().await, [version], "one version per day");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_another_process_is_respected_and_a_killed_operator_is_continued() {
    let world = World::new().await;
    world.pool(json!({"azureScaleSet": SET})).await;
    world.prototype("web", json!(null)).await;
    world.patch(&world.names().await[0].clone()).await;
    let (cluster, pool) = (world.cluster(), SET.parse().unwrap());
    let holder = "alice/cli".parse().unwrap();
    let lease = PoolLease::new(&cluster, &world.namespace.parse().unwrap(), &pool, holder, Duration::from_secs(15));
    lease.acquire(Duration::from_secs(30)).await.unwrap();
    let first = world.operator("first", true);
    world.request("1").await;
    let waits = async || {
        let message = true_condition(&world.status().await.conditions, "Reconciling").unwrap_or_default().1;
        message.contains("in use by `alice/cli`")
    };
    tokio::select! {
        () = world.until("the run waits for the lease", waits) => {}
        lost = lease.keep_renewing() => panic!("{lost}"),
    }
    assert_eq!(world.versions().await, [""; 0], "nothing happens meanwhile");
    lease.release().await.unwrap();

    let context = world.process("reader", Arc::new(DiscardEvents));
    let is_open = async || {
        context.runs(&pool).await.unwrap().last().is_some_and(|run| run.closed.is_none() && !run.holds().is_empty())
    };
    world.until("the run holds its donor", is_open).await;
    drop(first);
    let second = world.operator("second", true);
    let ended = async || world.status().await.last_run.is_some_and(|run| run.ended.is_some());
    world.until("the second operator finishes the run", ended).await;
    let run = world.status().await.last_run.unwrap();
    assert_eq!(run.outcome, RunOutcome::Completed, "{}\n{:?}", run.message, second.log.lock().unwrap());
    assert_eq!(context.runs(&pool).await.unwrap().len(), 1, "the run was resumed, not repeated");
    assert_eq!(world.versions().await.len(), 1);
    world.assert_released().await;
}
