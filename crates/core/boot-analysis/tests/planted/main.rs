//! Boots with a known cause: whether the first finding is that cause, with its seconds.

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

/// Boots per cause. All of them are read, explained and scored within a second.
const SEEDS: u64 = 60;

fn explained(world: &World) -> Explanation {
    let boot = capture::parse(&world.capture()).expect("a capture");
    explain(&boot, "kubelet.service").expect("an explanation")
}

/// Waits and runs of the way add up to the start of kubelet, and each hop begins where the one before it ends.
fn adds_up(explained: &Explanation, world: &World) -> Result<(), String> {
    let runs: Usec = explained.hops[1..].iter().filter_map(|hop| hop.ran).sum();
    let waits: Usec = explained.hops.iter().map(|hop| hop.waited).sum();
    let began = Usec(world.times().last().expect("a unit").0 - world.userspace);
    let holds = runs + waits == began && explained.began == began;
    holds.then_some(()).ok_or_else(|| format!("{} and {} are not {began}: {:?}", runs, waits, explained.hops))
}

fn found(explained: &Explanation, index: usize, expected: &Expected) -> Result<(), String> {
    let finding = explained.findings.get(index).ok_or_else(|| format!("nothing was found for {expected:?}"))?;
    let mut wait = explained.hops.iter().find(|hop| hop.unit == finding.unit).map(|hop| hop.wait.clone());
    if expected.wait.is_none() {
        wait = None;
    }
    let units = std::iter::once(&finding.unit).chain(&finding.beside).map(ToString::to_string).collect();
    let got = Expected { kind: finding.kind, units, saves: finding.saves.0, wait };
    (got == *expected).then_some(()).ok_or_else(|| format!("{got:?} instead of {expected:?}"))
}

/// Units that are slow, and that kubelet does not wait for.
fn decoys(world: &mut World, dice: &mut Dice) {
    for index in 0..dice.below(4) {
        let name = format!("decoy{index}.service");
        world.add(Planned { name, run: dice.below(90_000_000), ..Planned::default() });
    }
}

/// Scores a cause over all seeds: each seed that misses says how.
fn score(all: impl IntoIterator<Item = (String, Result<(), String>)>) {
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
fn the_first_finding_is_the_planted_cause_with_its_seconds() {
    let all = Cause::ALL.into_iter().flat_map(|cause| (0..SEEDS).map(move |seed| (cause, seed)));
    score(all.map(|(cause, seed)| {
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
                Cause::Pause if pause != world.units[world.place(&planted.unit)].run => {
                    Err(format!("a pause of {pause}"))
                }
                _ if cause != Cause::Pause && pause != 0 => Err(format!("a pause of {pause} that nobody planted")),
                _ => Ok(()),
            });
        (format!("{cause:?}"), result.map_err(|why| format!("seed {seed}: {why}")))
    }));
}

#[test]
fn several_causes_at_once_are_all_found_the_longest_first() {
    score((0..4 * SEEDS).map(|seed| {
        let mut dice = Dice::new(seed + 7_000);
        let (mut world, spine) = World::quiet(&mut dice);
        let mut causes = Cause::OF_A_UNIT.to_vec();
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
fn a_unit_that_runs_beside_the_cause_leaves_only_the_difference_to_save() {
    score((0..2 * SEEDS).map(|seed| {
        let mut dice = Dice::new(seed + 9_000);
        let (mut world, spine) = World::quiet(&mut dice);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, Cause::SlowUnit, &mut dice);
        // Less than half as long: the cause alone is worth naming.
        let run = world.units[world.place(&planted.unit)].run / (3 + dice.below(5));
        let other = world.add(Planned { name: "beside.service".into(), run, ..Planned::default() });
        world.kubelet().after.push(other);
        let explained = explained(&world);
        let result = adds_up(&explained, &world).and_then(|()| found(&explained, 0, &planted.expected(&world)));
        ("beside".to_owned(), result.map_err(|why| format!("seed {seed}: {why}")))
    }));
}

#[test]
fn a_quiet_boot_has_no_finding_whatever_runs_beside_it() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed + 11_000);
        let (mut world, _) = World::quiet(&mut dice);
        decoys(&mut world, &mut dice);
        let explained = explained(&world);
        assert_eq!(adds_up(&explained, &world), Ok(()), "seed {seed}");
        assert_eq!(explained.findings, [], "seed {seed}");
    }
}

/// What is left when only the critical chain was pasted: milliseconds, and none of what ran beside.
#[test]
fn a_pasted_chain_of_a_planted_boot_has_the_same_first_finding() {
    let causes = [Cause::SlowUnit, Cause::Pause, Cause::WaitOnline, Cause::CloudFinal];
    let all = causes.into_iter().flat_map(|cause| (0..SEEDS).map(move |seed| (cause, seed)));
    score(all.map(|(cause, seed)| {
        let mut dice = Dice::new(seed * 17 + cause as u64);
        let (mut world, spine) = World::quiet(&mut dice);
        // systemd's chain leaves out what was never active.
        world.units.iter_mut().for_each(|unit| unit.goes = false);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, cause, &mut dice);
        let boot = capture::parse(&world.capture()).expect("a capture");
        let pasted = kiln_boot_analysis::chain(&boot, "kubelet.service", Usec::ZERO).expect("a finished boot");
        let pasted = chain_text::parse(&pasted).expect("a chain");
        let explained = explain(&pasted, "kubelet.service").expect("an explanation");
        let (expected, run) = (planted.expected(&world), world.units[world.place(&planted.unit)].run);
        let first = explained.findings.first();
        let holds = first.is_some_and(|first| {
            (first.kind, first.unit.as_str()) == (expected.kind, planted.unit.as_str())
                && first.saves.0.abs_diff(run) < 1_000
        });
        let result = holds.then_some(()).ok_or_else(|| format!("seed {seed}: {first:?} instead of {expected:?}"));
        (format!("{cause:?}"), result)
    }));
}

/// The check itself: a world whose record is not what was planned is missed.
#[test]
fn a_record_that_hides_the_cause_is_scored_as_a_miss() {
    let mut dice = Dice::new(1);
    let (mut world, spine) = World::quiet(&mut dice);
    let planted = plant(&mut world, &spine, 1, Cause::SlowUnit, &mut dice);
    let expected = planted.expected(&world);
    assert_eq!(found(&explained(&world), 0, &expected), Ok(()));
    let place = world.place(&planted.unit);
    world.units[place].run -= 1;
    assert!(found(&explained(&world), 0, &expected).is_err(), "a microsecond less");
    world.units[place].run = 0;
    let explained = explained(&world);
    assert!(found(&explained, 0, &expected).is_err());
    assert!(explained.findings.iter().all(|finding| finding.kind != FindingKind::Slow));
}
