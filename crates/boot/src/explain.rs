//! Why a unit started when it did: the way back from it, hop by hop, and what would have saved time.

mod findings;

use serde::Serialize;

pub use findings::{Finding, FindingKind};

use crate::model::{Boot, Unit, UnitName};
use crate::span::Usec;
use crate::what_if::waited_for;

/// A wait for nothing that systemd knows of counts as one from here on. Below it is the manager's own work of taking up the next job.
pub const OUTSIDE: Usec = Usec(250_000);

/// cloud-init's first stage takes seconds. A minute and more in it is a machine that was made ahead and waited for its owner.
pub const PREPROVISIONING: Usec = Usec(60_000_000);

/// One hop of the way: a unit, how long it took, and what it waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// The unit.
    pub unit: UnitName,
    /// When it began, from PID 1.
    pub began: Usec,
    /// How long it took to start.
    pub ran: Usec,
    /// How long it waited after all that it is ordered after was ready.
    pub waited: Usec,
    /// What that wait was.
    pub wait: Wait,
}

/// What a wait was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "by")]
pub enum Wait {
    /// None, or the manager's own work.
    Queue,
    /// The kernel found the device then.
    Device,
    /// A socket, timer or path that is recorded as its trigger started it.
    Trigger(UnitName),
    /// The boot's jobs were done; somebody outside systemd asked for it.
    AfterBoot,
    /// Somebody outside systemd asked for it, or systemd did not say.
    Unknown,
}

/// Why a unit started when it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The unit.
    pub unit: UnitName,
    /// When it began, from PID 1.
    pub began: Usec,
    /// When its program was executed, where that is recorded.
    pub executed: Option<Usec>,
    /// Of that, the time in which the machine waited to be given to somebody.
    pub preprovisioning: Usec,
    /// The way back from it, the unit itself first.
    pub hops: Vec<Hop>,
    /// What would have saved time, the most first.
    pub findings: Vec<Finding>,
}

/// The unit has no place in this boot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotExplained {
    /// The capture does not have it.
    #[error("the capture has no unit `{0}`: `kiln boot blame` lists those that it has")]
    Missing(String),
    /// It was not started.
    #[error("`{unit}` was not started in this boot{why}")]
    NotStarted {
        /// The unit.
        unit: String,
        /// What is recorded of the reason.
        why: String,
    },
}

/// Explains a unit's start.
pub fn explain(boot: &Boot, unit: &str) -> Result<Explanation, NotExplained> {
    let id = boot.id(unit);
    let found = boot.unit(id).ok_or_else(|| NotExplained::Missing(unit.to_owned()))?;
    if !found.is_started() {
        let why = match (found.load_state.as_deref(), found.condition) {
            (Some(state @ ("not-found" | "masked")), _) => format!(": it is {state}"),
            (_, Some(false)) => ": a condition of it did not hold".to_owned(),
            _ => String::new(),
        };
        return Err(NotExplained::NotStarted { unit: id.to_owned(), why });
    }
    let hops = way_back(boot, id, found);
    let preprovisioning = hops.iter().filter(|hop| is_pause(hop)).map(|hop| hop.ran).sum();
    let executed = found.exec_start.filter(|at| *at > Usec::ZERO).map(|at| at - boot.userspace());
    let findings = findings::of(boot, id, &hops);
    Ok(Explanation { unit: id.into(), began: hops[0].began, executed, preprovisioning, hops, findings })
}

/// Whether a hop is the pause of a machine that was made ahead.
pub(crate) fn is_pause(hop: &Hop) -> bool {
    hop.unit.as_str() == "cloud-init-local.service" && hop.ran >= PREPROVISIONING
}

fn way_back<'a>(boot: &'a Boot, id: &'a str, unit: &'a Unit) -> Vec<Hop> {
    let userspace = boot.userspace();
    let (mut name, mut unit) = (id, unit);
    let mut hops: Vec<Hop> = Vec::new();
    loop {
        let began = unit.activating.unwrap_or_default();
        // The last that became ready. Of several at once the one that began last: it was the one that kept the rest waiting.
        let last = waited_for(boot, unit)
            .filter(|(before, _, _)| hops.iter().all(|hop| hop.unit.as_str() != *before) && *before != name)
            .max_by_key(|(_, other, ready)| (*ready, other.activating, std::cmp::Reverse(other.index)));
        let ready = last.map_or(userspace, |(_, _, ready)| ready);
        let waited = began - ready;
        let wait = wait(boot, name, unit, waited);
        hops.push(Hop { unit: name.into(), began: began - userspace, ran: unit.time(), waited, wait });
        let Some((before, other, _)) = last else { return hops };
        (name, unit) = (before, other);
    }
}

fn wait(boot: &Boot, name: &str, unit: &Unit, waited: Usec) -> Wait {
    if waited < OUTSIDE {
        return Wait::Queue;
    }
    let began = unit.activating.unwrap_or_default();
    if UnitName::from(name).kind() == "device" {
        return Wait::Device;
    }
    let trigger = unit
        .triggered_by
        .iter()
        .find(|trigger| boot.started(trigger.as_str()).and_then(Unit::released).is_some_and(|ready| ready <= began));
    match trigger {
        Some(trigger) => Wait::Trigger(trigger.clone()),
        None if boot.manager.finish.is_some_and(|finish| finish > Usec::ZERO && began > finish) => Wait::AfterBoot,
        None => Wait::Unknown,
    }
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue => f.pad("queue"),
            Self::Device => f.pad("outside: the kernel found the device then"),
            Self::Trigger(unit) => write!(f, "outside: {unit} triggered it"),
            Self::AfterBoot => f.pad("outside: asked for after the boot's jobs were done"),
            Self::Unknown => f.pad("outside: unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::boot;

    #[test]
    fn the_way_back_follows_who_was_ready_last() {
        let boot = boot(
            "a.service 100 400
             b.service 100 900
             c.target 1000 0 a.service b.service
             kubelet.service 1010 40 c.target",
        );
        let explained = explain(&boot, "kubelet.service").unwrap();
        let way: Vec<_> = explained.hops.iter().map(|hop| hop.unit.as_str()).collect();
        assert_eq!(way, ["kubelet.service", "c.target", "b.service"]);
        assert_eq!(explained.hops[0].wait, Wait::Queue);
        assert_eq!(explained.hops[2].waited, Usec(100_000), "since PID 1 began");
    }

    #[test]
    fn a_start_after_the_boot_is_followed_and_said_to_come_from_outside() {
        let mut boot = boot("base.target 1000 0\nkubelet.service 60000 10 base.target");
        boot.manager.finish = Some(Usec(5_000_000));
        let explained = explain(&boot, "kubelet.service").unwrap();
        assert_eq!(explained.hops[0].wait, Wait::AfterBoot);
        assert_eq!(explained.hops[0].waited, Usec(59_000_000));
    }

    #[test]
    fn a_recorded_trigger_is_named_and_an_unrecorded_one_is_unknown() {
        let mut boot = boot("k.timer 100 0\nk.service 9000 10\nother.service 9000 10");
        boot.units.get_mut("k.service").unwrap().triggered_by = vec!["k.timer".into()];
        assert_eq!(explain(&boot, "k.service").unwrap().hops[0].wait, Wait::Trigger("k.timer".into()));
        assert_eq!(explain(&boot, "other.service").unwrap().hops[0].wait, Wait::Unknown);
    }

    #[test]
    fn units_that_wait_for_each_other_end_the_way() {
        let boot = boot("a.service 100 0 b.service\nb.service 100 0 a.service");
        assert_eq!(explain(&boot, "a.service").unwrap().hops.len(), 2);
    }

    #[test]
    fn a_unit_that_is_not_there_or_did_not_start_is_said_so() {
        let mut boot = boot("a.service 100 0");
        assert!(matches!(explain(&boot, "kubelet.service"), Err(NotExplained::Missing(_))));
        boot.units.insert("kubelet.service".into(), Unit { condition: Some(false), ..Unit::default() });
        let error = explain(&boot, "kubelet.service").unwrap_err();
        assert_eq!(error.to_string(), "`kubelet.service` was not started in this boot: a condition of it did not hold");
    }
}
