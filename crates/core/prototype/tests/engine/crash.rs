//! A driver dies anywhere, and another one finishes its work.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::ImageSource;

use crate::driver::{Driver, End};
use crate::fault::{Fault, Point};
use crate::scenario::{Scenario, TODAY, assert_nothing_held, assert_rules, end_state, number};
use crate::world::World;

fn completed() -> End {
    End::Done(Outcome::Completed { version: number(TODAY) })
}

#[test]
fn a_run_that_nobody_disturbs_ends_well_and_holds_nothing() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        assert_eq!(scenario.run(&mut world), completed(), "{}", scenario.name);
        assert_nothing_held(&world, &scenario, scenario.name);
        assert_rules(&world, scenario.name);
        assert!(world.snapshot.is_none(), "{}: the copy is still there", scenario.name);
        let latest = world.latest().unwrap();
        assert_eq!(latest.read.number, number(TODAY), "{}", scenario.name);
        let definition = world.definition_name.clone();
        let image = if scenario.options.pin {
            ImageSource::ExactVersion(definition, number(TODAY))
        } else {
            ImageSource::Definition(definition)
        };
        assert_eq!(world.pool.recipe.image, image, "{}", scenario.name);
        assert!(!world.bootstraps, "{}: the custom data is still there", scenario.name);
        let extensions: Vec<&str> = world.pool.recipe.extensions.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(extensions, ["k8s-billing"], "{}: the script goes, all else stays", scenario.name);
        assert_eq!(world.pool.capacity, 3 + scenario.options.new_nodes, "{}", scenario.name);
        assert!(world.saved, "{}: the way back", scenario.name);
    }
}

#[test]
fn whoever_resumes_a_run_that_died_anywhere_reaches_the_same_end() {
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
                assert_rules(&world, &context);
                assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
                died += u32::from(world.faults.crash.is_none());
            }
        }
        // Steps that do not belong to this kind of run have no place to die in.
        assert!(died >= 60, "{}: died at {died} places only", scenario.name);
    }
}

/// Runs that do not end well die anywhere too.
fn assert_same_end_wherever_it_dies(scenario: &Scenario, spoil: impl Fn(&mut World), least: u32) {
    let mut undisturbed = scenario.world();
    spoil(&mut undisturbed);
    let expected = scenario.run(&mut undisturbed);
    assert!(matches!(expected, End::Done(_)), "{expected:?}");
    let mut died = 0;
    for (step, point) in Step::ALL.into_iter().flat_map(|step| Point::ALL.map(|point| (step, point))) {
        let context = format!("{}: died at {step} {point:?}", scenario.name);
        let mut world = scenario.world();
        spoil(&mut world);
        world.faults.crash = Some((step, point));
        assert_eq!(scenario.run(&mut world), expected, "{context}");
        assert_nothing_held(&world, scenario, &context);
        assert_rules(&world, &context);
        assert_eq!(end_state(&world), end_state(&undisturbed), "{context}");
        died += u32::from(world.faults.crash.is_none());
    }
    assert!(died >= least, "{}: died at {died} places only", scenario.name);
}

#[test]
fn a_run_that_fails_before_the_copy_gives_everything_back_wherever_it_dies() {
    for scenario in [Scenario::first(), Scenario { held_before: true, ..Scenario::second() }] {
        for (place, least) in [("act drain ", 24), ("act snapshot ", 36)] {
            let refuse = |world: &mut World| world.faults.plan(place.to_owned(), Fault::Permission, u32::MAX);
            assert_same_end_wherever_it_dies(&scenario, refuse, least);
        }
    }
}

#[test]
fn a_version_is_condemned_wherever_the_run_dies() {
    for scenario in [Scenario::first(), Scenario::second()] {
        assert_same_end_wherever_it_dies(&scenario, |world| world.bad_disk = true, 60);
    }
}

#[test]
fn a_run_that_is_over_is_not_taken_up_again() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    scenario.run(&mut world);
    let before = end_state(&world);
    let lines = world.journal.entries.len();
    let mut driver = Driver::resume(&mut world, "later").unwrap();
    assert_eq!(driver.drive(&mut world), completed());
    assert_eq!((end_state(&world), world.journal.entries.len()), (before, lines));
}
