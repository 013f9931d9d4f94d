//! Facts that a record lacks: what follows from them is said to be unknown.

use kiln_boot_analysis::capture;
use kiln_boot_analysis::explain::{Explanation, Fact, FindingKind, NotExplained, Wait, explain};

use crate::SEEDS;
use crate::cause::{Cause, plant};
use crate::dice::Dice;
use crate::world::World;

/// The record without some keys of one unit, or of the manager.
fn without(world: &World, block: &str, keys: &[&str]) -> Result<Explanation, NotExplained> {
    let record = world.capture();
    let kept = record.split("\n\n").map(|part| {
        let is_it = part.contains(block);
        let lines = part.lines().filter(|line| !(is_it && keys.iter().any(|key| line.starts_with(&format!("{key}=")))));
        lines.collect::<Vec<_>>().join("\n")
    });
    let boot = capture::parse(&kept.collect::<Vec<_>>().join("\n\n")).expect("a capture");
    explain(&boot, "kubelet.service")
}

/// Boots with this cause, and the unit that it was planted at.
fn boots(cause: Cause) -> impl Iterator<Item = (u64, World, String)> {
    (0..SEEDS).map(move |seed| {
        let mut dice = Dice::new(seed + 13_000);
        let (mut world, spine) = World::quiet(&mut dice);
        let index = dice.place(spine.0.len());
        let planted = plant(&mut world, &spine, index, cause, &mut dice);
        (seed, world, planted.unit)
    })
}

const KUBELET: &str = "Id=kubelet.service\n";

#[test]
fn an_end_that_is_not_recorded_makes_the_wait_behind_it_unknown_and_no_unit_slow() {
    for (seed, world, unit) in boots(Cause::SlowUnit) {
        let keys = ["ActiveEnterTimestampMonotonic", "InactiveEnterTimestampMonotonic"];
        let explained = without(&world, &format!("Id={unit}\n"), &keys).expect("an explanation");
        let fact = Wait::NotRecorded(Fact::End(unit.as_str().into()));
        let behind = explained.hops.iter().find(|hop| hop.wait == fact);
        let behind = behind.unwrap_or_else(|| panic!("seed {seed}: {:?}", explained.hops));
        let first = &explained.findings[0];
        assert_eq!((first.kind, &first.unit), (FindingKind::Unknown, &behind.unit), "seed {seed}");
        assert!(first.found.contains(&format!("it is not recorded when {unit} was active")), "{}", first.found);
        let hop = explained.hops.iter().find(|hop| hop.unit.as_str() == unit);
        assert!(hop.is_none_or(|hop| hop.ran.is_none()), "seed {seed}: unknown, not zero");
        assert!(explained.findings.iter().all(|finding| finding.kind != FindingKind::Slow), "seed {seed}");
    }
}

#[test]
fn an_order_that_is_not_recorded_ends_the_way_and_says_so() {
    for (seed, world, _) in boots(Cause::WaitOnline) {
        let explained = without(&world, KUBELET, &["After"]).expect("an explanation");
        assert_eq!(explained.hops[0].wait, Wait::NotRecorded(Fact::Order("kubelet.service".into())), "seed {seed}");
        assert_eq!(explained.findings[0].kind, FindingKind::Unknown, "seed {seed}");
    }
}

#[test]
fn without_the_end_of_the_boot_nobody_says_that_it_was_over() {
    for (seed, world, _) in boots(Cause::AfterBoot) {
        let explained = without(&world, "Version=", &["FinishTimestampMonotonic"]).expect("an explanation");
        assert_eq!(explained.hops[0].wait, Wait::Unknown, "seed {seed}");
        assert!(!explained.findings[0].found.contains("the boot's jobs were done"), "seed {seed}");
    }
}

#[test]
fn a_trigger_that_is_not_recorded_is_not_guessed() {
    for (seed, world, unit) in boots(Cause::Timer) {
        let explained = without(&world, &format!("Id={unit}\n"), &["TriggeredBy"]).expect("an explanation");
        let hop = explained.hops.iter().find(|hop| hop.unit.as_str() == unit).expect("the unit");
        assert_eq!(hop.wait, Wait::Unknown, "seed {seed}");
    }
}

#[test]
fn pid_1_is_not_blamed_where_its_mark_is_not_recorded() {
    for (seed, world, _) in boots(Cause::Generators) {
        let explained = without(&world, "Version=", &["UnitsLoadFinishTimestampMonotonic"]).expect("an explanation");
        let first = explained.hops.last().expect("the first unit");
        assert_eq!(first.wait, Wait::NotRecorded(Fact::UnitsLoaded), "seed {seed}");
        assert!(explained.findings.iter().all(|finding| finding.kind == FindingKind::Unknown), "seed {seed}");
    }
}

#[test]
fn a_start_that_is_not_recorded_cannot_be_explained() {
    for (seed, world, _) in boots(Cause::SlowUnit) {
        let explained = without(&world, KUBELET, &["InactiveExitTimestampMonotonic"]);
        assert_eq!(explained, Err(NotExplained::NotRecorded("kubelet.service".into())), "seed {seed}");
    }
}
