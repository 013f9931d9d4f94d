//! Two processes at once: one continues, and the other one changes nothing.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::tags::CLAIM_TAG;
use kiln_types::{CanaryName, ErrorClass};

use crate::driver::{Driver, End};
use crate::scenario::{Scenario, assert_invariants, assert_nothing_held, end_state};
use crate::world::{Journal, World};

#[test]
fn lease_excludes_a_second_process() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    let mut first = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
    while first.turn(&mut world).is_none() {
        let entries = world.journal.entries.len();
        let until = world.lease.clone().unwrap().1;
        if until > world.now {
            assert_eq!(Driver::open(&mut world, "second", "r2", &scenario.header()).err(), Some(End::Lost("lease")));
            assert_eq!(world.journal.entries.len(), entries);
        }
    }
    assert_invariants(&world, "lease");
}

/// The first process sleeps until its lease has expired, the second resumes the run, and the first wakes up.
#[test]
fn process_that_slept_past_its_lease_stops_at_the_journal() {
    let scenario = Scenario::first();
    let mut undisturbed = scenario.world();
    scenario.run(&mut undisturbed);
    for asleep_after in 1..150 {
        let mut world = scenario.world();
        let mut first = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
        if (0..asleep_after).any(|_| first.turn(&mut world).is_some()) {
            assert!(asleep_after > 60, "the run is over after {asleep_after} turns");
            return;
        }
        world.sleep(std::time::Duration::from_mins(1));
        let mut second = Driver::resume(&mut world, "second").unwrap();
        for _ in 0..5 {
            if second.turn(&mut world).is_some() {
                break;
            }
        }
        let acts = world.acts.len();
        let end = (0..2_000).find_map(|_| first.turn(&mut world)).expect("it stops");
        assert!(matches!(end, End::Lost(_) | End::Done(_)), "{asleep_after}: {end:?}");
        assert_eq!(world.acts.len(), acts, "{asleep_after}: the sleeping process acted");
        let end = second.drive(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{asleep_after}: {end:?}");
        assert_eq!(end_state(&world), end_state(&undisturbed), "{asleep_after}");
        assert_invariants(&world, "slept");
    }
}

/// Two clusters share neither lease nor journal.
#[test]
fn tag_excludes_a_run_of_another_cluster() {
    for (force, scenario) in [(false, Scenario::first()), (true, Scenario::second())] {
        let mut world = scenario.world();
        let mut first = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
        while !first.run.is_done(Step::Claim) {
            assert_eq!(first.turn(&mut world), None);
        }
        let mut first_cluster = switch_cluster(&mut world);
        let mut header = scenario.header();
        header.canary = CanaryName::from_run("r2").unwrap();
        header.options.force = force;
        let before = end_state(&world);
        let mut second = Driver::open(&mut world, "second", "r2", &header).unwrap();
        let End::Done(Outcome::Failed { step, failure }) = second.drive(&mut world) else { panic!() };
        assert_eq!((step, failure.class), (Step::Claim, ErrorClass::Busy));
        assert!(failure.message.contains("kiln-run=r1"), "{failure}");
        assert_eq!(end_state(&world), before);

        std::mem::swap(&mut first_cluster.0, &mut world.journal);
        world.lease = first_cluster.1;
        let end = first.drive(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
        assert_nothing_held(&world, &scenario, "the first one");
    }
}

#[test]
fn only_one_of_two_simultaneous_claims_succeeds() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    let mut first = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
    // The first process has read the pool and not yet written.
    while !first.run.is_done(Step::Preflight) {
        assert_eq!(first.turn(&mut world), None);
    }
    let first_cluster = switch_cluster(&mut world);
    let mut header = scenario.header();
    header.canary = CanaryName::from_run("r2").unwrap();
    let mut second = Driver::open(&mut world, "second", "r2", &header).unwrap();
    while !second.run.is_done(Step::Claim) {
        assert_eq!(second.turn(&mut world), None);
    }
    let second_journal = std::mem::replace(&mut world.journal, first_cluster.0);
    let lease = std::mem::replace(&mut world.lease, first_cluster.1);
    let End::Done(Outcome::Failed { step, .. }) = first.drive(&mut world) else { panic!() };
    assert_eq!((step, world.pool.tags[CLAIM_TAG].as_str()), (Step::Claim, "r2"));
    (world.journal, world.lease) = (second_journal, lease);
    let end = second.drive(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(&world, &scenario, "the second one");
    assert_invariants(&world, "both");
}

/// Another program overwrites the tag. The run that lost it does not change the model.
#[test]
fn run_that_lost_its_tag_does_not_change_the_model() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    let mut driver = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
    while !driver.run.is_done(Step::DeleteCanary) {
        assert_eq!(driver.turn(&mut world), None);
    }
    world.pool.tags.insert(CLAIM_TAG.to_owned(), "r9".to_owned());
    world.touch();
    let End::Done(Outcome::Failed { step, failure }) = driver.drive(&mut world) else { panic!() };
    assert_eq!((step, failure.class), (Step::Model, ErrorClass::Busy));
    assert_eq!(world.pool.recipe, scenario.world().pool.recipe);
    assert_eq!(world.pool.tags[CLAIM_TAG], "r9", "the tag of the other run is kept");
}

/// Replaces journal and lease with those of a cluster without runs, and returns the previous ones.
fn switch_cluster(world: &mut World) -> (Journal, Option<(String, jiff::Timestamp)>) {
    (std::mem::take(&mut world.journal), world.lease.take())
}
