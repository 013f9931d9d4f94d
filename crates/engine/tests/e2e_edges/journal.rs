//! The size of the journal.

use k8s_openapi::api::core::v1::ConfigMap;
use kiln_engine::{RunEnd, resume, update};
use kiln_kubernetes::{JOURNAL_LIMIT, JOURNAL_RESERVE, JournalStore, Room};
use kiln_prototype::journal::{Entry, Event, Outcome, Output};
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;
use kube::{Api, Client};

use crate::breakpoint::Breakpoint;
use crate::world::{World, WorldBuilder, pool_name, request};

fn store(world: &World) -> JournalStore<Entry> {
    let context = world.quiet();
    JournalStore::new(&context.cluster, &context.namespace, &pool_name(), "test".parse().unwrap())
}

async fn handles(world: &World) -> Vec<Step> {
    let journal = store(world).load().await.unwrap();
    let accepted = |entry: &Entry| match entry.event {
        Event::Accepted { step, .. } => Some(step),
        _ => None,
    };
    journal.entries().iter().filter_map(accepted).collect()
}

#[tokio::test(start_paused = true)]
async fn journal_has_a_handle_only_while_its_operation_runs() {
    let world = WorldBuilder::quick().start().await;
    let breakpoint = Breakpoint::after_accepted(Step::Publish);
    let context = world.process(breakpoint.clone());
    let request = request(1);
    let running = Box::pin(update(&context, &request));
    let looking = async {
        breakpoint.reached().await;
        assert_eq!(handles(&world).await, [Step::Publish]);
        breakpoint.pass();
    };
    let (report, ()) = tokio::join!(running, looking);
    let end = report.unwrap().end;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
    assert_eq!(handles(&world).await, []);
}

/// The run of a process that died before the drain. Its journal is then filled up with an entry that cannot be dropped.
async fn full_journal(world: &World, bytes: usize) {
    let breakpoint = Breakpoint::before(|step| step == Step::Drain);
    let process = world.process(breakpoint.clone());
    let request = request(1);
    tokio::select! {
        report = Box::pin(update(&process, &request)) => panic!("{:?}", report.map(|report| report.end)),
        () = breakpoint.reached() => {}
    }
    let store = store(world);
    let mut journal = store.load().await.unwrap();
    let mut entries = journal.entries().to_vec();
    let used: usize = entries.iter().map(|entry| serde_json::to_string(entry).unwrap().len() + 1).sum();
    let output = Some(Output::Note("x".repeat(bytes - used - 200)));
    let event = Event::Succeeded { step: Step::Preflight, output };
    entries.push(Entry { event, ..entries[0].clone() });
    store.save(&mut journal, entries, Room::Release).await.unwrap();
}

async fn journal_bytes(world: &World) -> usize {
    let maps: Api<ConfigMap> = Api::namespaced(Client::new(world.server.service(), "kiln-system"), "kiln-system");
    let map = maps.get(&format!("kiln-journal-{}", pool_name())).await.unwrap();
    map.data.unwrap()["journal.jsonl"].len()
}

#[tokio::test(start_paused = true)]
async fn run_with_a_full_journal_releases_all_holds_from_the_reserve() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
    full_journal(&world, JOURNAL_LIMIT - JOURNAL_RESERVE).await;
    let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
    let RunEnd::Closed(Outcome::Failed { step, failure }) = &report.end else { panic!("{}", report.end) };
    assert_eq!(*step, Step::Drain, "{failure}");
    assert!(failure.message.contains("journal") && failure.message.contains("the limit is"), "{failure}");
    assert!(!world.wire.writes().iter().any(|write| write.contains("poweroff")), "{:?}", world.wire.writes());
    world.state().await.assert_nothing_held();
    assert!(journal_bytes(&world).await > JOURNAL_LIMIT - JOURNAL_RESERVE, "the reserve was not used");

    // The next run drops the closed run and has room again.
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    assert!(journal_bytes(&world).await < JOURNAL_LIMIT / 2);
}
