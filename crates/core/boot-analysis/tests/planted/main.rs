//! Boots with a known cause of delay: the first finding must be that cause with the right saving.

mod cause;
#[path = "../support/dice.rs"]
mod dice;
mod withheld;
mod world;

use std::collections::BTreeMap;

use cause::{Cause, Expected, plant};
use dice::Dice;
use kiln_boot_analysis::explain::{Explanation, FindingKind, explain};
use kiln_boot_analysis::{Usec, capture, chain_text};
use world::{Planned, World};

/// Boots per cause. All of them together take less than a second.
const SEEDS: u64 = 60;

fn explained(world: &World) -> Explanation {
    let boot = capture::parse(&world.capture()).expect("a capture");
    explain(&boot, "kubelet.service").expect("an explanation")
}

/// Checks that waits and run times add up to the start of kubelet, and that each hop starts where the previous one ends.
fn adds_up(explained: &Explanation, world: &World) -> Result<(), String> {
    let runs: Usec = explained.hops[1..].iter().filter_map(|hop| hop.ran).sum();
    let waits: Usec = explained.hops.iter().map(|hop| hop.waited).sum();
    let began = Usec(world.times().last().expect("a unit").0 - world.userspace);
    let is_sum = runs + waits == began && explained.began == began;
    is_sum.then_some(()).ok_or_else(|| format!("{} and {} are not {began}: {:?}", runs, waits, explained.hops))
}

fn found(explained: &Explanation, index: usize, expected: &Expected) -> Result<(), String> {
    let finding = explained.findings.get(index).ok_or_else(|| format!("no finding for {expected:?}"))?;
    let mut wait = explained.hops.iter().find(|hop| hop.unit == finding.unit).map(|hop| hop.wait.clone());
    if expected.wait.is_none() {
        wait = None;
    }
    let units = std::iter::once(&finding.unit).chain(&finding.parallel).map(ToString::to_string).collect();
    let got = Expected { kind: finding.kind, units, saves: finding.saves.0, wait };
    (got == *expected).then_some(()).ok_or_else(|| format!("{got:?} instead of {expected:?}"))
}

/// Adds slow units that kubelet does not wait for.
fn decoys(world: &mut World, dice: &mut Dice) {
    for index in 0..dice.below(4) {
        let name = format!("decoy{index}.service");
        world.add(Planned { name, run: dice.below(90_000_000), ..Planned::default() });
    }
}

/// Fails with one example per cause if any seed was missed.
fn assert_all_found(all: impl IntoIterator<Item = (String, Result<(), String>)>) {
    let mut missed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut hit = 0;
    for (name, result) in all {
        match result {
            Ok(()) => hit += 1,
            Err(why) => missed.entry(name).or_default().push(why),
        }
    }
    let lost: usize = missed.values().map(Vec::len).sum();
    let shown: Vec<String> =
        missed.iter().map(|(name, why)| format!("{name}: {} times, as {}", why.len(), why[0])).collect();
    assert!(lost == 0 && hit >= SEEDS, "{hit} hits, {lost} misses:\n{}", shown.join("\n"));
}

#[test]
fn the_first_finding_is_the_planted_cause() {
    let all = Cause::ALL.into_iter().flat_map(|cause| (0..SEEDS).map(move |seed| (cause, seed)));
    assert_all_found(all.map(|(cause, seed)| {
        let mut dice = Dice::new(seed * 31 + cause as u64);
        let (mut world, spine) = World::quiet(&mut dice);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, cause, &mut dice);
        decoys(&mut world, &mut dice);
        let explained = explained(&world);
        let pause = explained.preprovisioning.0;
        let result = adds_up(&explained, &world)
            .and_then(|()| found(&explained, 0, &planted.expected(&world)))
            .and_then(|()| match cause {
                Cause::Pause if pause != world.units[world.index(&planted.unit)].run => {
                    Err(format!("a pause of {pause}"))
                }
                _ if cause != Cause::Pause && pause != 0 => Err(format!("an unexpected pause of {pause}")),
                _ => Ok(()),
            });
        (format!("{cause:?}"), result.map_err(|why| format!("seed {seed}: {why}")))
    }));
}

#[test]
fn several_causes_are_all_found_longest_first() {
    assert_all_found((0..4 * SEEDS).map(|seed| {
        let mut dice = Dice::new(seed + 7_000);
        let (mut world, spine) = World::quiet(&mut dice);
        let mut causes = Cause::COMBINABLE.to_vec();
        let mut planted = Vec::new();
        for index in 0..spine.0.len().min(2 + dice.place(3)) {
            let cause = causes.remove(dice.place(causes.len()));
            planted.push(plant(&mut world, &spine, index, cause, &mut dice));
        }
        decoys(&mut world, &mut dice);
        let mut expected: Vec<Expected> = planted.iter().map(|one| one.expected(&world)).collect();
        expected.sort_by_key(|one| std::cmp::Reverse(one.saves));
        let explained = explained(&world);
        let hits = expected.iter().enumerate().map(|(index, one)| found(&explained, index, one));
        let result = adds_up(&explained, &world).and_then(|()| hits.collect::<Result<Vec<()>, String>>()).map(drop);
        ("several".to_owned(), result.map_err(|why| format!("seed {seed}: {why}")))
    }));
}

#[test]
fn a_parallel_unit_limits_the_saving_to_the_difference() {
    assert_all_found((0..2 * SEEDS).map(|seed| {
        let mut dice = Dice::new(seed + 9_000);
        let (mut world, spine) = World::quiet(&mut dice);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, Cause::SlowUnit, &mut dice);
        // Less than half as long, so that it is not named in the finding.
        let run = world.units[world.index(&planted.unit)].run / (3 + dice.below(5));
        let other = world.add(Planned { name: "parallel.service".into(), run, ..Planned::default() });
        world.kubelet().after.push(other);
        let explained = explained(&world);
        let result = adds_up(&explained, &world).and_then(|()| found(&explained, 0, &planted.expected(&world)));
        ("parallel".to_owned(), result.map_err(|why| format!("seed {seed}: {why}")))
    }));
}

#[test]
fn a_boot_without_a_cause_has_no_finding() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed + 11_000);
        let (mut world, _) = World::quiet(&mut dice);
        decoys(&mut world, &mut dice);
        let explained = explained(&world);
        assert_eq!(adds_up(&explained, &world), Ok(()), "seed {seed}");
        assert_eq!(explained.findings, [], "seed {seed}");
    }
}

/// A pasted chain has only milliseconds, and no units that ran in parallel.
#[test]
fn a_pasted_chain_has_the_same_first_finding() {
    let causes = [Cause::SlowUnit, Cause::Pause, Cause::WaitOnline, Cause::CloudFinal];
    let all = causes.into_iter().flat_map(|cause| (0..SEEDS).map(move |seed| (cause, seed)));
    assert_all_found(all.map(|(cause, seed)| {
        let mut dice = Dice::new(seed * 17 + cause as u64);
        let (mut world, spine) = World::quiet(&mut dice);
        // systemd-analyze omits units that were never active.
        world.units.iter_mut().for_each(|unit| unit.is_transient = false);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, cause, &mut dice);
        let boot = capture::parse(&world.capture()).expect("a capture");
        let pasted = kiln_boot_analysis::chain(&boot, "kubelet.service", Usec::ZERO).expect("a finished boot");
        let pasted = chain_text::parse(&pasted).expect("a chain");
        let explained = explain(&pasted, "kubelet.service").expect("an explanation");
        let (expected, run) = (planted.expected(&world), world.units[world.index(&planted.unit)].run);
        let first = explained.findings.first();
        let is_found = first.is_some_and(|first| {
            (first.kind, first.unit.as_str()) == (expected.kind, planted.unit.as_str())
                && first.saves.0.abs_diff(run) < 1_000
        });
        let result = is_found.then_some(()).ok_or_else(|| format!("seed {seed}: {first:?} instead of {expected:?}"));
        (format!("{cause:?}"), result)
    }));
}

/// Tests the comparison: a boot without the planted cause is a miss.
#[test]
fn a_boot_without_the_cause_is_a_miss() {
    let mut dice = Dice::new(1);
    let (mut world, spine) = World::quiet(&mut dice);
    let planted = plant(&mut world, &spine, 1, Cause::SlowUnit, &mut dice);
    let expected = planted.expected(&world);
    assert_eq!(found(&explained(&world), 0, &expected), Ok(()));
    let index = world.index(&planted.unit);
    world.units[index].run -= 1;
    assert!(found(&explained(&world), 0, &expected).is_err(), "a microsecond less");
    world.units[index].run = 0;
    let explained = explained(&world);
    assert!(found(&explained, 0, &expected).is_err());
    assert!(explained.findings.iter().all(|finding| finding.kind != FindingKind::Slow));
}
