//! Snapshots of a running donor.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kiln_engine::{RunEnd, RunRequest, resume, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::{Hold, Step};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::sleep;

use crate::breakpoint::Breakpoint;
use crate::world::{World, WorldBuilder, node, pool_name, request};

/// Azure's own speed, except for the creation of a version, which takes an hour and a half and has nothing to do with the donor.
fn builder() -> WorldBuilder {
    let mut builder = WorldBuilder::new();
    builder.spec.profile.image_version = 60.0;
    builder
}

fn live() -> RunRequest {
    let mut request = request(1);
    request.options.live = true;
    request
}

/// The pods of the donor, each with its uid and the number of its restarts, except kiln's own.
async fn pods(world: &World) -> BTreeMap<String, (String, i32)> {
    let api: Api<Pod> = Api::all(Client::new(world.server.service(), "default"));
    let of_donor = ListParams::default().fields(&format!("spec.nodeName={}", node(1)));
    let all = api.list(&of_donor).await.unwrap().items.into_iter();
    let rows = all.filter(|pod| pod.metadata.namespace.as_deref() != Some("kiln-system")).map(|pod| {
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let restarts = statuses.iter().map(|status| status.restart_count).sum();
        (pod.metadata.name.unwrap_or_default(), (pod.metadata.uid.unwrap_or_default(), restarts))
    });
    rows.collect()
}

async fn has_pod(world: &World, name: &str) -> bool {
    let api: Api<Pod> = Api::namespaced(Client::new(world.server.service(), "default"), "kiln-system");
    api.get_opt(name).await.unwrap().is_some()
}

async fn notes(world: &World) -> String {
    let runs = world.quiet().runs(&pool_name()).await.unwrap();
    format!("{:?}", runs.last().unwrap().step(Step::LiveSnapshot))
}

#[tokio::test(start_paused = true)]
async fn live_run_completes_at_azures_own_speed_and_leaves_the_donor_alone() {
    let world = builder().start().await;
    let (before, boots) =
        (pods(&world).await, world.machines().iter().map(|machine| machine.boots).collect::<Vec<_>>());
    assert!(!before.is_empty());
    let report = Box::pin(update(&world.quiet(), &live())).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.state().await.assert_nothing_held();
    assert_eq!(pods(&world).await, before, "a pod was evicted or restarted");
    assert_eq!(world.machines().iter().map(|machine| machine.boots).collect::<Vec<_>>(), boots);
    let writes = world.wire.writes();
    let donor = writes.iter().filter(|write| write.contains("/virtualMachines/1")).collect::<Vec<_>>();
    assert!(donor.is_empty(), "the donor's instance was changed: {donor:?}");
    assert_eq!(
        report.notes,
        ["the donor has no first-boot unit; a pod will install it and change nothing else"],
        "no note about the freeze or the thaw"
    );
    assert!(notes(&world).await.contains("the file systems were frozen for"));
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_takes_longer_than_the_freeze_ends_the_run() {
    let mut builder = builder();
    builder.spec.profile.snapshot = 20.0;
    let world = builder.start().await;
    let report = Box::pin(update(&world.quiet(), &live())).await.unwrap();
    let RunEnd::Closed(Outcome::Failed { step: Step::LiveSnapshot, failure }) = &report.end else {
        panic!("{}", report.end)
    };
    assert!(failure.message.contains("was not complete after 9 s"), "{failure}");
    let state = world.state().await;
    state.assert_donor_is_back();
    assert!(state.versions.is_empty(), "{:?}", state.versions);
}

#[tokio::test(start_paused = true)]
async fn run_that_died_while_the_donor_was_frozen_is_resumed_with_a_new_snapshot() {
    let world = builder().start().await;
    let (context, request) = (world.quiet(), live());
    let mut dying = Box::pin(update(&context, &request));
    let frozen = format!("kiln-freeze-{}", node(1));
    loop {
        tokio::select! {
            report = &mut dying => panic!("{:?}", report.map(|report| report.end)),
            () = sleep(Duration::from_millis(300)) => {}
        }
        // Half-way through the snapshot, which takes six seconds.
        if has_pod(&world, &frozen).await && world.wire.writes().iter().any(|write| write.contains("/snapshots/")) {
            break;
        }
    }
    // Nothing is cleaned up when a process is killed.
    std::mem::forget(dying);
    let runs = world.quiet().runs(&pool_name()).await.unwrap();
    assert!(
        runs.last().unwrap().holds().contains(&Hold::Frozen),
        "the hold is in the journal before anything is frozen"
    );
    sleep(Duration::from_mins(1)).await;
    let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.state().await.assert_nothing_held();
    let created =
        world.wire.writes().into_iter().filter(|write| write.starts_with("PUT") && write.contains("/snapshots/"));
    assert_eq!(created.count(), 2, "the snapshot of the dead process was not used");
    assert!(!has_pod(&world, &frozen).await);
}

#[tokio::test(start_paused = true)]
async fn resumed_run_that_cannot_continue_verifies_the_thaw() {
    let world = builder().start().await;
    let breakpoint = Breakpoint::before(|step| step == Step::LiveSnapshot);
    let (context, request) = (world.process(breakpoint.clone()), live());
    tokio::select! {
        report = Box::pin(update(&context, &request)) => panic!("{:?}", report.map(|report| report.end)),
        () = breakpoint.reached() => {}
    }
    // The donor is stopped by someone else: its file systems cannot be frozen any more.
    {
        use kiln_types::{Factory, PowerDown};
        let (azure, donor) = (world.azure(), "1".parse().unwrap());
        azure.power_off(&pool_name(), &donor, PowerDown::KeepHardware).await.unwrap();
        sleep(Duration::from_mins(10)).await;
        let resumed = tokio::spawn({
            let context = world.quiet();
            async move { Box::pin(resume(&context, &pool_name())).await.map(|report| report.end) }
        });
        sleep(Duration::from_mins(5)).await;
        assert!(!resumed.is_finished(), "the thaw of a stopped donor cannot be verified");
        azure.start(&pool_name(), &donor).await.unwrap();
        let end = resumed.await.unwrap().unwrap();
        assert!(matches!(&end, RunEnd::Closed(Outcome::Failed { step: Step::LiveSnapshot, .. })), "{end}");
    }
    world.until_ready().await;
    world.state().await.assert_donor_is_back();
    let runs = world.quiet().runs(&pool_name()).await.unwrap();
    assert!(runs.last().unwrap().is_done(Step::Thaw));
}
