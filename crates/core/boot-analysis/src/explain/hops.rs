//! The chain from a unit back to PID 1: at each step, the unit that was ready last.

use std::collections::BTreeSet;

use super::{Fact, Hop, MANAGER, OUTSIDE, Wait};
use crate::model::{Boot, Released, Unit, UnitName};
use crate::order::waited_for;
use crate::span::Usec;

pub(super) fn trace<'a>(boot: &'a Boot, id: &'a str, unit: &'a Unit) -> Vec<Hop> {
    let userspace = boot.userspace();
    let (mut name, mut unit) = (id, unit);
    let mut hops: Vec<Hop> = Vec::new();
    let mut visited: BTreeSet<&str> = BTreeSet::from([id]);
    loop {
        let began = unit.began().unwrap_or_default().max(userspace);
        // Of several units that were ready at the same time, take the last to start: the others were waiting for it too.
        let last = waited_for(boot, unit)
            .filter(|waited| !visited.contains(waited.name))
            .max_by_key(|waited| (waited.ready, waited.unit.began(), std::cmp::Reverse(waited.unit.index)));
        let ready = last.map_or(boot.first(), |waited| waited.ready);
        let ready = ready.clamp(userspace, began);
        let waited = began - ready;
        let ran = match unit.released() {
            Released::At(end) if unit.activating.is_some() => Some(end - began),
            _ => None,
        };
        let wait = wait(boot, name, unit, waited, last.is_none());
        hops.push(Hop { unit: name.into(), began: began - userspace, ran, waited, wait });
        let Some(last) = last else {
            hops.extend(boot.loaded().map(|_| manager(ready - userspace)));
            return hops;
        };
        visited.insert(last.name);
        (name, unit) = (last.name, last.unit);
    }
}

fn manager(ran: Usec) -> Hop {
    Hop { unit: MANAGER.into(), began: Usec::ZERO, ran: Some(ran), waited: Usec::ZERO, wait: Wait::Queue }
}

fn wait(boot: &Boot, name: &str, unit: &Unit, waited: Usec, is_first: bool) -> Wait {
    if waited < OUTSIDE {
        return Wait::Queue;
    }
    let began = unit.began().unwrap_or_default();
    let is_device = UnitName::from(name).kind() == "device";
    // If it is unknown when PID 1 had loaded the units, part of the wait can be PID 1's.
    if is_device && !(is_first && boot.loaded().is_none()) {
        return Wait::Device;
    }
    let trigger = unit.triggered_by.iter().find(|trigger| {
        let released = boot.started(trigger.as_str()).map(Unit::released);
        matches!(released, Some(Released::At(ready)) if ready <= began)
    });
    if let Some(trigger) = trigger {
        return Wait::Trigger(trigger.clone());
    }
    // A job that waits for another unit stays in the queue, and the boot ends when the queue is empty. So this unit had no job then.
    if boot.manager.finish.is_some_and(|finish| finish > Usec::ZERO && began > finish) {
        return Wait::AfterBoot;
    }
    match missing_fact(boot, name, unit, is_first) {
        Some(fact) => Wait::NotRecorded(fact),
        None => Wait::Unknown,
    }
}

/// The missing fact without which the cause of a wait cannot be determined.
fn missing_fact(boot: &Boot, name: &str, unit: &Unit, is_first: bool) -> Option<Fact> {
    if unit.activating.is_none() {
        return Some(Fact::Start(name.into()));
    }
    if !unit.order_recorded {
        return Some(Fact::Order(name.into()));
    }
    let open = waited_for(boot, unit).filter(|waited| !waited.recorded).max_by_key(|waited| waited.ready);
    if let Some(open) = open {
        return Some(Fact::End(open.name.into()));
    }
    // systemd unloads a unit that ended and is not referenced. It keeps a unit that does not exist (`not-found`) while another one names it.
    let lost: Vec<UnitName> = unit.after.iter().filter(|name| boot.unit(name.as_str()).is_none()).cloned().collect();
    if !lost.is_empty() {
        return Some(Fact::MissingUnits(lost));
    }
    (is_first && boot.loaded().is_none()).then_some(Fact::UnitsLoaded)
}
