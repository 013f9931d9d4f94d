//! Steps that fail permanently, and faults of Azure that a run survives.

use kiln_engine::{Context, RunEnd, Stop, resume, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::{Hold, Step};
use kiln_sim_azure::Speed;
use kiln_types::{ImageSource, VersionState};

use crate::breakpoint::Breakpoint;
use crate::world::{World, WorldBuilder, node, pool_name, request};

const SET: &str = "Microsoft.Compute/virtualMachineScaleSets";
const GALLERY: &str = "Microsoft.Compute/galleries";

fn instant(faults: &str) -> WorldBuilder {
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.faults(faults)
}

async fn run(world: &World) -> RunEnd {
    Box::pin(update(&world.quiet(), &request(1))).await.unwrap().end
}

/// A fault of this kind in the requests of a step.
fn fault(kind: &str, step: Step, times: u32) -> String {
    let target = match step {
        Step::Claim => format!("method: PATCH, type: {SET}"),
        Step::Gallery => format!("method: PUT, type: {GALLERY}"),
        Step::Definition => format!("method: PUT, type: {GALLERY}/images"),
        Step::Protect => format!("method: PUT, type: {SET}/virtualMachines"),
        Step::PowerOff => format!("type: {SET}/virtualMachines, action: poweroff"),
        Step::Snapshot => "method: PUT, type: Microsoft.Compute/snapshots".to_owned(),
        Step::Start => format!("type: {SET}/virtualMachines, action: start"),
        Step::Publish => format!("method: PUT, type: {GALLERY}/images/versions"),
        Step::DeleteSnapshot => "method: DELETE, type: Microsoft.Compute/snapshots".to_owned(),
        Step::CreateCanary => format!("method: PUT, type: {SET}, name: kiln-canary-*"),
        Step::DeleteCanary => format!("method: DELETE, type: {SET}, name: kiln-canary-*"),
        Step::Include => format!("method: PATCH, type: {GALLERY}/images/versions"),
        Step::Model => format!("method: PATCH, type: {SET}, skip: 1"),
        Step::StripScripts => format!("method: DELETE, type: {SET}/extensions"),
        other => panic!("{other} sends no request"),
    };
    format!("{{kind: {kind}, {target}, times: {times}}}")
}

#[tokio::test(start_paused = true)]
async fn permanent_failure_up_to_the_snapshot_restores_everything() {
    for step in [Step::Claim, Step::Gallery, Step::Definition, Step::Protect, Step::PowerOff, Step::Snapshot] {
        let world = instant(&fault("quota-exceeded", step, 1)).start().await;
        let before = world.state().await;
        let end = run(&world).await;
        let RunEnd::Closed(Outcome::Failed { step: failed, failure }) = &end else { panic!("{step}: {end}") };
        assert_eq!(*failed, step, "{end}");
        assert!(failure.message.contains("quota"), "{step}: {failure}");
        let after = world.state().await;
        // A failed snapshot stays until the next run deletes it.
        if step < Step::Snapshot {
            after.assert_nothing_held();
        }
        after.assert_donor_is_back();
        assert_eq!((&after.image, &after.extensions), (&before.image, &before.extensions), "{step}");
        assert_eq!((&after.nodes, &after.instances), (&before.nodes, &before.instances), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn permanent_failure_after_the_snapshot_includes_no_untested_version() {
    for step in [Step::Publish, Step::CreateCanary, Step::Include, Step::Model, Step::StripScripts] {
        let world = instant(&fault("quota-exceeded", step, 1)).start().await;
        let before = world.state().await;
        let end = run(&world).await;
        let RunEnd::Closed(Outcome::Failed { step: failed, .. }) = &end else { panic!("{step}: {end}") };
        assert_eq!(*failed, step, "{end}");
        let after = world.state().await;
        after.assert_donor_is_back();
        let usable = after.versions.iter().any(|(_, state, excluded)| *state == VersionState::Succeeded && !excluded);
        assert_eq!(usable, step > Step::Include, "{step}: {:?}", after.versions);
        // Azure stores a model before the operation ends, even if it fails.
        if step < Step::Model {
            assert_eq!(after.image, before.image, "{step}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn donor_that_does_not_start_is_stuck_with_advice_and_can_be_resumed() {
    let world = instant(&fault("allocation-failed", Step::Start, 12)).start().await;
    let end = run(&world).await;
    let RunEnd::Stuck(stuck) = &end else { panic!("{end}") };
    assert_eq!(stuck.step, Step::Start);
    assert!(stuck.holds.contains(&Hold::Power) && stuck.holds.contains(&Hold::Node), "{:?}", stuck.holds);
    assert!(stuck.advice.contains("az vmss start") && stuck.reason.contains("AllocationFailed"), "{stuck:?}");
    assert_eq!(world.state().await.holder, "", "the lease is free");
    let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.state().await.assert_nothing_held();
}

/// The steps with requests that a fault can hit.
const STEPS_WITH_FAULTS: [Step; 14] = [
    Step::Claim,
    Step::Gallery,
    Step::Definition,
    Step::Protect,
    Step::PowerOff,
    Step::Snapshot,
    Step::Start,
    Step::Publish,
    Step::DeleteSnapshot,
    Step::CreateCanary,
    Step::DeleteCanary,
    Step::Include,
    Step::Model,
    Step::StripScripts,
];

#[tokio::test(start_paused = true)]
async fn run_completes_despite_throttling_and_expired_tokens_in_any_step() {
    for kind in ["throttled-arm", "token-expires"] {
        for step in STEPS_WITH_FAULTS {
            assert_completes(&fault(kind, step, 1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn run_completes_despite_a_missing_operation_status() {
    let undisturbed = instant("").start().await;
    run(&undisturbed).await;
    let requests = undisturbed.wire.requests();
    let polls = requests.iter().filter(|(_, path, _)| path.to_lowercase().contains("operations/")).count();
    assert!(polls > 8, "{polls} polls");
    for operation in 0..polls {
        assert_completes(&format!("{{kind: status-url-missing, type: operations, skip: {operation}}}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn run_completes_despite_stale_reads() {
    let versions = format!("{GALLERY}/images/versions");
    let images = format!("{GALLERY}/images");
    let instances = format!("{SET}/virtualMachines");
    let undisturbed = instant("").start().await;
    run(&undisturbed).await;
    for kind in [SET, &instances, "Microsoft.Compute/snapshots", GALLERY, &images, &versions] {
        let reads = undisturbed.wire.reads_of(kind).min(4);
        assert!(reads > 0, "{kind} is never read");
        for read in 0..reads {
            assert_completes(&format!("{{kind: stale-read, method: GET, type: {kind}, skip: {read}}}")).await;
        }
    }
}

async fn assert_completes(fault: &str) {
    let world = instant(fault).start().await;
    let end = run(&world).await;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{fault}: {end}");
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn run_completes_despite_temporary_faults() {
    let kinds =
        ["applied-but-failed", "success-but-not-applied", "reset-after-processing", "preempted", "throttled-compute"];
    for kind in kinds {
        for step in STEPS_WITH_FAULTS {
            let world = instant(&fault(kind, step, 1)).start().await;
            let mut end = run(&world).await;
            // A creation counts as done when Azure reports success. If it had no effect, the next step fails and the next run succeeds.
            let trusted = matches!(step, Step::Gallery | Step::Definition) && kind == "success-but-not-applied";
            if trusted && matches!(end, RunEnd::Closed(Outcome::Failed { .. })) {
                world.state().await.assert_donor_is_back();
                end = run(&world).await;
            }
            assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{kind} at {step}: {end}");
            world.state().await.assert_nothing_held();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn region_without_zones_gets_local_storage() {
    let world = instant(&fault("zrs-not-supported", Step::Publish, 1)).start().await;
    let end = run(&world).await;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn version_whose_canary_does_not_become_ready_is_rejected() {
    let builder = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() };
    let builder = builder.pool(|pool| {
        let defects = Some([kiln_sim_azure::Defect::CloneNeverReady].into());
        pool.instances.insert(1, kiln_sim_azure::ContentsSpec { defects, ..Default::default() });
    });
    let world = builder.start().await;
    let before = world.state().await;
    let end = run(&world).await;
    let RunEnd::Closed(Outcome::Rejected { version, reason }) = &end else { panic!("{end}") };
    assert_eq!(version.as_str(), "2026.11.15");
    assert!(reason.contains("canary"), "{reason}");
    let after = world.state().await;
    after.assert_nothing_held();
    assert_eq!((&after.image, &after.extensions), (&before.image, &before.extensions));
    assert!(after.versions.iter().all(|(_, _, excluded)| *excluded), "{:?}", after.versions);
}

#[tokio::test(start_paused = true)]
async fn deleted_donor_ends_the_run_with_all_holds_released() {
    let world = WorldBuilder::quick().start().await;
    let breakpoint = Breakpoint::before(|step| step == Step::PowerOff);
    let context = world.process(breakpoint.clone());
    let request = request(1);
    let running = Box::pin(update(&context, &request));
    let deleting = async {
        breakpoint.reached().await;
        world.sim.delete_machine(node(1).as_str()).unwrap();
        breakpoint.pass();
    };
    let (report, ()) = tokio::join!(running, deleting);
    let end = report.unwrap().end;
    let RunEnd::Closed(Outcome::Failed { failure, .. }) = &end else { panic!("{end}") };
    assert!(failure.message.contains("no longer exists") || failure.message.contains("not be found"), "{failure}");
    world.until_ready().await;
    let after = world.state().await;
    after.assert_nothing_held();
    assert!(matches!(after.image, ImageSource::Marketplace(_)));
}

#[tokio::test(start_paused = true)]
async fn external_changes_of_the_scale_set_are_kept() {
    for step in [Step::Claim, Step::Model, Step::ReleaseClaim] {
        let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
        let breakpoint = Breakpoint::before(move |at| at == step);
        let context = world.process(breakpoint.clone());
        let request = request(1);
        let running = Box::pin(update(&context, &request));
        let changing = async {
            breakpoint.reached().await;
            world
                .sim
                .change_scale_set(pool_name().as_str(), &serde_json::json!({"tags": {"external": "kept"}}))
                .unwrap();
            breakpoint.pass();
        };
        let (report, ()) = tokio::join!(running, changing);
        let end = report.unwrap().end;
        assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{step}: {end}");
        let state = world.state().await;
        state.assert_nothing_held();
        assert!(state.tags.contains(&("external".to_owned(), "kept".to_owned())), "{step}: {:?}", state.tags);
    }
}

#[tokio::test(start_paused = true)]
async fn second_process_on_a_pool_fails_with_the_name_of_the_first() {
    let world = WorldBuilder::quick().start().await;
    let (one, two) = (world.quiet(), world.quiet());
    let request = request(1);
    let (first, second) = tokio::join!(Box::pin(update(&one, &request)), Box::pin(update(&two, &request)));
    let (winner, loser) = if first.is_ok() { (first, second) } else { (second, first) };
    let report = winner.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let error = loser.unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("alice-test"), "{error}");
    let state = world.state().await;
    state.assert_nothing_held();
    assert_eq!((state.outcomes.len(), state.versions.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn stop_releases_all_holds_before_the_snapshot_and_leaves_the_run_open_after_it() {
    for (step, open) in [(Step::Drain, false), (Step::Start, true)] {
        let world = WorldBuilder::quick().start().await;
        let breakpoint = Breakpoint::before(move |at| at == step);
        let (stopper, stop) = Stop::pair();
        let context = Context { stop, ..world.process(breakpoint.clone()) };
        let request = request(1);
        let running = Box::pin(update(&context, &request));
        let stopping = async {
            breakpoint.reached().await;
            stopper.stop();
            breakpoint.pass();
        };
        let (report, ()) = tokio::join!(running, stopping);
        let end = report.unwrap().end;
        let state = world.state().await;
        assert_eq!(matches!(end, RunEnd::Stopped { .. }), open, "{end}");
        if open {
            let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
            assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
            world.state().await.assert_nothing_held();
        } else {
            assert!(end.to_string().contains("cancel") || end.to_string().contains("called off"), "{end}");
            state.assert_nothing_held();
        }
    }
}
