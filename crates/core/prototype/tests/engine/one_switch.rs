//! A scale-out at any instant of a run creates nodes from a tested version with a recipe that joins.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::ErrorClass;

use crate::driver::{Driver, End, replay};
use crate::fault::Fault;
use crate::scenario::{Scenario, TODAY, assert_invariants, assert_nothing_held, number};
use crate::world::{CreatedInstance, World};

/// Runs with an external change before each turn, and returns the number of turns.
fn run_with(scenario: &Scenario, world: &mut World, mut change: impl FnMut(u32, &mut World)) -> (End, u32) {
    let mut driver = Driver::open(world, "first", "r1", &scenario.header()).unwrap();
    for turn in 0.. {
        change(turn, world);
        if let Some(end) = driver.turn(world) {
            world.lease = None;
            return (end, turn);
        }
    }
    unreachable!("the loop has no end")
}

fn assert_good(instance: &CreatedInstance, context: &str) {
    assert!(instance.tested, "{context}: untested: {instance:?}");
    assert!(instance.joined, "{context}: did not join: {instance:?}");
}

#[test]
fn pool_that_grows_at_any_instant_gets_nodes_that_join() {
    for scenario in Scenario::all() {
        let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
        let mut from_today = 0;
        for at in 0..turns {
            let context = format!("{}: turn {at}", scenario.name);
            let mut world = scenario.world();
            let grows = |turn: u32, world: &mut World| {
                if turn == at {
                    world.scale_out(1);
                }
            };
            let (end, _) = run_with(&scenario, &mut world, grows);
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{context}: {end:?}");
            assert_good(&world.created[0], &context);
            from_today += u32::from(world.created[0].version == Some(number(TODAY)));
            assert_nothing_held(&world, &scenario, &context);
            assert_invariants(&world, &context);
        }
        assert!(
            from_today > 0 && from_today < turns,
            "{}: nodes were created only before or only after the switch",
            scenario.name
        );
    }
}

#[test]
fn pool_that_grows_all_the_time_gets_nodes_that_join() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        let (end, _) = run_with(&scenario, &mut world, |turn, world| {
            if turn % 7 == 0 {
                world.scale_out(1);
            }
        });
        // Writes to such a busy pool may fail their precondition too often, but its nodes are good.
        assert!(matches!(end, End::Done(_)), "{}: {end:?}", scenario.name);
        for instance in &world.created {
            assert_good(instance, scenario.name);
        }
        assert_nothing_held(&world, &scenario, scenario.name);
        assert_invariants(&world, scenario.name);
    }
}

#[test]
fn no_new_node_gets_a_rejected_version() {
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut world = scenario.world();
        world.bad_disk = true;
        let (end, _) = run_with(&scenario, &mut world, |turn, world| {
            if turn % 2 == 0 {
                world.scale_out(1);
            }
        });
        assert!(matches!(end, End::Done(Outcome::Rejected { .. })), "{end:?}");
        world.scale_out(1);
        for instance in &world.created {
            assert_good(instance, scenario.name);
            assert_ne!(instance.version, Some(number(TODAY)));
        }
    }
}

#[test]
fn model_detects_an_untested_version_that_is_included() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    let (_, _) = run_with(&scenario, &mut world, |_, world| {
        if let Some(version) = world.versions.get_mut(&number(TODAY))
            && version.read.state == kiln_types::VersionState::Succeeded
            && !version.tested
            && world.created.is_empty()
        {
            version.read.excluded = false;
            world.scale_out(1);
        }
    });
    assert!(!world.created[0].tested && !world.violations.is_empty());
}

#[test]
fn external_changes_of_the_scale_set_are_kept() {
    for scenario in Scenario::few() {
        let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
        for at in 0..turns {
            let context = format!("{}: turn {at}", scenario.name);
            let mut world = scenario.world();
            let (end, _) = run_with(&scenario, &mut world, |turn, world| {
                if turn == at {
                    world.write_foreign_tag();
                }
            });
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{context}: {end:?}");
            assert!(world.pool.tags.contains_key("cost-centre"), "{context}");
            assert_nothing_held(&world, &scenario, &context);
            assert_invariants(&world, &context);
        }
    }
}

#[test]
fn donor_that_is_deleted_at_any_instant_leaves_no_holds() {
    for scenario in Scenario::few() {
        let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
        let mut completed = 0;
        for at in 0..turns {
            let context = format!("{}: turn {at}", scenario.name);
            let mut world = scenario.world();
            let (end, _) = run_with(&scenario, &mut world, |turn, world| {
                if turn == at {
                    world.delete_donor();
                }
            });
            match end {
                End::Done(Outcome::Completed { .. }) => completed += 1,
                End::Done(Outcome::Failed { failure, .. }) => {
                    assert_eq!(failure.class, ErrorClass::NotFound, "{context}: {failure}");
                }
                other => panic!("{context}: {other:?}"),
            }
            assert_nothing_held(&world, &scenario, &context);
            assert_invariants(&world, &context);
        }
        assert!(
            completed > 0,
            "{}: no run completed although the donor is not needed after the snapshot",
            scenario.name
        );
    }
}

#[test]
fn donor_that_is_started_while_it_is_away_is_not_copied() {
    let scenario = Scenario::first();
    let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
    let mut refused = 0;
    for at in 0..turns {
        let context = format!("turn {at}");
        let mut world = scenario.world();
        let (end, _) = run_with(&scenario, &mut world, |turn, world| {
            if turn == at {
                world.start_donor();
            }
        });
        match end {
            End::Done(Outcome::Completed { .. }) => {}
            End::Done(Outcome::Failed { failure, .. }) => {
                assert!(failure.message.contains("started"), "{context}: {failure}");
                refused += 1;
            }
            other => panic!("{context}: {other:?}"),
        }
        assert_nothing_held(&world, &scenario, &context);
    }
    assert!(refused > 0, "the donor was never started between power-off and snapshot");
}

#[test]
fn nodes_are_added_at_most_once() {
    let mut scenario = Scenario::second();
    scenario.options.new_nodes = 2;
    let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
    for fault in [Fault::LostResponse, Fault::OperationForgotten, Fault::OperationFails(ErrorClass::Transient)] {
        for at in 0..turns + 5 {
            let mut world = scenario.world();
            world.faults.plan("act add-nodes ".to_owned(), fault.clone(), 1);
            let (end, _) = run_with(&scenario, &mut world, |turn, world| {
                if turn == at {
                    world.scale_in();
                }
            });
            assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{fault:?} {at}: {end:?}");
            let done = format!("{:?}", replay(&world)[0].step(Step::AddNodes).unwrap().done);
            let doubtful = done.contains("no more are added");
            assert!(world.additions == 1 || (world.additions == 0 && doubtful), "{fault:?} {at}: {done}");
        }
    }
}
