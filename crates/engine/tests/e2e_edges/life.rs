//! Complete runs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kiln_engine::{EventSink, RunEnd, RunEvent, RunEventKind, update};
use kiln_kubernetes::JournalStore;
use kiln_prototype::journal::{Entry, Event, Outcome};
use kiln_prototype::names;
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;
use kiln_types::{ImageSource, VersionState};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use std::sync::Mutex;

use crate::world::{World, WorldBuilder, node, pool_name, request, version_of};

/// Collects the events of a run.
#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<RunEvent>>);

impl Events {
    pub(crate) fn at(&self, wanted: impl Fn(&RunEventKind) -> bool) -> Timestamp {
        self.0.lock().unwrap().iter().find(|event| wanted(&event.kind)).unwrap().at
    }

    fn begun(&self, step: Step) -> Timestamp {
        self.at(|kind| matches!(kind, RunEventKind::Starting { step: started, .. } if *started == step))
    }

    fn done(&self, step: Step) -> Timestamp {
        self.at(|kind| matches!(kind, RunEventKind::Recorded(Event::Succeeded { step: done, .. }) if *done == step))
    }
}

impl EventSink for Events {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(event);
        Box::pin(std::future::ready(()))
    }
}

fn definition_of(world: &World) -> kiln_types::DefinitionName {
    names::definition(&world.sim.spec().resource_group, &pool_name()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn new_nodes_are_clones_of_the_donor_after_a_first_and_a_second_run() {
    let world = WorldBuilder::quick().start().await;
    let before = world.state().await;
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert_eq!(report.end, RunEnd::Closed(Outcome::Completed { version: "2026.11.15".parse().unwrap() }));
    let first = world.state().await;
    first.assert_nothing_held();
    assert_eq!(first.image, ImageSource::Definition(definition_of(&world)));
    assert_eq!(first.versions, [("2026.11.15".to_owned(), VersionState::Succeeded, false)]);
    assert_eq!(
        before.extensions.len() - first.extensions.len(),
        1,
        "only the script is removed: {:?}",
        first.extensions
    );
    assert!(!first.extensions.contains(&"vmssCSE".to_owned()));
    assert!(first.original, "the original recipe is saved");

    // A new node is a clone, and joins.
    world.sim.scale(&pool_name().to_string(), 4).unwrap();
    world.until_ready().await;
    let clone = world.machines().into_iter().find(|machine| machine.computer_name == node(3).to_string()).unwrap();
    assert!(clone.image.as_deref().unwrap().ends_with("/2026.11.15"), "{:?}", clone.image);

    world.days_later(1).await;
    let mut second = request(3);
    second.options.new_nodes = 2;
    let report = Box::pin(update(&world.quiet(), &second)).await.unwrap();
    assert_eq!(
        report.end,
        RunEnd::Closed(Outcome::Completed { version: "2026.11.16".parse().unwrap() }),
        "{:?}",
        report.notes
    );
    world.until_ready().await;
    let state = world.state().await;
    state.assert_nothing_held();
    assert_eq!(state.capacity, 6);
    assert_eq!(
        state.versions.iter().map(|(number, ..)| number.as_str()).collect::<Vec<_>>(),
        ["2026.11.15", "2026.11.16"]
    );
    assert!(state.outcomes.iter().all(|outcome| matches!(outcome, Some(Outcome::Completed { .. }))));
    let images: Vec<_> = {
        use kiln_types::Factory;
        world.azure().instances(&pool_name()).await.unwrap().iter().map(|i| version_of(&i.runs)).collect()
    };
    assert_eq!(images.iter().filter(|image| image.as_deref() == Some("2026.11.16")).count(), 2, "{images:?}");
}

#[tokio::test(start_paused = true)]
async fn donor_is_away_at_most_5_percent_longer_than_azure_needs() {
    let world = WorldBuilder::new().pool(|pool| pool.capacity = 2).start().await;
    let times = Arc::new(Events::default());
    let report = Box::pin(update(&world.process(times.clone()), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let away = times.done(Step::AwaitReady).duration_since(times.begun(Step::PowerOff)).as_secs_f64();
    let profile = &world.sim.spec().profile;
    let donor = world.machines().into_iter().find(|machine| machine.computer_name == node(1).to_string()).unwrap();
    let boot = donor.boot.unwrap();
    let boot = boot.stages.last().unwrap().1.duration_since(boot.started).as_secs_f64();
    let parts = profile.power_off + profile.snapshot + profile.start + boot;
    assert!(away < parts * 1.05, "away for {away} s; its parts are {parts} s");
    assert!(away > parts * 0.9, "away for {away} s; its parts are {parts} s");
}

/// The requests are those to ARM, tokens excluded. The API server is asked more often, since each entry of the journal is a write.
#[tokio::test(start_paused = true)]
async fn instant_azure_gets_60_requests_in_a_first_run_and_45_in_a_second_and_neither_pauses() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.pool(|pool| pool.capacity = 10);
    let world = world.start().await;
    for (number, limit) in [(1, 60), (2, 45)] {
        let cost = world.measure(&request(number)).await;
        let list = cost.requests.join("\n");
        assert!(cost.requests.len() <= limit, "{} requests:\n{list}", cost.requests.len());
        // Time is virtual, so this is the sum of all pauses and of the time that the kubelets need.
        assert!(cost.time < Duration::from_secs(1), "{:?}", cost.time);
        assert!(cost.journal_writes < 80, "{} writes", cost.journal_writes);
        world.days_later(1).await;
    }
}

/// Cordoned nodes keep getting traffic until the cloud provider has taken them out of the load balancers.
#[tokio::test(start_paused = true)]
async fn donor_behind_a_load_balancer_is_stopped_15_seconds_after_its_hold() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
    let services: Api<Service> = Api::namespaced(Client::new(world.server.service(), "default"), "default");
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let cost = world.measure(&request(1)).await;
    assert!((15..17).contains(&cost.time.as_secs()), "{:?}", cost.time);
}

#[tokio::test(start_paused = true)]
async fn events_have_the_timestamps_of_their_journal_entries() {
    let world = WorldBuilder::quick().start().await;
    let events = Arc::new(Events::default());
    let context = world.process(events.clone());
    Box::pin(update(&context, &request(1))).await.unwrap();
    let owner = "reader".parse().unwrap();
    let store = JournalStore::<Entry>::new(&context.cluster, &context.namespace, &pool_name(), owner);
    let mut sent: Vec<Entry> = events.0.lock().unwrap().iter().filter_map(RunEvent::journal_entry).collect();
    // The journal drops the handles of operations that have ended.
    sent.retain(|entry| !matches!(entry.event, Event::Accepted { .. }));
    assert_eq!(sent, store.load().await.unwrap().entries());
    assert!(sent.len() > 40, "{sent:?}");
    let all = events.0.lock().unwrap();
    assert!(all.iter().map(|event| event.at).is_sorted(), "{all:?}");
}
