//! Why a unit started when it did: the way back from it, hop by hop, and what would have saved time.

mod findings;
mod way;

use serde::Serialize;

pub use findings::{Finding, FindingKind};

use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// A wait for nothing that systemd knows of counts as one from here on. Below it is the manager's own work of taking up the next job.
pub const OUTSIDE: Usec = Usec(250_000);

/// cloud-init's first stage takes seconds. A minute and more in it is a machine that was made ahead and waited for its owner.
pub const PREPROVISIONING: Usec = Usec(60_000_000);

/// The hop of PID 1 itself, which has no unit: it runs generators and loads units before the first of them starts.
pub const MANAGER: &str = "systemd";

/// Of units whose fate is not recorded, so many are named in a line.
const FATES: usize = 3;

/// One hop of the way: a unit, how long it took, and what it waited for.
///
/// All waits, and all runs but that of the first hop, add up to the first hop's beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    pub unit: UnitName,
    /// When it began, from PID 1.
    pub began: Usec,
    /// How long it took to start, from PID 1 on; none where the record does not say.
    pub ran: Option<Usec>,
    /// How long it waited after all that it is ordered after was ready.
    pub waited: Usec,
    /// What that wait was.
    pub wait: Wait,
}

impl Hop {
    /// The time that the way spends in it, as far as it is recorded.
    pub fn spent(&self) -> Usec {
        self.ran.unwrap_or_default() + self.waited
    }
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
    /// It cannot be told: a fact is not in the record.
    NotRecorded(Fact),
    /// Somebody outside systemd asked for it, or systemd did not say.
    Unknown,
}

/// A fact that a record can lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "fact", content = "of")]
pub enum Fact {
    /// When PID 1 had loaded its units.
    UnitsLoaded,
    /// When a unit began.
    Start(UnitName),
    /// When a unit was active, or had run and ended.
    End(UnitName),
    /// What a unit is ordered after.
    Order(UnitName),
    /// What became of units that a unit is ordered after, and that the record does not have: they do not exist, or ended and were forgotten.
    Fates(Vec<UnitName>),
}

/// Why a unit started when it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
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
    /// The capture does not say when it began.
    #[error("the capture does not say when `{0}` began: it needs the unit's InactiveExitTimestampMonotonic")]
    NotRecorded(String),
    /// It was not started.
    #[error("`{unit}` was not started in this boot{why}")]
    NotStarted {
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
            _ if found.activating.is_none() => return Err(NotExplained::NotRecorded(id.to_owned())),
            _ => String::new(),
        };
        return Err(NotExplained::NotStarted { unit: id.to_owned(), why });
    }
    let hops = way::back(boot, id, found);
    let preprovisioning = hops.iter().filter(|hop| is_pause(hop)).filter_map(|hop| hop.ran).sum();
    let executed = found.exec_start.filter(|at| *at > Usec::ZERO).map(|at| at - boot.userspace());
    let findings = findings::of(boot, id, &hops);
    Ok(Explanation { unit: id.into(), began: hops[0].began, executed, preprovisioning, hops, findings })
}

/// Whether a hop is the pause of a machine that was made ahead.
pub(crate) fn is_pause(hop: &Hop) -> bool {
    hop.unit.as_str() == "cloud-init-local.service" && hop.ran.is_some_and(|ran| ran >= PREPROVISIONING)
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue => f.pad("queue"),
            Self::Device => f.pad("outside: the kernel found the device then"),
            Self::Trigger(unit) => write!(f, "outside: {unit} triggered it"),
            Self::AfterBoot => f.pad("outside: asked for after the boot's jobs were done"),
            Self::NotRecorded(fact) => write!(f, "unknown: it is not recorded {fact}"),
            Self::Unknown => f.pad("outside: unknown"),
        }
    }
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnitsLoaded => f.pad("when PID 1 had loaded its units"),
            Self::Start(unit) => write!(f, "when {unit} began"),
            Self::End(unit) => write!(f, "when {unit} was active"),
            Self::Order(unit) => write!(f, "what {unit} is ordered after"),
            Self::Fates(units) => {
                let some: Vec<&str> = units.iter().map(UnitName::as_str).take(FATES).collect();
                write!(f, "what became of {}", some.join(", "))?;
                match units.len() - some.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unit;
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
        let mut boot = boot("k.timer 100 0\nk.service 9000 10 k.timer\nother.service 9000 10 k.timer");
        boot.units.get_mut("k.service").unwrap().triggered_by = vec!["k.timer".into()];
        assert_eq!(explain(&boot, "k.service").unwrap().hops[0].wait, Wait::Trigger("k.timer".into()));
        assert_eq!(explain(&boot, "other.service").unwrap().hops[0].wait, Wait::Unknown);
    }

    #[test]
    fn the_time_of_pid_1_before_its_first_unit_is_a_hop_where_it_is_recorded() {
        let mut boot = boot("a.service 2000 100\nkubelet.service 2100 10 a.service");
        let last = |boot: &Boot| explain(boot, "kubelet.service").unwrap().hops.pop().unwrap();
        assert_eq!(last(&boot).wait, Wait::NotRecorded(Fact::UnitsLoaded));
        boot.manager.units_load_finish = Some(Usec(1_991_000));
        let manager = last(&boot);
        assert_eq!((manager.unit.as_str(), manager.ran), (MANAGER, Some(Usec(1_990_000))));
    }

    #[test]
    fn a_fact_that_is_not_recorded_is_named_instead_of_taken_for_zero() {
        let mut boot = boot("a.service 100 0\nkubelet.service 9000 10 a.service");
        let first = |boot: &Boot| explain(boot, "kubelet.service").unwrap().hops.swap_remove(0);
        assert_eq!(first(&boot).wait, Wait::Unknown);
        boot.units.get_mut("a.service").unwrap().activated = None;
        assert_eq!(first(&boot).wait, Wait::NotRecorded(Fact::End("a.service".into())));
        boot.units.get_mut("a.service").unwrap().activated = Some(Usec(101_000));
        boot.units.get_mut("kubelet.service").unwrap().after.push("gone.service".into());
        let wait = first(&boot).wait;
        assert_eq!(wait, Wait::NotRecorded(Fact::Fates(vec!["gone.service".into()])));
        assert_eq!(wait.to_string(), "unknown: it is not recorded what became of gone.service");
        boot.units.insert("gone.service".into(), Unit { load_state: Some("not-found".into()), ..Unit::default() });
        assert_eq!(first(&boot).wait, Wait::Unknown, "it is recorded that there is none");
        boot.units.get_mut("kubelet.service").unwrap().after.clear();
        boot.units.get_mut("kubelet.service").unwrap().order_recorded = false;
        assert_eq!(first(&boot).wait, Wait::NotRecorded(Fact::Order("kubelet.service".into())));
        boot.units.get_mut("kubelet.service").unwrap().activating = None;
        assert!(matches!(explain(&boot, "kubelet.service"), Err(NotExplained::NotRecorded(_))));
    }

    #[test]
    fn what_began_before_pid_1_is_counted_from_pid_1() {
        let mut boot = boot("a.device 1000 3000\nkubelet.service 4000 10 a.device");
        boot.manager.userspace = Some(Usec(2_001_000));
        let explained = explain(&boot, "kubelet.service").unwrap();
        assert_eq!(explained.hops[1].ran, Some(Usec(2_000_000)));
        assert_eq!((explained.began, explained.hops[1].waited), (Usec(2_000_000), Usec::ZERO));
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
        boot.units.insert(
            "kubelet.service".into(),
            Unit { condition: Some(false), activating: Some(Usec::ZERO), ..Unit::default() },
        );
        let error = explain(&boot, "kubelet.service").unwrap_err();
        assert_eq!(error.to_string(), "`kubelet.service` was not started in this boot: a condition of it did not hold");
    }
}
