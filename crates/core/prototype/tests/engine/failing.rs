//! Steps that fail once or permanently.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_prototype::decide::Stuck;
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::tags::REJECTED_TAG;
use kiln_types::{ErrorClass, VersionState};

use crate::driver::{Driver, End};
use crate::fault::Fault;
use crate::scenario::{Scenario, TODAY, assert_invariants, assert_nothing_held, end_state, finish, number};
use crate::world::{Pace, World};

const FOREVER: u32 = u32::MAX;

/// The steps in which a run without faults acts.
pub(crate) fn acting_steps(scenario: &Scenario) -> Vec<Step> {
    let mut world = scenario.world();
    scenario.run(&mut world);
    let names: BTreeSet<&str> = world.acts.iter().map(|act| act.split_once(' ').unwrap().0).collect();
    Step::ALL.into_iter().filter(|step| names.contains(step.name())).collect()
}

/// The scenario with a donor that is free, and with one that is cordoned, annotated and protected before the run.
fn free_and_held_donor(mut scenario: Scenario) -> [Scenario; 2] {
    let plain = scenario.clone();
    scenario.held_before = true;
    [plain, scenario]
}

/// Removes the faults and resumes the run.
fn fix_and_resume(world: &mut World) -> End {
    world.faults.rules.clear();
    Driver::resume(world, "person").unwrap().drive(world)
}

fn assert_failed_permanently(scenario: &Scenario, request: &str, fault: &Fault, step: Step, context: &str) {
    let mut world = scenario.world();
    world.faults.plan(request.to_owned(), fault.clone(), FOREVER);
    let end = scenario.run(&mut world);
    assert_invariants(&world, context);
    match end {
        End::Done(Outcome::Failed { step: at, failure }) => {
            assert_eq!(at, step, "{context}");
            assert!(!failure.message.is_empty() && step.releases().is_none(), "{context}");
            assert_nothing_held(&world, scenario, context);
            if step <= Step::Include {
                assert_eq!(world.pool.recipe, scenario.world().pool.recipe, "{context}: the recipe");
                assert!(world.latest().is_none_or(|latest| latest.read.number != number(TODAY)), "{context}: latest");
            }
        }
        End::Stuck(Stuck { holds, step: at, reason, advice }) => {
            assert_eq!(at, step, "{context}");
            let hold = step.releases().unwrap();
            assert_eq!(holds.first(), Some(&hold), "{context}: the first hold to release is the stuck one");
            assert!(!reason.is_empty() && advice.contains("kiln prototype resume"), "{context}: {advice}");
            let end = fix_and_resume(&mut world);
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{context}: {end:?}");
            assert_nothing_held(&world, scenario, context);
            let mut undisturbed = scenario.world();
            scenario.run(&mut undisturbed);
            assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
        }
        other => panic!("{context}: {other:?}"),
    }
}

#[test]
fn permanently_failing_step_releases_all_holds_or_is_stuck_with_advice() {
    for scenario in Scenario::all().into_iter().flat_map(free_and_held_donor) {
        for step in acting_steps(&scenario) {
            let context = format!("{} ({}): {step}", scenario.name, scenario.held_before);
            assert_failed_permanently(&scenario, &format!("act {step} "), &Fault::Permission, step, &context);
        }
    }
}

#[test]
fn permanently_failing_operation_releases_all_holds_or_is_stuck_with_advice() {
    let steps = [Step::PowerOff, Step::Start, Step::Snapshot, Step::Publish, Step::DeleteCanary, Step::Include];
    for class in [ErrorClass::Unexpected, ErrorClass::Capacity, ErrorClass::Quota] {
        for scenario in [Scenario::first(), Scenario::second()] {
            for step in steps {
                let context = format!("{}: {step} {class:?}", scenario.name);
                let fault = Fault::OperationFails(class);
                assert_failed_permanently(&scenario, &format!("act {step} "), &fault, step, &context);
            }
        }
    }
}

#[test]
fn temporary_faults_do_not_change_the_result() {
    let faults = [
        Fault::Throttled,
        Fault::ServerError,
        Fault::LostResponse,
        Fault::OperationFails(ErrorClass::Transient),
        Fault::OperationFails(ErrorClass::Preempted),
        Fault::OperationForgotten,
    ];
    for scenario in Scenario::all() {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        for (step, fault) in acting_steps(&scenario).into_iter().flat_map(|step| faults.iter().map(move |f| (step, f)))
        {
            let context = format!("{}: {fault:?} in {step}", scenario.name);
            let mut world = scenario.world();
            world.faults.plan(format!("act {step} "), fault.clone(), 1);
            let end = scenario.run(&mut world);
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{context}: {end:?}");
            assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
            assert_invariants(&world, &context);
        }
    }
}

#[test]
fn failed_reads_are_retried_and_then_all_holds_are_released() {
    let facts = ["Pool", "Gallery", "Versions", "Snapshot", "Instance", "Node", "Canary", "Saved"];
    // A first run has no version to prune, so it does not read which versions the instances use.
    for (scenario, more) in [(Scenario::first(), None), (Scenario::second(), Some("Instances"))] {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        for fact in facts.into_iter().chain(more) {
            let context = format!("{}: {fact}", scenario.name);
            let mut world = scenario.world();
            world.faults.plan(format!("read {fact}"), Fault::Throttled, 3);
            scenario.run(&mut world);
            assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");

            let mut world = scenario.world();
            world.faults.plan(format!("read {fact}"), Fault::Permission, FOREVER);
            let mut end = scenario.run(&mut world);
            if matches!(end, End::Stuck(_)) {
                end = fix_and_resume(&mut world);
            }
            assert!(matches!(end, End::Done(_)), "{context}: {end:?}");
            assert_nothing_held(&world, &scenario, &context);
            assert_invariants(&world, &context);
        }
    }
}

#[test]
fn repeating_every_action_does_not_change_the_result() {
    for scenario in Scenario::all() {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        let mut world = scenario.world();
        let mut driver = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
        driver.repeats = true;
        let end = driver.drive(&mut world);
        assert!(matches!(finish(&mut world, end), End::Done(Outcome::Completed { .. })), "{}", scenario.name);
        assert_eq!(end_state(&world), end_state(&undisturbed), "{}", scenario.name);
        assert_invariants(&world, scenario.name);
    }
}

#[test]
fn deletion_without_effect_is_repeated_a_few_times() {
    let requests = ["act prune ", "act delete-canary ", "act delete-snapshot ", "act strip-scripts "];
    for request in requests {
        let scenario = if request.contains("strip") { Scenario::first() } else { Scenario::second() };
        let mut world = scenario.world();
        world.faults.plan(request.to_owned(), Fault::NoEffect, 3);
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{request}: {end:?}");
        assert_invariants(&world, request);

        let mut world = scenario.world();
        world.faults.plan(request.to_owned(), Fault::NoEffect, FOREVER);
        match scenario.run(&mut world) {
            End::Stuck(stuck) => assert_eq!(stuck.step, Step::DeleteCanary),
            End::Done(Outcome::Failed { failure, .. }) => {
                assert!(failure.message.contains("the resource still exists"), "{failure}");
            }
            other => panic!("{request}: {other:?}"),
        }
    }
}

/// Steps that trust the response of the cloud. If it was wrong, a later step notices.
#[test]
fn step_without_effect_is_noticed_by_a_later_step() {
    for step in [Step::Claim, Step::PowerOff, Step::Start, Step::CreateCanary, Step::ReleaseClaim] {
        let scenario = Scenario::second();
        let mut world = scenario.world();
        world.faults.plan(format!("act {step} "), Fault::NoEffect, 1);
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{step}: {end:?}");
        assert_invariants(&world, step.name());
    }
}

#[test]
fn version_whose_canary_registers_and_does_not_become_ready_is_rejected() {
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut world = scenario.world();
        world.bad_disk = true;
        let End::Done(Outcome::Rejected { version, reason }) = scenario.run(&mut world) else { panic!() };
        assert_eq!(version, number(TODAY));
        assert!(reason.contains("is not Ready"), "{reason}");
        assert!(world.versions[&version].read.excluded);
        let tags = &world.definition.as_ref().unwrap().tags;
        assert_eq!(tags[REJECTED_TAG], TODAY);
        assert!(
            tags.iter().any(|(name, value)| name.starts_with("kiln-rejected-") && value.starts_with(TODAY)),
            "{tags:?}"
        );
        assert_eq!(world.pool.recipe, scenario.world().pool.recipe);
        assert_nothing_held(&world, &scenario, scenario.name);
        assert_invariants(&world, scenario.name);
    }
}

#[test]
fn version_whose_canary_does_not_register_is_not_proven_and_the_next_run_tests_it_again() {
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut world = scenario.world();
        world.canary_registers = false;
        let end = scenario.run(&mut world);
        let End::Done(Outcome::Failed { step, failure }) = &end else { panic!("{}: {end:?}", scenario.name) };
        assert_eq!(*step, Step::AwaitCanary);
        assert!(failure.message.contains("is not proven"), "{failure}");
        assert!(!world.definition.as_ref().unwrap().tags.contains_key(REJECTED_TAG), "{}", scenario.name);
        assert!(world.versions[&number(TODAY)].read.excluded);
        assert_eq!(world.pool.recipe, scenario.world().pool.recipe);
        assert_nothing_held(&world, &scenario, scenario.name);

        world.canary_registers = true;
        let mut later = Driver::open(&mut world, "later", "r2", &scenario.header()).unwrap();
        let end = later.drive(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{}: {end:?}", scenario.name);
        assert!(!world.versions[&number(TODAY)].read.excluded);
        assert_invariants(&world, scenario.name);
    }
}

#[test]
fn canary_that_cannot_be_read_or_created_does_not_reject_the_version() {
    let scenario = Scenario::second();
    for (request, fault) in [
        ("read Canary", Fault::Permission),
        ("act create-canary ", Fault::OperationFails(ErrorClass::Capacity)),
        ("act create-canary ", Fault::Capacity),
    ] {
        let mut world = scenario.world();
        world.faults.plan(request.to_owned(), fault, FOREVER);
        let mut end = scenario.run(&mut world);
        if matches!(end, End::Stuck(_)) {
            end = fix_and_resume(&mut world);
        }
        assert!(matches!(end, End::Done(Outcome::Failed { .. })), "{request}: {end:?}");
        assert!(!world.definition.as_ref().unwrap().tags.contains_key(REJECTED_TAG), "{request}");
        assert_nothing_held(&world, &scenario, request);
    }
}

#[test]
fn temporary_lack_of_capacity_for_the_canary_is_retried() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    let fault = Fault::OperationFails(ErrorClass::Capacity);
    world.faults.plan("act create-canary CreateCanary".to_owned(), fault, 3);
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(&world, &scenario, "capacity");
}

#[test]
fn region_without_zones_gets_local_storage() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    world.zones = false;
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    let version = &world.versions[&number(TODAY)];
    assert_eq!(version.read.storage, Some(kiln_types::Storage::Local));
    assert_eq!(version.read.state, VersionState::Succeeded);
    assert_invariants(&world, "no zones");
}

#[test]
fn donor_that_does_not_become_ready_needs_a_person_and_the_run_can_be_resumed() {
    for scenario in free_and_held_donor(Scenario::first()) {
        let mut world = scenario.world();
        world.machines.get_mut(&crate::world::DONOR).unwrap().broken = true;
        let End::Stuck(stuck) = scenario.run(&mut world) else { panic!("not stuck") };
        assert_eq!(stuck.step, Step::AwaitReady);
        assert!(stuck.advice.contains("kiln prototype resume") && stuck.advice.contains("vmss000000"));
        // Meanwhile the autoscaler must not remove it.
        assert!(world.donor_node().unwrap().autoscaler.is_some());
        let now = world.now;
        let donor = world.machines.get_mut(&crate::world::DONOR).unwrap();
        (donor.broken, donor.up_since) = (false, Some(now));
        let end = fix_and_resume(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
        assert_nothing_held(&world, &scenario, "fixed");
    }
}

#[test]
fn node_whose_stop_was_not_noticed_does_not_count_as_restarted() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        world.pace = Pace::QUICK;
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{}: {end:?}", scenario.name);
        assert_invariants(&world, scenario.name);
    }
}

#[test]
fn deallocated_donor_without_capacity_is_retried_and_then_stuck() {
    let mut scenario = Scenario::first();
    scenario.options.deallocate = true;
    let mut world = scenario.world();
    let fault = Fault::OperationFails(ErrorClass::Capacity);
    world.faults.plan("act start ".to_owned(), fault.clone(), 4);
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "temporary: {end:?}");

    let mut world = scenario.world();
    world.faults.plan("act start ".to_owned(), fault, FOREVER);
    let End::Stuck(stuck) = scenario.run(&mut world) else { panic!("not stuck") };
    assert!(stuck.advice.contains("az vmss start"), "{}", stuck.advice);
    let end = fix_and_resume(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(&world, &scenario, "capacity returned");
}

#[test]
fn refused_run_changes_nothing() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    world.blockers = vec!["the upgrade policy is not Manual".to_owned()];
    let before = end_state(&world);
    assert_eq!(scenario.run(&mut world), End::Refused(world.blockers.clone()));
    assert!(world.acts.is_empty());
    assert_eq!(end_state(&world), before);
}

fn live() -> Scenario {
    let mut scenario = Scenario::first();
    scenario.options.live = true;
    scenario
}

#[test]
fn live_run_keeps_the_donor_and_its_pods_running() {
    let scenario = live();
    let mut world = scenario.world();
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    let (donor, node) = (world.donor().unwrap(), world.donor_node().unwrap());
    assert_eq!((donor.boot, node.pods), (1, 12), "neither restarted nor drained");
    let donor_acts: Vec<&str> = world.acts.iter().map(String::as_str).filter(|act| !act.contains("Create")).collect();
    for absent in ["protect", "drain", "power-off", "start", "unprotect", "thaw"] {
        assert!(!donor_acts.iter().any(|act| act.starts_with(absent)), "{absent}: {donor_acts:?}");
    }
    let lines = world.journal.lines().collect::<Vec<_>>().join("\n");
    assert!(lines.contains("the file systems were frozen for 6.0 s"), "{lines}");
}

#[test]
fn snapshot_that_outlasts_the_freeze_is_deleted_and_never_becomes_a_version() {
    let scenario = live();
    let mut world = scenario.world();
    world.pace.snapshot = Duration::from_secs(10);
    let end = scenario.run(&mut world);
    let End::Done(Outcome::Failed { step: Step::LiveSnapshot, failure }) = end else { panic!("{end:?}") };
    assert!(failure.message.contains("were thawed before its snapshot was complete"), "{failure}");
    assert_nothing_held(&world, &scenario, "a slow snapshot");
    assert!(world.versions.is_empty());
    assert_eq!(world.acts.iter().filter(|act| *act == "live-snapshot LiveSnapshot").count(), 4);

    // What the failed run left is not used by the next run of the day, live or not.
    assert!(world.snapshot.is_some());
    world.pace.snapshot = Duration::from_secs(1);
    let mut next = Driver::open(&mut world, "next", "r2", &Scenario::first().header()).unwrap();
    let end = next.drive(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert!(world.snapshot_is_good);
    assert_invariants(&world, "the next run");
}
