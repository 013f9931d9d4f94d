//! Runs with random faults from thousands of seeds.
//!
//! `KILN_SEED=4711 cargo test -p kiln-prototype --test engine one_seed -- --nocapture` repeats one and prints its journal.

use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;

use crate::driver::{Driver, End, replay};
use crate::fault::{Dice, Random};
use crate::scenario::{Scenario, TODAY, assert_nothing_held, number};
use crate::world::{DONOR, World};

#[cfg(not(feature = "tier2"))]
const SEEDS: u64 = 2_000;
#[cfg(feature = "tier2")]
const SEEDS: u64 = 20_000;

/// When a run is stuck this many times, all faults are removed so that it can end.
const MAX_STUCK: u32 = 6;

struct Played {
    scenario: Scenario,
    world: World,
    end: End,
}

fn random_scenario(dice: &mut Dice) -> Scenario {
    let mut scenario = if dice.one_in(2) { Scenario::first() } else { Scenario::second() };
    let options = &mut scenario.options;
    options.pin = dice.one_in(4);
    options.deallocate = dice.one_in(4);
    options.live = dice.one_in(3);
    options.canary = !dice.one_in(5);
    options.replace_today = dice.one_in(8);
    options.new_nodes = u32::try_from(dice.below(3)).unwrap();
    scenario.held_before = dice.one_in(4);
    scenario.has_first_boot = dice.one_in(2);
    scenario
}

fn play(seed: u64) -> Played {
    let mut dice = Dice(seed);
    let scenario = random_scenario(&mut dice);
    let mut world = scenario.world();
    world.zones = !dice.one_in(4);
    world.bad_disk = dice.one_in(8);
    world.machines.get_mut(&DONOR).unwrap().broken = dice.one_in(12);
    world.faults.random = Some(Random {
        faults_left: u32::try_from(dice.below(25)).unwrap(),
        crashes_left: u32::try_from(dice.below(6)).unwrap(),
        one_in: 2 + dice.below(12),
        dice: Dice(seed ^ 0x5eed),
    });
    let mut stuck_count = 0;
    let mut end = match Driver::open(&mut world, "first", "r1", &scenario.header()) {
        Ok(driver) => drive(driver, &mut world, &mut dice),
        Err(end) => end,
    };
    for life in 0..1_000 {
        match &end {
            End::Died => world.sleep(std::time::Duration::from_mins(1)),
            End::Stuck(stuck) => {
                assert!(!stuck.holds.is_empty() && stuck.advice.contains("resume"), "seed {seed}: {stuck:?}");
                stuck_count += 1;
                follow_advice(&mut world, stuck_count >= MAX_STUCK);
            }
            _ => return Played { scenario, world, end },
        }
        end = match Driver::resume(&mut world, &format!("life-{life}")) {
            Ok(driver) => drive(driver, &mut world, &mut dice),
            Err(end) => end,
        };
    }
    panic!("seed {seed}: no end");
}

/// Drives a run while other programs change the pool.
fn drive(mut driver: Driver, world: &mut World, dice: &mut Dice) -> End {
    for _ in 0..20_000 {
        match dice.below(400) {
            0..8 => world.scale_out(1),
            8..12 => world.scale_in(),
            12..20 => world.write_foreign_tag(),
            20 => world.start_donor(),
            21 if dice.one_in(4) => world.delete_donor(),
            _ => {}
        }
        if let Some(end) = driver.turn(world) {
            if !matches!(end, End::Died | End::Lost(_)) {
                world.lease = None;
            }
            return end;
        }
    }
    panic!("no end");
}

/// Repairs the donor, as a person who follows the advice would. Also removes all faults, if requested.
fn follow_advice(world: &mut World, remove_faults: bool) {
    let now = world.now;
    if let Some(donor) = world.machines.get_mut(&DONOR)
        && donor.broken
    {
        donor.broken = false;
        donor.up_since = (donor.power == kiln_types::PowerState::Running).then_some(now);
    }
    if remove_faults {
        world.faults.random = None;
    }
}

fn check(seed: u64, played: &Played) {
    let Played { scenario, world, end } = played;
    let context = format!("seed {seed} ({}), ended {end:?}", scenario.name);
    assert!(world.violations.is_empty(), "{context}: {:#?}", world.violations);
    assert_nothing_held(world, scenario, &context);
    let runs = replay(world);
    let [run] = runs.as_slice() else { panic!("{context}: {} runs", runs.len()) };
    assert_eq!(Some(end), run.closed.as_ref().map(|(_, outcome)| End::Done(outcome.clone())).as_ref(), "{context}");
    assert!(run.holds().is_empty(), "{context}: {:?}", run.holds());
    let is_included = world.latest().is_some_and(|latest| latest.read.number == number(TODAY));
    match end {
        End::Done(Outcome::Completed { .. }) => {
            assert!(is_included, "{context}: new nodes do not get the version");
            assert!(!world.bad_disk || !scenario.options.canary, "{context}: a bad disk was tested");
        }
        End::Done(Outcome::Rejected { .. }) => {
            // The disk was bad, or the donor was started while it was copied and deleted before that could be noticed.
            let joins = world.versions.get(&number(TODAY)).is_some_and(|version| version.joins);
            assert!(!joins && !is_included, "{context}: rejected without a cause, or included");
        }
        End::Done(Outcome::Failed { step, .. }) => {
            assert!(!is_included || *step >= Step::Include, "{context}");
        }
        other => panic!("{context}: {other:?}"),
    }
    let size: usize = world.journal.lines().map(|line| line.len() + 1).sum();
    assert!(size < 480 * 1024, "{context}: a journal of {size} bytes");
}

#[test]
fn every_run_ends_with_all_holds_released_and_no_untested_version_included() {
    let mut ends = [0_u32; 3];
    for seed in 0..SEEDS {
        let played = std::panic::catch_unwind(|| {
            let played = play(seed);
            check(seed, &played);
            played.end
        });
        let Ok(end) = played else { panic!("seed {seed} failed: KILN_SEED={seed} runs it alone") };
        match end {
            End::Done(Outcome::Completed { .. }) => ends[0] += 1,
            End::Done(Outcome::Rejected { .. }) => ends[1] += 1,
            _ => ends[2] += 1,
        }
    }
    // The test is only meaningful if all outcomes occur.
    let enough = u32::try_from(SEEDS / 50).unwrap();
    assert!(ends.iter().all(|count| *count > enough), "completed, rejected, failed: {ends:?}");
}

#[test]
fn one_seed_is_reproducible() {
    let seed = std::env::var("KILN_SEED").ok().map_or(4_711, |text| text.parse().expect("KILN_SEED is a number"));
    let played = play(seed);
    assert_eq!(played.world.journal, play(seed).world.journal);
    for line in played.world.journal.lines() {
        println!("{line}");
    }
    check(seed, &played);
}
