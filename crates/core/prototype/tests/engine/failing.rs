//! Steps that fail: once, and for good.

use std::collections::BTreeSet;

use kiln_prototype::decide::Stuck;
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::tags::REJECTED_TAG;
use kiln_types::{ErrorClass, VersionState};

use crate::driver::{Driver, End};
use crate::fault::Fault;
use crate::scenario::{Scenario, TODAY, assert_nothing_held, assert_rules, end_state, finish, number};
use crate::world::{Pace, World};

const FOREVER: u32 = u32::MAX;

/// The steps in which an undisturbed run does something.
pub(crate) fn acting(scenario: &Scenario) -> Vec<Step> {
    let mut world = scenario.world();
    scenario.run(&mut world);
    let names: BTreeSet<&str> = world.acts.iter().map(|act| act.split_once(' ').unwrap().0).collect();
    Step::ALL.into_iter().filter(|step| names.contains(step.name())).collect()
}

fn with_held_before(mut scenario: Scenario) -> [Scenario; 2] {
    let plain = scenario.clone();
    scenario.held_before = true;
    [plain, scenario]
}

/// Mends what keeps a run, and takes it up again.
fn mend_and_resume(world: &mut World) -> End {
    world.faults.rules.clear();
    Driver::resume(world, "helper").unwrap().drive(world)
}

fn assert_failed_for_good(scenario: &Scenario, place: &str, fault: &Fault, step: Step, context: &str) {
    let mut world = scenario.world();
    world.faults.plan(place.to_owned(), fault.clone(), FOREVER);
    let end = scenario.run(&mut world);
    assert_rules(&world, context);
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
            let given = step.releases().unwrap();
            assert_eq!(holds.first(), Some(&given), "{context}: what is given back first is what it cannot give back");
            assert!(!reason.is_empty() && advice.contains("kiln prototype resume"), "{context}: {advice}");
            let end = mend_and_resume(&mut world);
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
fn a_step_that_is_refused_for_good_leaves_everything_as_it_was_or_says_what_to_do() {
    for scenario in Scenario::all().into_iter().flat_map(with_held_before) {
        for step in acting(&scenario) {
            let context = format!("{} ({}): {step}", scenario.name, scenario.held_before);
            assert_failed_for_good(&scenario, &format!("act {step} "), &Fault::Permission, step, &context);
        }
    }
}

#[test]
fn a_step_whose_operation_always_ends_badly_does_too() {
    let machine = [Step::PowerOff, Step::Start, Step::Snapshot, Step::Publish, Step::DeleteCanary, Step::Include];
    for class in [ErrorClass::Unexpected, ErrorClass::Capacity, ErrorClass::Quota] {
        for scenario in [Scenario::first(), Scenario::second()] {
            for step in machine {
                let context = format!("{}: {step} {class:?}", scenario.name);
                let fault = Fault::OperationFails(class);
                assert_failed_for_good(&scenario, &format!("act {step} "), &fault, step, &context);
            }
        }
    }
}

#[test]
fn what_passes_changes_nothing_of_the_end() {
    let faults = [
        Fault::Throttled,
        Fault::ServerError,
        Fault::LostAnswer,
        Fault::OperationFails(ErrorClass::Transient),
        Fault::OperationFails(ErrorClass::Preempted),
        Fault::OperationForgotten,
    ];
    for scenario in Scenario::all() {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        for (step, fault) in acting(&scenario).into_iter().flat_map(|step| faults.iter().map(move |f| (step, f))) {
            let context = format!("{}: {fault:?} in {step}", scenario.name);
            let mut world = scenario.world();
            world.faults.plan(format!("act {step} "), fault.clone(), 1);
            let end = scenario.run(&mut world);
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{context}: {end:?}");
            assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
            assert_rules(&world, &context);
        }
    }
}

#[test]
fn what_cannot_be_read_is_tried_again_and_then_given_back() {
    let facts = ["Pool", "Gallery", "Versions", "Snapshot", "Instance", "Node", "Canary", "Instances", "Saved"];
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        for fact in facts {
            let context = format!("{}: {fact}", scenario.name);
            let mut world = scenario.world();
            world.faults.plan(format!("read {fact}"), Fault::Throttled, 3);
            scenario.run(&mut world);
            assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");

            let mut world = scenario.world();
            world.faults.plan(format!("read {fact}"), Fault::Permission, FOREVER);
            let mut end = scenario.run(&mut world);
            if matches!(end, End::Stuck(_)) {
                end = mend_and_resume(&mut world);
            }
            assert!(matches!(end, End::Done(_)), "{context}: {end:?}");
            assert_nothing_held(&world, &scenario, &context);
            assert_rules(&world, &context);
        }
    }
}

#[test]
fn doing_every_act_twice_changes_nothing() {
    for scenario in Scenario::all() {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        let mut world = scenario.world();
        let mut driver = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
        driver.stutters = true;
        let end = driver.drive(&mut world);
        assert!(matches!(finish(&mut world, end), End::Done(Outcome::Completed { .. })), "{}", scenario.name);
        assert_eq!(end_state(&world), end_state(&undisturbed), "{}", scenario.name);
        assert_rules(&world, scenario.name);
    }
}

#[test]
fn a_deletion_that_reports_success_and_has_not_happened_is_done_again_a_few_times() {
    let places = ["act prune ", "act delete-canary ", "act delete-snapshot ", "act strip-scripts "];
    for place in places {
        let scenario = if place.contains("strip") { Scenario::first() } else { Scenario::second() };
        let mut world = scenario.world();
        world.faults.plan(place.to_owned(), Fault::InVain, 3);
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{place}: {end:?}");
        assert_rules(&world, place);

        let mut world = scenario.world();
        world.faults.plan(place.to_owned(), Fault::InVain, FOREVER);
        match scenario.run(&mut world) {
            End::Stuck(stuck) => assert_eq!(stuck.step, Step::DeleteCanary),
            End::Done(Outcome::Failed { failure, .. }) => assert!(failure.message.contains("5 times"), "{failure}"),
            other => panic!("{place}: {other:?}"),
        }
    }
}

#[test]
fn a_canary_that_does_not_join_condemns_the_version_and_nobody_gets_it() {
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
        assert_rules(&world, scenario.name);
    }
}

#[test]
fn a_canary_that_cannot_be_read_or_made_condemns_nothing() {
    let scenario = Scenario::second();
    for (place, fault) in [
        ("read Canary", Fault::Permission),
        ("act create-canary ", Fault::OperationFails(ErrorClass::Capacity)),
        ("act create-canary ", Fault::Capacity),
    ] {
        let mut world = scenario.world();
        world.faults.plan(place.to_owned(), fault, FOREVER);
        let mut end = scenario.run(&mut world);
        if matches!(end, End::Stuck(_)) {
            end = mend_and_resume(&mut world);
        }
        assert!(matches!(end, End::Done(Outcome::Failed { .. })), "{place}: {end:?}");
        assert!(!world.definition.as_ref().unwrap().tags.contains_key(REJECTED_TAG), "{place}");
        assert_nothing_held(&world, &scenario, place);
    }
}

#[test]
fn want_of_capacity_for_the_canary_passes() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    let fault = Fault::OperationFails(ErrorClass::Capacity);
    world.faults.plan("act create-canary CreateCanary".to_owned(), fault, 3);
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(&world, &scenario, "capacity");
}

#[test]
fn a_region_without_zones_gets_local_copies() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    world.zones = false;
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    let version = &world.versions[&number(TODAY)];
    assert_eq!(version.read.storage, Some(kiln_types::Storage::Local));
    assert_eq!(version.read.state, VersionState::Succeeded);
    assert_rules(&world, "no zones");
}

#[test]
fn a_donor_that_does_not_come_back_is_a_matter_for_a_person_and_then_the_run_goes_on() {
    for scenario in with_held_before(Scenario::first()) {
        let mut world = scenario.world();
        world.machines.get_mut(&crate::world::DONOR).unwrap().broken = true;
        let End::Stuck(stuck) = scenario.run(&mut world) else { panic!("not stuck") };
        assert_eq!(stuck.step, Step::AwaitReady);
        assert!(stuck.advice.contains("kiln prototype resume") && stuck.advice.contains("vmss000000"));
        // Meanwhile the autoscaler must not take it.
        assert!(world.donor_node().unwrap().autoscaler.is_some());
        let now = world.now;
        let donor = world.machines.get_mut(&crate::world::DONOR).unwrap();
        (donor.broken, donor.up_since) = (false, Some(now));
        let end = mend_and_resume(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
        assert_nothing_held(&world, &scenario, "mended");
    }
}

#[test]
fn a_node_that_nobody_has_missed_yet_is_not_taken_for_one_that_came_back() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        world.pace = Pace::QUICK;
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{}: {end:?}", scenario.name);
        assert_rules(&world, scenario.name);
    }
}

#[test]
fn want_of_capacity_keeps_a_deallocated_donor_off_until_a_person_helped() {
    let mut scenario = Scenario::first();
    scenario.options.deallocate = true;
    let mut world = scenario.world();
    let fault = Fault::OperationFails(ErrorClass::Capacity);
    world.faults.plan("act start ".to_owned(), fault.clone(), 4);
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "it passed: {end:?}");

    let mut world = scenario.world();
    world.faults.plan("act start ".to_owned(), fault, FOREVER);
    let End::Stuck(stuck) = scenario.run(&mut world) else { panic!("not stuck") };
    assert!(stuck.advice.contains("az vmss start"), "{}", stuck.advice);
    let end = mend_and_resume(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(&world, &scenario, "capacity came back");
}

#[test]
fn a_run_that_is_refused_touches_nothing() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    world.blockers = vec!["the upgrade options is not Manual".to_owned()];
    let before = end_state(&world);
    assert_eq!(scenario.run(&mut world), End::Refused(world.blockers.clone()));
    assert!(world.acts.is_empty());
    assert_eq!(end_state(&world), before);
}
