//! A driver dies at any point, and another one finishes the run.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::tags::RECIPE_TAG;
use kiln_types::{ImageSource, JoinMode};

use crate::driver::{Driver, End};
use crate::fault::{Fault, Point};
use crate::scenario::{Scenario, TODAY, assert_invariants, assert_nothing_held, end_state, number};
use crate::world::World;

fn completed() -> End {
    End::Done(Outcome::Completed { version: number(TODAY) })
}

#[test]
fn undisturbed_run_completes_and_releases_all_holds() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        assert_eq!(scenario.run(&mut world), completed(), "{}", scenario.name);
        assert_nothing_held(&world, &scenario, scenario.name);
        assert_invariants(&world, scenario.name);
        assert!(world.snapshot.is_none(), "{}: the snapshot still exists", scenario.name);
        let latest = world.latest().unwrap();
        assert_eq!(latest.read.number, number(TODAY), "{}", scenario.name);
        let definition = world.definition_name.clone();
        let image = if scenario.options.pin {
            ImageSource::ExactVersion(definition, number(TODAY))
        } else {
            ImageSource::Definition(definition)
        };
        assert_eq!(world.pool.recipe.image, image, "{}", scenario.name);
        let keeps = scenario.options.join == Some(JoinMode::Recipe);
        assert_eq!(world.bootstraps, keeps, "{}: the custom data", scenario.name);
        let extensions: Vec<&str> = world.pool.recipe.extensions.iter().map(|e| e.name.as_str()).collect();
        let expected: &[&str] = if keeps { &["vmssCSE", "k8s-billing"] } else { &["k8s-billing"] };
        assert_eq!(extensions, expected, "{}: only the script is removed", scenario.name);
        assert_eq!(world.pool.tags.contains_key(RECIPE_TAG), !keeps, "{}: the recipe's tag", scenario.name);
        assert_eq!(world.pool.capacity, 3 + scenario.options.new_nodes, "{}", scenario.name);
        assert!(world.saved, "{}: the original recipe", scenario.name);
    }
}

#[test]
fn run_that_died_at_any_point_is_resumed_to_the_same_result() {
    for scenario in Scenario::all() {
        let mut undisturbed = scenario.world();
        scenario.run(&mut undisturbed);
        let mut died = 0;
        for step in Step::ALL {
            for point in Point::ALL {
                let context = format!("{}: died at {step} {point:?}", scenario.name);
                let mut world = scenario.world();
                world.faults.crash = Some((step, point));
                assert_eq!(scenario.run(&mut world), completed(), "{context}");
                assert_nothing_held(&world, &scenario, &context);
                assert_invariants(&world, &context);
                assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
                died += u32::from(world.faults.crash.is_none());
            }
        }
        // Steps that are not part of this kind of run cannot die.
        let least = if scenario.options.live { 48 } else { 60 };
        assert!(died >= least, "{}: died at only {died} points", scenario.name);
    }
}

/// The same for runs that do not complete.
fn assert_same_result_at_every_crash(scenario: &Scenario, break_it: impl Fn(&mut World), least: u32) {
    let mut undisturbed = scenario.world();
    break_it(&mut undisturbed);
    let expected = scenario.run(&mut undisturbed);
    assert!(matches!(expected, End::Done(_)), "{expected:?}");
    let mut died = 0;
    for (step, point) in Step::ALL.into_iter().flat_map(|step| Point::ALL.map(|point| (step, point))) {
        let context = format!("{}: died at {step} {point:?}", scenario.name);
        let mut world = scenario.world();
        break_it(&mut world);
        world.faults.crash = Some((step, point));
        assert_eq!(scenario.run(&mut world), expected, "{context}");
        assert_nothing_held(&world, scenario, &context);
        assert_invariants(&world, &context);
        assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
        died += u32::from(world.faults.crash.is_none());
    }
    assert!(died >= least, "{}: died at only {died} points", scenario.name);
}

#[test]
fn failing_run_releases_all_holds_at_every_crash() {
    for scenario in [Scenario::first(), Scenario { held_before: true, ..Scenario::second() }] {
        for (request, least) in [("act drain ", 24), ("act snapshot ", 36)] {
            let refuse = |world: &mut World| world.faults.plan(request.to_owned(), Fault::Permission, u32::MAX);
            assert_same_result_at_every_crash(&scenario, refuse, least);
        }
    }
}

#[test]
fn failing_live_run_verifies_the_thaw_at_every_crash() {
    let mut scenario = Scenario { held_before: true, ..Scenario::second() };
    scenario.options.live = true;
    let refuse = |world: &mut World| world.faults.plan("act live-snapshot ", Fault::Permission, u32::MAX);
    assert_same_result_at_every_crash(&scenario, refuse, 24);
}

#[test]
fn version_is_rejected_at_every_crash() {
    for scenario in [Scenario::first(), Scenario::second()] {
        assert_same_result_at_every_crash(&scenario, |world| world.bad_disk = true, 60);
    }
}

#[test]
fn closed_run_is_not_resumed() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    scenario.run(&mut world);
    let before = end_state(&world);
    let lines = world.journal.entries.len();
    let mut driver = Driver::resume(&mut world, "later").unwrap();
    assert_eq!(driver.drive(&mut world), completed());
    assert_eq!((end_state(&world), world.journal.entries.len()), (before, lines));
}
