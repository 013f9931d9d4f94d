//! Captures without some facts: everything that depends on them must be reported as unknown.

use kiln_boot_analysis::capture;
use kiln_boot_analysis::explain::{Explanation, Fact, FindingKind, NotExplained, Wait, explain};

use crate::SEEDS;
use crate::cause::{Cause, plant};
use crate::dice::Dice;
use crate::world::World;

/// Explains a boot from a capture without some keys of one block.
fn without(world: &World, block: &str, keys: &[&str]) -> Result<Explanation, NotExplained> {
    let record = world.capture();
    let kept = record.split("\n\n").map(|part| {
        let is_block = part.contains(block);
        let lines =
            part.lines().filter(|line| !(is_block && keys.iter().any(|key| line.starts_with(&format!("{key}=")))));
        lines.collect::<Vec<_>>().join("\n")
    });
    let boot = capture::parse(&kept.collect::<Vec<_>>().join("\n\n")).expect("a capture");
    explain(&boot, "kubelet.service")
}

/// Boots with a cause, and the unit at which it was planted.
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
fn without_the_end_of_a_unit_the_next_wait_is_unknown() {
    for (seed, world, unit) in boots(Cause::SlowUnit) {
        let keys = ["ActiveEnterTimestampMonotonic", "InactiveEnterTimestampMonotonic"];
        let explained = without(&world, &format!("Id={unit}\n"), &keys).expect("an explanation");
        let fact = Wait::NotRecorded(Fact::End(unit.as_str().into()));
        let behind = explained.hops.iter().find(|hop| hop.wait == fact);
        let behind = behind.unwrap_or_else(|| panic!("seed {seed}: {:?}", explained.hops));
        let first = &explained.findings[0];
        assert_eq!((first.kind, &first.unit), (FindingKind::Unknown, &behind.unit), "seed {seed}");
        assert!(first.message.contains(&format!("does not record when {unit} became active")), "{}", first.message);
        let hop = explained.hops.iter().find(|hop| hop.unit.as_str() == unit);
        assert!(hop.is_none_or(|hop| hop.ran.is_none()), "seed {seed}: unknown, not zero");
        assert!(explained.findings.iter().all(|finding| finding.kind != FindingKind::Slow), "seed {seed}");
    }
}

#[test]
fn without_the_ordering_of_a_unit_the_chain_ends() {
    for (seed, world, _) in boots(Cause::WaitOnline) {
        let explained = without(&world, KUBELET, &["After"]).expect("an explanation");
        assert_eq!(explained.hops[0].wait, Wait::NotRecorded(Fact::Order("kubelet.service".into())), "seed {seed}");
        assert_eq!(explained.findings[0].kind, FindingKind::Unknown, "seed {seed}");
    }
}

#[test]
fn without_the_end_of_the_boot_a_late_start_is_unknown() {
    for (seed, world, _) in boots(Cause::AfterBoot) {
        let explained = without(&world, "Version=", &["FinishTimestampMonotonic"]).expect("an explanation");
        assert_eq!(explained.hops[0].wait, Wait::Unknown, "seed {seed}");
        assert!(!explained.findings[0].message.contains("the boot had finished"), "seed {seed}");
    }
}

#[test]
fn without_a_recorded_trigger_the_wait_is_unknown() {
    for (seed, world, unit) in boots(Cause::Timer) {
        let explained = without(&world, &format!("Id={unit}\n"), &["TriggeredBy"]).expect("an explanation");
        let hop = explained.hops.iter().find(|hop| hop.unit.as_str() == unit).expect("the unit");
        assert_eq!(hop.wait, Wait::Unknown, "seed {seed}");
    }
}

#[test]
fn without_its_timestamp_pid_1_has_no_finding() {
    for (seed, world, _) in boots(Cause::Generators) {
        let explained = without(&world, "Version=", &["UnitsLoadFinishTimestampMonotonic"]).expect("an explanation");
        let first = explained.hops.last().expect("the first unit");
        assert_eq!(first.wait, Wait::NotRecorded(Fact::UnitsLoaded), "seed {seed}");
        assert!(explained.findings.iter().all(|finding| finding.kind == FindingKind::Unknown), "seed {seed}");
    }
}

#[test]
fn without_the_start_of_the_unit_there_is_no_explanation() {
    for (seed, world, _) in boots(Cause::SlowUnit) {
        let explained = without(&world, KUBELET, &["InactiveExitTimestampMonotonic"]);
        assert_eq!(explained, Err(NotExplained::NotRecorded("kubelet.service".into())), "seed {seed}");
    }
}
