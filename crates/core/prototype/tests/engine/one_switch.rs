//! At every instant a new node gets a tested version and a recipe with which it joins.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_types::ErrorClass;

use crate::driver::{Driver, End, replay};
use crate::fault::Fault;
use crate::scenario::{Scenario, TODAY, assert_nothing_held, assert_rules, number};
use crate::world::{Birth, World};

/// Runs with an external event before each turn, and returns the number of turns.
fn run_with(scenario: &Scenario, world: &mut World, mut happens: impl FnMut(u32, &mut World)) -> (End, u32) {
    let mut driver = Driver::open(world, "first", "r1", &scenario.header()).unwrap();
    for turn in 0.. {
        happens(turn, world);
        if let Some(end) = driver.turn(world) {
            world.lease = None;
            return (end, turn);
        }
    }
    unreachable!("the loop has no end")
}

fn assert_good(birth: &Birth, context: &str) {
    assert!(birth.tested, "{context}: untested: {birth:?}");
    assert!(birth.joined, "{context}: did not join: {birth:?}");
}

#[test]
fn pool_that_grows_at_any_instant_gets_nodes_that_join() {
    for scenario in Scenario::all() {
        let (_, turns) = run_with(&scenario, &mut scenario.world(), |_, _| {});
        let mut of_today = 0;
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
            assert_good(&world.births[0], &context);
            of_today += u32::from(world.births[0].version == Some(number(TODAY)));
            assert_nothing_held(&world, &scenario, &context);
            assert_rules(&world, &context);
        }
        assert!(of_today > 0 && of_today < turns, "{}: both sides of the switch were tested", scenario.name);
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
        for birth in &world.births {
            assert_good(birth, scenario.name);
        }
        assert_nothing_held(&world, &scenario, scenario.name);
        assert_rules(&world, scenario.name);
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
        for birth in &world.births {
            assert_good(birth, scenario.name);
            assert_ne!(birth.version, Some(number(TODAY)));
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
            && world.births.is_empty()
        {
            version.read.excluded = false;
            world.scale_out(1);
        }
    });
    assert!(!world.births[0].tested && !world.broken_rules.is_empty());
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
            assert_rules(&world, &context);
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
            assert_rules(&world, &context);
        }
        assert!(completed > 0, "{}: the donor is not needed after the snapshot", scenario.name);
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
    assert!(refused > 0, "some instant is between power off and snapshot");
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
