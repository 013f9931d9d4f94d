//! Complete runs, and runs that are killed.

use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln_engine::{
    DiscardEvents, EventSink, RefreshRequest, RunEnd, RunEvent, RunReport, refresh, resume, rollback, update,
};
use kiln_local::ids;
use kiln_prototype::journal::Outcome;
use kiln_prototype::names;
use kiln_prototype::rollback::{RollbackRequest, RollbackTarget};
use kiln_types::{Factory, ImageSource, PowerState, Protection, Provisioning};
use tokio::sync::Notify;

use crate::setup::{FIRST_BOOT, Setup, node, pool, request};

/// Everything that a run may change.
#[derive(Debug, PartialEq)]
struct Left {
    image: ImageSource,
    capacity: u32,
    versions: Vec<(String, bool)>,
    instances: Vec<(String, PowerState, Provisioning, Protection)>,
    cordoned: Vec<String>,
    pools: usize,
    layers: usize,
}

async fn left(setup: &Setup) -> Left {
    // The controller removes the node of a deleted machine a moment later.
    setup.until_ready().await;
    let local = setup.local();
    let read = local.describe_pool(&pool()).await.unwrap();
    let line = names::definition(ids::GROUP, &pool()).unwrap();
    let nodes = setup.cluster().all_nodes().await.unwrap();
    let instances = local.instances(&pool()).await.unwrap().into_iter();
    Left {
        image: read.recipe.image,
        capacity: read.capacity,
        versions: local.versions(&line).await.unwrap().iter().map(|v| (v.number.to_string(), v.excluded)).collect(),
        instances: instances.map(|i| (i.node_name, i.power, i.provisioning, i.protection)).collect(),
        cordoned: nodes.into_iter().filter(|node| node.cordoned).map(|node| node.name.to_string()).collect(),
        pools: local.pools().await.unwrap().len(),
        layers: setup.layers(),
    }
}

/// Dies after a number of events.
struct DieAfter {
    left: AtomicUsize,
    last: Mutex<String>,
    died: Notify,
}

impl EventSink for DieAfter {
    fn record(&self, event: RunEvent) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                *self.last.lock().unwrap() = format!("{:?}", event.kind);
                self.died.notify_one();
                pending::<()>().await;
            }
        })
    }
}

async fn die_after(setup: &Setup, news: usize) -> (Arc<DieAfter>, Option<RunReport>) {
    let watcher = Arc::new(DieAfter { left: news.into(), last: Mutex::default(), died: Notify::new() });
    let context = setup.process(watcher.clone());
    let asked = request(1);
    let report = tokio::select! {
        report = Box::pin(update(&context, &asked)) => Some(report.unwrap()),
        () = watcher.died.notified() => None,
    };
    (watcher, report)
}

#[tokio::test(start_paused = true)]
async fn new_nodes_are_clones_of_the_donor_after_a_first_and_a_second_run() {
    let setup = Setup::start().await;
    assert_eq!(setup.cluster().nodes_of(&pool()).await.unwrap().len(), 2, "nodes of the pool");
    let report = Box::pin(update(&setup.process(Arc::new(DiscardEvents)), &request(1))).await.unwrap();
    assert_eq!(
        report.end,
        RunEnd::Closed(Outcome::Completed { version: "2026.11.15".parse().unwrap() }),
        "{:?}",
        report.notes
    );
    let first = left(&setup).await;
    assert_eq!(first.image, ImageSource::Definition(names::definition(ids::GROUP, &pool()).unwrap()));
    assert_eq!(first.versions, [("2026.11.15".to_owned(), false)]);
    assert!(first.cordoned.is_empty(), "{first:?}");
    assert_eq!((first.pools, first.layers), (1, 3), "the canary or the snapshot is left");
    let running = (PowerState::Running, Provisioning::Succeeded, Protection::NONE);
    assert!(first.instances.iter().all(|(_, power, made, held)| (*power, made.clone(), *held) == running), "{first:?}");

    // A new instance is a clone: its disk has the donor's files and none of the other machine.
    let local = setup.local();
    let read = local.describe_pool(&pool()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    setup.until_ready().await;
    assert_eq!(setup.files("workers_2").await, ["booted-workers000001", "booted-workers000002", FIRST_BOOT]);

    setup.days_later(1).await;
    let mut second = request(2);
    second.options.new_nodes = 1;
    let report = Box::pin(update(&setup.process(Arc::new(DiscardEvents)), &second)).await.unwrap();
    assert_eq!(
        report.end,
        RunEnd::Closed(Outcome::Completed { version: "2026.11.16".parse().unwrap() }),
        "{:?}",
        report.notes
    );
    setup.until_ready().await;
    assert_eq!(left(&setup).await.capacity, 4);
    let clone = setup.local().describe_instance(&pool(), &"3".parse().unwrap()).await.unwrap();
    assert_eq!(clone.node_name, node(3).to_string());
    assert!(matches!(&clone.runs, ImageSource::ExactVersion(_, number) if number.as_str() == "2026.11.16"));
    assert_eq!(
        setup.files("workers_3").await,
        ["booted-workers000001", "booted-workers000002", "booted-workers000003", FIRST_BOOT],
        "a clone of a clone"
    );
}

#[tokio::test(start_paused = true)]
async fn refresh_replaces_older_nodes_and_rollback_restores_the_original_image() {
    let setup = Setup::start().await;
    let context = setup.process(Arc::new(DiscardEvents));
    let original = left(&setup).await.image;
    let report = Box::pin(update(&context, &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let refreshed =
        Box::pin(refresh(&context, &RefreshRequest { grace_seconds: Some(30), ..Default::default() })).await;
    let refreshed = refreshed.unwrap();
    assert!(refreshed.done && refreshed.left.is_empty(), "{refreshed:?}");
    setup.until_ready().await;
    let local = setup.local();
    let instances = local.instances(&pool()).await.unwrap();
    let names: Vec<&str> = instances.iter().map(|instance| instance.node_name.as_str()).collect();
    assert_eq!(names, ["workers000002", "workers000003"]);
    for instance in &instances {
        assert!(matches!(&instance.runs, ImageSource::ExactVersion(_, number) if number.as_str() == "2026.11.15"));
    }
    assert_eq!(setup.layers(), 3, "disks of removed machines are left");

    let back = RollbackRequest {
        protected_settings: kiln_types::ProtectedSettings::default(),
        to: RollbackTarget::Original,
        delete: false,
        reason: "a test".to_owned(),
        after: None,
        who: context.who.clone(),
        at: context.now(),
    };
    assert!(Box::pin(rollback(&context, None, &back, false)).await.unwrap().done);
    assert_eq!(left(&setup).await.image, original);
    let read = local.describe_pool(&pool()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    assert_eq!(setup.files("workers_4").await, ["booted-workers000004"], "it has files of the donor");
}

/// Only every seventh event, because all of them would take a minute. Other tests kill each operation at each of its changes.
const STRIDE: usize = 7;

#[tokio::test(start_paused = true)]
async fn killed_run_is_completed_by_another_process() {
    let setup = Setup::start().await;
    let (watcher, report) = die_after(&setup, usize::MAX).await;
    let report = report.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let points = usize::MAX - watcher.left.load(Ordering::Relaxed);
    let whole = left(&setup).await;
    let mut resumed = 0;
    for point in (2..points).step_by(STRIDE) {
        let setup = Setup::start().await;
        let (watcher, report) = die_after(&setup, point).await;
        assert!(report.is_none(), "point {point} of {points} was not reached");
        let place = watcher.last.lock().unwrap().clone();
        // There is no open run before the first journal entry and after the last.
        let Ok(report) = Box::pin(resume(&setup.process(Arc::new(DiscardEvents)), &pool())).await else { continue };
        assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{place}: {}", report.end);
        assert_eq!(left(&setup).await, whole, "{place}");
        resumed += 1;
    }
    assert!(resumed > 10, "{resumed} of {points}");
}
