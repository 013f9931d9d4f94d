//! The same boot without a unit, or without an ordering: when would the rest have started?

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::{Boot, Unit, UnitName};
use crate::span::Usec;

/// What is taken out of a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A unit: nobody waits for it, and it takes no time.
    WithoutUnit(UnitName),
    /// The time of a unit: it waits as it did and is done at once. What it cost, with its place in the order kept.
    WithoutTime(UnitName),
    /// `unit` does not wait for `other`.
    WithoutEdge {
        /// The one that waited.
        unit: UnitName,
        /// The one that it waited for.
        other: UnitName,
    },
}

/// When a unit started, and would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// The unit.
    pub unit: UnitName,
    /// When it started, from PID 1.
    pub started: Usec,
    /// When it would have.
    pub would_start: Usec,
    /// The difference.
    pub saves: Usec,
}

/// When `unit` would have started. None when it was not started in this boot, or is itself taken out.
///
/// Each unit keeps its duration and the time that it waited for nothing that systemd knows of. Work that runs beside it is taken to be no
/// faster and no slower.
pub fn what_if(boot: &Boot, unit: &str, changes: &[Change]) -> Option<WhatIf> {
    let id = boot.id(unit);
    let started = boot.started(id)?.activating? - boot.userspace();
    let would = starts(boot, changes);
    let would_start = *would.get(id)? - boot.userspace();
    Some(WhatIf { unit: id.into(), started, would_start, saves: started - would_start })
}

/// The units that a unit waited for: ordered before it, and ready when it began. Order alone does not make one wait for what comes later.
pub(crate) fn waited_for<'a>(boot: &'a Boot, unit: &'a Unit) -> impl Iterator<Item = (&'a str, &'a Unit, Usec)> {
    let began = unit.activating.unwrap_or_default();
    unit.after.iter().filter_map(move |name| {
        let id = boot.id(name.as_str());
        let other = boot.started(id)?;
        let ready = other.released()?;
        (ready <= began && ready > Usec::ZERO).then_some((id, other, ready))
    })
}

fn starts<'a>(boot: &'a Boot, changes: &[Change]) -> BTreeMap<&'a str, Usec> {
    let gone = |name: &str| {
        changes.iter().any(|change| matches!(change, Change::WithoutUnit(unit) if boot.id(unit.as_str()) == name))
    };
    let cut = |name: &str, before: &str| {
        changes.iter().any(|change| match change {
            Change::WithoutUnit(unit) => boot.id(unit.as_str()) == before,
            Change::WithoutTime(_) => false,
            Change::WithoutEdge { unit, other } => boot.id(unit.as_str()) == name && boot.id(other.as_str()) == before,
        })
    };
    let quick = |name: &str| {
        changes.iter().any(|change| matches!(change, Change::WithoutTime(unit) if boot.id(unit.as_str()) == name))
    };
    let mut would: BTreeMap<&str, Usec> = BTreeMap::new();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for name in boot.units.keys() {
        // Who is waited for is reckoned first. A walk, not a recursion: a capture may be as deep as it is long.
        let mut stack = vec![name.as_str()];
        while let Some(name) = stack.last().copied() {
            let Some(unit) = boot.started(name).filter(|_| !gone(name) && !would.contains_key(name)) else {
                stack.pop();
                continue;
            };
            if open.insert(name) {
                let first = waited_for(boot, unit).map(|(before, _, _)| before);
                stack.extend(first.filter(|before| !would.contains_key(before) && !open.contains(before)));
                continue;
            }
            stack.pop();
            let began = unit.activating.unwrap_or_default();
            let (mut ready, mut would_ready) = (boot.userspace().min(began), boot.userspace().min(began));
            for (before, other, released) in waited_for(boot, unit) {
                ready = ready.max(released);
                if !cut(name, before) {
                    // One of a loop that is not reckoned yet stays where it was.
                    let moved = would
                        .get(before)
                        .map_or(released, |start| *start + if quick(before) { Usec::ZERO } else { other.time() });
                    would_ready = would_ready.max(moved);
                }
            }
            would.insert(name, would_ready + (began - ready));
        }
    }
    would
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A boot from lines of `name start took after…`, in milliseconds.
    pub(crate) fn boot(lines: &str) -> Boot {
        let mut text = "UserspaceTimestampMonotonic=1000\nFinishTimestampMonotonic=99000000\n".to_owned();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let [start, took] =
                [words.next().unwrap(), words.next().unwrap()].map(|word| word.parse::<u64>().unwrap() * 1_000);
            let after: Vec<_> = words.collect();
            let _ = write!(
                text,
                "\nId={name}\nAfter={}\nInactiveExitTimestampMonotonic={}\nActiveEnterTimestampMonotonic={}\n",
                after.join(" "),
                start + 1_000,
                start + took + 1_000
            );
        }
        crate::capture::parse(&text).unwrap()
    }

    const BOOT: &str = "
        net.service 100 200
        wait.service 300 16000 net.service
        disk.service 100 900
        online.target 16300 0 wait.service
        kubelet.service 16400 50 online.target disk.service";

    fn saved(changes: &[Change]) -> u64 {
        what_if(&boot(BOOT), "kubelet.service", changes).unwrap().saves.0 / 1_000
    }

    #[test]
    fn without_a_change_everything_starts_when_it_did() {
        assert_eq!(saved(&[]), 0);
    }

    #[test]
    fn a_unit_that_is_gone_saves_what_the_next_longest_way_leaves() {
        // The disk was ready at 1 s, and kubelet waited 0.1 s for nothing of systemd's.
        assert_eq!(saved(&[Change::WithoutUnit("wait.service".into())]), 16_300 - 1_000);
        assert_eq!(saved(&[Change::WithoutUnit("disk.service".into())]), 0);
    }

    #[test]
    fn a_unit_that_takes_no_time_saves_its_own_time_and_no_more() {
        assert_eq!(saved(&[Change::WithoutTime("wait.service".into())]), 15_300, "then the disk is the last");
        assert_eq!(saved(&[Change::WithoutTime("net.service".into())]), 200);
    }

    #[test]
    fn an_ordering_that_is_gone_saves_for_that_unit_alone() {
        let edge = Change::WithoutEdge { unit: "kubelet.service".into(), other: "online.target".into() };
        assert_eq!(saved(std::slice::from_ref(&edge)), 16_300 - 1_000);
        assert_eq!(what_if(&boot(BOOT), "online.target", &[edge]).unwrap().saves, Usec::ZERO);
    }

    #[test]
    fn a_unit_that_is_taken_out_or_never_started_has_no_answer() {
        assert_eq!(what_if(&boot(BOOT), "kubelet.service", &[Change::WithoutUnit("kubelet.service".into())]), None);
        assert_eq!(what_if(&boot(BOOT), "docker.service", &[]), None);
    }
}
