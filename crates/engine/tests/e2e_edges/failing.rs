//! Steps that fail for good, and faults of Azure that a run gets over.

use kiln_engine::{Context, RunEnd, Stop, resume, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::{Hold, Step};
use kiln_sim_azure::Speed;
use kiln_types::{ImageSource, VersionState};

use crate::hold::HoldAt;
use crate::world::{Made, World, node, pool_name, request};

const SET: &str = "Microsoft.Compute/virtualMachineScaleSets";
const GALLERY: &str = "Microsoft.Compute/galleries";

fn instant(faults: &str) -> Made {
    Made { speed: Speed::Instant, ..Made::new() }.faults(faults)
}

async fn run(world: &World) -> RunEnd {
    Box::pin(update(&world.quiet(), &request(1))).await.unwrap().end
}

/// A fault of this kind in the requests that a step sends.
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
        other => panic!("{other} sends nothing that could fail alone"),
    };
    format!("{{kind: {kind}, {target}, times: {times}}}")
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_for_good_leaves_everything_as_it_was() {
    for step in [Step::Claim, Step::Gallery, Step::Definition, Step::Protect, Step::PowerOff, Step::Snapshot] {
        let world = instant(&fault("quota-exceeded", step, 1)).start().await;
        let before = world.state().await;
        let end = run(&world).await;
        let RunEnd::Closed(Outcome::Failed { step: failed, failure }) = &end else { panic!("{step}: {end}") };
        assert_eq!(*failed, step, "{end}");
        assert!(failure.message.contains("quota"), "{step}: {failure}");
        let after = world.state().await;
        // A copy that failed stays until the next run deletes it.
        if step < Step::Snapshot {
            after.assert_nothing_held();
        }
        after.assert_donor_is_back();
        assert_eq!((&after.image, &after.extensions), (&before.image, &before.extensions), "{step}");
        assert_eq!((&after.nodes, &after.instances), (&before.nodes, &before.instances), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_for_good_after_the_copy_gives_no_unproven_version_out() {
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
        // Azure writes a model down before the operation ends, however it ends.
        if step < Step::Model {
            assert_eq!(after.image, before.image, "{step}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_donor_that_does_not_start_is_stuck_with_advice_and_a_resume_after_mending_finishes() {
    let world = instant(&fault("allocation-failed", Step::Start, 12)).start().await;
    let end = run(&world).await;
    let RunEnd::Stuck(stuck) = &end else { panic!("{end}") };
    assert_eq!(stuck.step, Step::Start);
    assert!(stuck.holds.contains(&Hold::Power) && stuck.holds.contains(&Hold::Node), "{:?}", stuck.holds);
    assert!(stuck.advice.contains("az vmss start") && stuck.reason.contains("AllocationFailed"), "{stuck:?}");
    assert_eq!(world.state().await.holder, "", "the lease is free for whoever resumes");
    let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.state().await.assert_nothing_held();
}

/// Steps whose requests a fault can hit.
const HIT: [Step; 14] = [
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
async fn a_throttled_write_or_a_token_that_expires_in_any_step_does_not_show_in_the_end() {
    for kind in ["throttled-arm", "token-expires"] {
        for step in HIT {
            gets_over(&fault(kind, step, 1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_gone_for_any_operation_does_not_show_in_the_end() {
    for operation in 0..16 {
        gets_over(&format!("{{kind: status-url-missing, type: operations, skip: {operation}}}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_reading_of_anything_does_not_show_in_the_end() {
    let versions = format!("{GALLERY}/images/versions");
    let images = format!("{GALLERY}/images");
    let instances = format!("{SET}/virtualMachines");
    for kind in [SET, &instances, "Microsoft.Compute/snapshots", GALLERY, &images, &versions] {
        for reading in 0..4 {
            gets_over(&format!("{{kind: stale-read, method: GET, type: {kind}, skip: {reading}}}")).await;
        }
    }
}

async fn gets_over(fault: &str) {
    let world = instant(fault).start().await;
    let end = run(&world).await;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{fault}: {end}");
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn faults_that_pass_do_not_show_in_the_end() {
    let kinds =
        ["applied-but-failed", "success-but-not-applied", "reset-after-processing", "preempted", "throttled-compute"];
    for kind in kinds {
        for step in HIT {
            let world = instant(&fault(kind, step, 1)).start().await;
            let mut end = run(&world).await;
            // A creation is believed when Azure says that it is done. Where that is not so the next step fails, and the next run mends it.
            let believed = matches!(step, Step::Gallery | Step::Definition) && kind == "success-but-not-applied";
            if believed && matches!(end, RunEnd::Closed(Outcome::Failed { .. })) {
                world.state().await.assert_donor_is_back();
                end = run(&world).await;
            }
            assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{kind} at {step}: {end}");
            world.state().await.assert_nothing_held();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_without_zones_gets_local_copies() {
    let world = instant(&fault("zrs-not-supported", Step::Publish, 1)).start().await;
    let end = run(&world).await;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_never_becomes_ready_condemns_the_version_and_nobody_gets_it() {
    let made = Made { speed: Speed::Instant, ..Made::new() };
    let made = made.pool(|pool| {
        let defects = Some([kiln_sim_azure::Defect::CloneNeverReady].into());
        pool.instances.insert(1, kiln_sim_azure::ContentsSpec { defects, ..Default::default() });
    });
    let world = made.start().await;
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
async fn a_donor_that_is_deleted_under_the_run_ends_it_with_nothing_held() {
    let world = Made::quick().start().await;
    let hold = HoldAt::at(|step| step == Step::PowerOff);
    let context = world.process(hold.clone());
    let asked = request(1);
    let running = Box::pin(update(&context, &asked));
    let deleting = async {
        hold.reached().await;
        world.sim.delete_machine(node(1).as_str()).unwrap();
        hold.let_go();
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
async fn a_scale_set_that_somebody_changes_between_reading_and_writing_keeps_their_change() {
    for step in [Step::Claim, Step::Model, Step::ReleaseClaim] {
        let world = Made { speed: Speed::Instant, ..Made::new() }.start().await;
        let hold = HoldAt::at(move |at| at == step);
        let context = world.process(hold.clone());
        let asked = request(1);
        let running = Box::pin(update(&context, &asked));
        let changing = async {
            hold.reached().await;
            world.sim.change_scale_set(pool_name().as_str(), &serde_json::json!({"tags": {"theirs": "kept"}})).unwrap();
            hold.let_go();
        };
        let (report, ()) = tokio::join!(running, changing);
        let end = report.unwrap().end;
        assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{step}: {end}");
        let state = world.state().await;
        state.assert_nothing_held();
        assert!(state.tags.contains(&("theirs".to_owned(), "kept".to_owned())), "{step}: {:?}", state.tags);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_runners_one_wins_and_the_other_says_who_works() {
    let world = Made::quick().start().await;
    let (one, two) = (world.quiet(), world.quiet());
    let asked = request(1);
    let (first, second) = tokio::join!(Box::pin(update(&one, &asked)), Box::pin(update(&two, &asked)));
    let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
    let report = won.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let error = lost.unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("alice-test"), "{error}");
    let state = world.state().await;
    state.assert_nothing_held();
    assert_eq!((state.outcomes.len(), state.versions.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_told_to_stop_gives_back_before_the_copy_and_stays_open_after_it() {
    for (step, open) in [(Step::Drain, false), (Step::Start, true)] {
        let world = Made::quick().start().await;
        let hold = HoldAt::at(move |at| at == step);
        let (stopper, stop) = Stop::pair();
        let context = Context { stop, ..world.process(hold.clone()) };
        let asked = request(1);
        let running = Box::pin(update(&context, &asked));
        let stopping = async {
            hold.reached().await;
            stopper.stop();
            hold.let_go();
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
