//! A rollback while a run is in progress.

use kiln_engine::{
    AutoRequest, Error, PARALLEL, PoolOutcome, RollbackReport, RunEnd, RunEventKind, RunRequest, auto_update, rollback,
    update,
};
use kiln_prototype::donor::DonorRules;
use kiln_prototype::journal::{Event, Outcome};
use kiln_prototype::rollback::{Pause, RollbackRequest, RollbackTarget};
use kiln_prototype::run::RunOptions;
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;
use kiln_types::{Factory, ImageSource, ProtectedSettings};

use crate::breakpoint::Breakpoint;
use crate::settings;
use crate::state::State;
use crate::world::{World, WorldBuilder, node, options, pool_name, request};

/// The version of the run that is rolled back.
const THIRD: &str = "2026.11.17";

fn instant() -> WorldBuilder {
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }
}

fn run_of(number: u32, pin: bool) -> RunRequest {
    let options = RunOptions { pin, ..options() };
    RunRequest { options, ..request(number) }
}

fn to(target: RollbackTarget, world: &World) -> RollbackRequest {
    // The script that a first run removed is restored with its settings. Other targets do without them.
    let protected_settings = match &target {
        RollbackTarget::Original => settings::given(),
        _ => ProtectedSettings::default(),
    };
    RollbackRequest {
        to: target,
        delete: false,
        reason: "packet loss".to_owned(),
        after: None,
        who: "bob@test".to_owned(),
        at: world.quiet().now(),
        protected_settings,
    }
}

/// The ends of all steps from `first` on, and every point of the steps of the switch.
fn is_boundary(kind: &RunEventKind, first: Step) -> bool {
    match kind {
        RunEventKind::Recorded(Event::Opened { .. }) => first == Step::Preflight,
        RunEventKind::Recorded(Event::Succeeded { step, .. }) => *step >= first,
        RunEventKind::Recorded(Event::Accepted { step, .. })
        | RunEventKind::Starting { step, .. }
        | RunEventKind::Acted { step } => *step >= Step::Include,
        _ => false,
    }
}

/// Rolls back when the run is at a boundary. Returns where, and how the rollback ended; none if the run has fewer boundaries.
async fn rolled_back_at(
    world: &World,
    run: &RunRequest,
    target: &RollbackTarget,
    (first, boundaries): (Step, usize),
) -> Option<(String, Result<RollbackReport, Error>)> {
    let breakpoint = Breakpoint::when(boundaries, move |kind| is_boundary(kind, first));
    let process = world.process(breakpoint.clone());
    let mut running = Box::pin(update(&process, run));
    tokio::select! {
        report = &mut running => {
            let end = report.unwrap().end;
            assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
            return None;
        }
        () = breakpoint.reached() => {}
    }
    let place = breakpoint.describe();
    let person = world.quiet();
    let request = to(target.clone(), world);
    let rolling = async {
        let report = Box::pin(rollback(&person, None, &request, false)).await;
        // The run continues only now, if it has not noticed that it lost its lease.
        breakpoint.pass();
        report
    };
    let (report, rolled_back) = tokio::join!(running, rolling);
    if rolled_back.is_ok() {
        match report {
            Err(error) => assert!(error.is_busy(), "{place}: {error}"),
            Ok(report) => assert!(matches!(report.end, RunEnd::Closed(_)), "{place}: {}", report.end),
        }
    }
    Some((place, rolled_back))
}

fn assert_not_used(state: &State, place: &str) {
    let version = state.versions.iter().find(|(number, ..)| number == THIRD);
    assert!(version.is_none_or(|(_, _, excluded)| *excluded), "{place}: {:?}", state.versions);
    let named = matches!(&state.image, ImageSource::ExactVersion(_, number) if number.as_str() == THIRD);
    assert!(!named, "{place}: {:?}", state.image);
    state.assert_donor_is_back();
}

/// A pool with two versions, in the third night.
async fn third_night(pin: bool) -> World {
    let world = instant().start().await;
    for number in [1, 2] {
        let report = Box::pin(update(&world.quiet(), &run_of(number, pin))).await.unwrap();
        assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
        world.days_later(1).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn rollback_between_any_two_steps_wins() {
    // A pinned model differs only from the end of the canary on.
    for (pin, first, fewest) in [(false, Step::Preflight, 35), (true, Step::DeleteCanary, 15)] {
        let mut previous = String::new();
        for boundaries in 1.. {
            let world = third_night(pin).await;
            let run = run_of(0, pin);
            let at = (first, boundaries);
            let Some((place, rolled_back)) = rolled_back_at(&world, &run, &RollbackTarget::Previous, at).await else {
                assert!(boundaries > fewest, "only {boundaries} boundaries");
                break;
            };
            let report = rolled_back.unwrap_or_else(|error| panic!("pin {pin}, {place}: {error}"));
            let state = world.state().await;
            assert_not_used(&state, &place);
            assert_ne!(report.plan.new_nodes_get, THIRD, "{place}");
            assert!(report.plan.pause.is_some(), "{place}");
            if let Some(run) = &report.open_run {
                let last = state.outcomes.last().unwrap().as_ref();
                // After its last step, the run has only holds left to release.
                let is_after_the_last = ["AddNodes", "release-claim", "ReleaseClaim"].iter().any(|s| place.contains(s));
                let end = match last {
                    Some(Outcome::Completed { .. }) if is_after_the_last => "completed before the rollback",
                    Some(Outcome::Failed { .. }) => "cancelled by a rollback: packet loss",
                    _ => panic!("{place}: {last:?}"),
                };
                assert!(run.released && run.end.contains(end), "{place}: {run:?}");
            }
            previous = place;
        }
        assert!(previous.contains("Closed") || previous.contains("ReleaseClaim"), "the last boundary was {previous}");
    }
}

#[tokio::test(start_paused = true)]
async fn rollback_to_the_original_recipe_wins_at_every_step_of_a_first_run() {
    let before = instant().start().await.state().await;
    for boundaries in 1.. {
        let world = instant().start().await;
        let run = run_of(1, false);
        let at = (Step::Preflight, boundaries);
        let Some((place, rolled_back)) = rolled_back_at(&world, &run, &RollbackTarget::Original, at).await else {
            assert!(boundaries > 35, "only {boundaries} boundaries");
            break;
        };
        let report = rolled_back.unwrap_or_else(|error| panic!("{place}: {error}"));
        let state = world.state().await;
        state.assert_donor_is_back();
        assert!(state.versions.iter().all(|(_, _, excluded)| *excluded), "{place}: {:?}", state.versions);
        assert_eq!((&state.image, &state.extensions), (&before.image, &before.extensions), "{place}");
        assert!(report.open_run.is_none_or(|run| run.released), "{place}");
        // New nodes are created as before the run.
        world.sim.scale(pool_name().as_str(), 4).unwrap();
        world.until_ready().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dry_run_names_the_open_run_and_does_not_stop_it() {
    let world = third_night(false).await;
    let breakpoint = Breakpoint::before(|step| step == Step::Publish);
    let process = world.process(breakpoint.clone());
    let run = run_of(0, false);
    let running = Box::pin(update(&process, &run));
    let person = world.quiet();
    let asking = async {
        breakpoint.reached().await;
        let request = to(RollbackTarget::Previous, &world);
        let report = Box::pin(rollback(&person, None, &request, true)).await.unwrap();
        assert_eq!(report.open_run.as_ref().unwrap().version.as_str(), THIRD);
        assert!(report.to_string().contains("would cancel run "), "{report}");
        breakpoint.pass();
    };
    let (report, ()) = tokio::join!(running, asking);
    let end = report.unwrap().end;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
}

#[tokio::test(start_paused = true)]
async fn rollback_that_is_not_possible_does_not_stop_a_run() {
    let world = instant().start().await;
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.days_later(1).await;
    let breakpoint = Breakpoint::before(|step| step == Step::Publish);
    let process = world.process(breakpoint.clone());
    let run = request(2);
    let running = Box::pin(update(&process, &run));
    let person = world.quiet();
    let trying = async {
        breakpoint.reached().await;
        let request = to(RollbackTarget::Previous, &world);
        let error = Box::pin(rollback(&person, None, &request, false)).await.unwrap_err();
        assert!(error.to_string().contains("only usable version"), "{error}");
        breakpoint.pass();
    };
    let (report, ()) = tokio::join!(running, trying);
    let end = report.unwrap().end;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
}

/// The process of a run dies, the pool is paused without this cluster's lease, and the nightly job comes.
#[tokio::test(start_paused = true)]
async fn automatic_run_on_a_paused_pool_releases_the_holds_of_an_open_run_and_does_not_continue_it() {
    for at in [Step::HoldNode, Step::Snapshot, Step::Include] {
        let world = third_night(false).await;
        let breakpoint = Breakpoint::before(move |step| step == at);
        let process = world.process(breakpoint.clone());
        let run = run_of(0, false);
        tokio::select! {
            report = Box::pin(update(&process, &run)) => panic!("{:?}", report.map(|report| report.end)),
            () = breakpoint.reached() => {}
        }
        let azure = world.azure();
        let name = kiln_prototype::names::definition(&world.sim.spec().resource_group, &pool_name()).unwrap();
        let definition = azure.find_definition(&name).await.unwrap().unwrap();
        let pause = Pause { since: None, after: None, to: None, who: None, reason: "by hand".to_owned() };
        azure.settle(&azure.tag_definition(&definition, &pause.tags()).await.unwrap()).await.unwrap();

        let mut rules = DonorRules::new("reboot", "patched");
        rules.minimum_ready = "0".parse().unwrap();
        let request = AutoRequest {
            pools: Vec::new(),
            rules,
            options: options(),
            dry_run: false,
            max_skipped_nights: 14,
            parallel: PARALLEL,
        };
        let reports = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
        let PoolOutcome::Ran(report) = &reports[0].outcome else { panic!("{at}: {reports:#?}") };
        let RunEnd::Closed(Outcome::Failed { failure, .. }) = &report.end else { panic!("{at}: {}", report.end) };
        assert!(failure.message.contains("cancelled: the pool is paused: by hand"), "{at}: {failure}");
        assert_not_used(&world.state().await, at.name());
        let again = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
        assert!(matches!(again[0].outcome, PoolOutcome::Skipped(_)), "{at}: {again:#?}");
    }
}

/// A process that is suspended after its last check, while another process takes over, must not act when it continues.
#[tokio::test(start_paused = true)]
async fn suspended_process_sends_no_power_off_and_no_start_after_its_lease_was_taken() {
    for (at, action) in [(Step::PowerOff, "poweroff"), (Step::Start, "start")] {
        let world = instant().start().await;
        let breakpoint = Breakpoint::before(move |step| step == at);
        let process = world.process(breakpoint.clone());
        let run = request(1);
        let mut running = Box::pin(update(&process, &run));
        tokio::select! {
            report = &mut running => panic!("{:?}", report.map(|report| report.end)),
            () = breakpoint.reached() => {}
        }
        let sent = || {
            let is_action = |write: &String| write.to_lowercase().contains(&format!("/{action} "));
            world.wire.writes().into_iter().filter(is_action).count()
        };
        assert_eq!(sent(), 0, "{:?}", world.wire.writes());
        // Nothing polls the first process meanwhile: neither its run nor the renewal of its lease.
        let report = Box::pin(kiln_engine::resume(&world.quiet(), &pool_name())).await.unwrap();
        assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
        let by_the_second = sent();
        breakpoint.pass();
        let error = running.await.unwrap_err();
        assert!(error.is_busy(), "{at}: {error}");
        assert_eq!(sent(), by_the_second, "{at}: the suspended process acted");
        world.state().await.assert_nothing_held();
    }
}

#[tokio::test(start_paused = true)]
async fn version_of_another_donor_does_not_count_as_done() {
    let world = instant().start().await;
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let writes = world.wire.writes().len();
    let report = Box::pin(update(&world.quiet(), &request(2))).await.unwrap();
    let RunEnd::Refused(blockers) = &report.end else { panic!("{}", report.end) };
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    assert!(blockers[0].contains(&format!("created from node `{}`", node(1))), "{blockers:?}");
    assert_eq!(world.wire.writes().len(), writes, "nothing was changed");
    // The same donor again finds its version.
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
}
