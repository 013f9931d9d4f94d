//! When would a unit have started without another unit or ordering?

use serde::Serialize;

use crate::model::{Boot, UnitName};
use crate::order::{Cut, Order};
use crate::span::Usec;

/// A change to the boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Remove a unit: no unit waits for it, and it takes no time.
    WithoutUnit(UnitName),
    /// Reduce the run time of a unit to zero. It keeps its place in the order.
    WithoutTime(UnitName),
    /// Remove the time that a unit waited for something outside systemd.
    WithoutWait(UnitName),
    /// `unit` no longer waits for `other`.
    WithoutEdge { unit: UnitName, other: UnitName },
}

/// The recorded and the computed start of a unit, counted from PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    pub unit: UnitName,
    pub started: Usec,
    pub would_start: Usec,
    pub saves: Usec,
}

/// Computes when `unit` would have started. `None` if it was not started in this boot or is itself removed.
///
/// Each unit keeps its run time and its waits for things outside systemd. The model assumes that units which run in parallel become neither
/// faster nor slower.
pub fn what_if(boot: &Boot, unit: &str, changes: &[Change]) -> Option<WhatIf> {
    let id = boot.id(unit);
    let started = boot.started(id)?.activating? - boot.userspace();
    let order = Order::new(boot, id);
    let index = |name: &UnitName| order.index(boot.id(name.as_str()));
    // A change to a unit that was not waited for has no effect.
    let cuts: Vec<Cut> = changes
        .iter()
        .filter_map(|change| match change {
            Change::WithoutUnit(unit) => index(unit).map(Cut::Unit),
            Change::WithoutTime(unit) => index(unit).map(Cut::Time),
            Change::WithoutWait(unit) => index(unit).map(Cut::Wait),
            Change::WithoutEdge { unit, other } => Some(Cut::Edge(index(unit)?, index(other)?)),
        })
        .collect();
    if cuts.contains(&Cut::Unit(order.index(id)?)) {
        return None;
    }
    let saves = order.saves(&cuts);
    Some(WhatIf { unit: id.into(), started, would_start: started - saves, saves })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A boot from lines of `name start duration after...`, in milliseconds.
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
    fn without_a_change_nothing_is_saved() {
        assert_eq!(saved(&[]), 0);
    }

    #[test]
    fn removing_a_unit_saves_time_up_to_the_next_longest_chain() {
        // The disk was ready at 1 s, and kubelet waited 0.1 s for something outside systemd.
        assert_eq!(saved(&[Change::WithoutUnit("wait.service".into())]), 16_300 - 1_000);
        assert_eq!(saved(&[Change::WithoutUnit("disk.service".into())]), 0);
    }

    #[test]
    fn a_unit_without_run_time_saves_at_most_its_run_time() {
        assert_eq!(
            saved(&[Change::WithoutTime("wait.service".into())]),
            15_300,
            "then the disk is the last to be ready"
        );
        assert_eq!(saved(&[Change::WithoutTime("net.service".into())]), 200);
    }

    #[test]
    fn removing_a_wait_saves_that_wait() {
        assert_eq!(saved(&[Change::WithoutWait("kubelet.service".into())]), 100);
        assert_eq!(saved(&[Change::WithoutWait("disk.service".into())]), 0);
    }

    #[test]
    fn removing_an_ordering_affects_only_that_unit() {
        let edge = Change::WithoutEdge { unit: "kubelet.service".into(), other: "online.target".into() };
        assert_eq!(saved(std::slice::from_ref(&edge)), 16_300 - 1_000);
        assert_eq!(what_if(&boot(BOOT), "online.target", &[edge]).unwrap().saves, Usec::ZERO);
    }

    #[test]
    fn a_removed_or_never_started_unit_has_no_result() {
        assert_eq!(what_if(&boot(BOOT), "kubelet.service", &[Change::WithoutUnit("kubelet.service".into())]), None);
        assert_eq!(what_if(&boot(BOOT), "docker.service", &[]), None);
    }
}
