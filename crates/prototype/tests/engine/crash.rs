//! A driver dies anywhere, and another one finishes its work.

use kiln_cloud::ImageSource;
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;

use crate::driver::{Driver, End};
use crate::fault::Point;
use crate::scenario::{Scenario, TODAY, assert_nothing_held, assert_rules, end_state, number};

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
        assert!(world.capture.is_none(), "{}: the copy is still there", scenario.name);
        let latest = world.latest().unwrap();
        assert_eq!(latest.read.number, number(TODAY), "{}", scenario.name);
        let line = world.line_name.clone();
        let image = if scenario.policy.pin {
            ImageSource::ExactVersion(line, number(TODAY))
        } else {
            ImageSource::Definition(line)
        };
        assert_eq!(world.pool.recipe.image, image, "{}", scenario.name);
        assert!(!world.bootstraps, "{}: the custom data is still there", scenario.name);
        let extensions: Vec<&str> = world.pool.recipe.extensions.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(extensions, ["k8s-billing"], "{}: the script goes, all else stays", scenario.name);
        assert_eq!(world.pool.capacity, 3 + scenario.policy.new_nodes, "{}", scenario.name);
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
