//! The same boot without a unit, or without an ordering: when would the rest have started?

use serde::Serialize;

use crate::model::{Boot, UnitName};
use crate::order::{Cut, Order};
use crate::span::Usec;

/// What is taken out of a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A unit: nobody waits for it, and it takes no time.
    WithoutUnit(UnitName),
    /// The time of a unit: it waits as it did and is done at once. What it cost, with its place in the order kept.
    WithoutTime(UnitName),
    /// The time that a unit waited for nothing that systemd knows of.
    WithoutWait(UnitName),
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
    pub unit: UnitName,
    /// When it started, from PID 1.
    pub started: Usec,
    /// When it would have.
    pub would_start: Usec,
    pub saves: Usec,
}

/// When `unit` would have started. None when it was not started in this boot, or is itself taken out.
///
/// Each unit keeps its duration and the time that it waited for nothing that systemd knows of. Work that runs beside it is taken to be no
/// faster and no slower.
pub fn what_if(boot: &Boot, unit: &str, changes: &[Change]) -> Option<WhatIf> {
    let id = boot.id(unit);
    let started = boot.started(id)?.activating? - boot.userspace();
    let order = Order::of(boot, id);
    let place = |name: &UnitName| order.place(boot.id(name.as_str()));
    // What is not on the way changes nothing.
    let cuts: Vec<Cut> = changes
        .iter()
        .filter_map(|change| match change {
            Change::WithoutUnit(unit) => place(unit).map(Cut::Unit),
            Change::WithoutTime(unit) => place(unit).map(Cut::Time),
            Change::WithoutWait(unit) => place(unit).map(Cut::Wait),
            Change::WithoutEdge { unit, other } => Some(Cut::Edge(place(unit)?, place(other)?)),
        })
        .collect();
    if cuts.contains(&Cut::Unit(order.place(id)?)) {
        return None;
    }
    let saves = order.saves(&cuts);
    Some(WhatIf { unit: id.into(), started, would_start: started - saves, saves })
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
    fn a_wait_that_is_gone_saves_that_wait_and_no_more() {
        assert_eq!(saved(&[Change::WithoutWait("kubelet.service".into())]), 100);
        assert_eq!(saved(&[Change::WithoutWait("disk.service".into())]), 0);
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
