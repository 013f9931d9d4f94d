//! Why a unit started when it did: the chain of units back to PID 1, and what would have saved time.

mod findings;
mod hops;

use serde::Serialize;

pub use findings::{Finding, FindingKind};

use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// A wait of at least this length has a cause outside systemd's ordering. A shorter one is the time the manager needs to start the next job.
pub const OUTSIDE: Usec = Usec(250_000);

/// cloud-init's first stage takes seconds. If it takes a minute or more, the VM was preprovisioned and waited to be assigned to a customer.
pub const PREPROVISIONING: Usec = Usec(60_000_000);

/// The name of the hop for PID 1 itself, which runs generators and loads units before it starts the first one.
pub const MANAGER: &str = "systemd";

/// How many units that the capture lacks are named in a message.
const NAMED_UNITS: usize = 3;

/// One unit of the chain.
///
/// The waits of all hops, plus the run times of all hops but the first, add up to the start of the first hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    pub unit: UnitName,
    /// Start of the unit, counted from PID 1.
    pub began: Usec,
    /// Start-up time; `None` if it is not recorded.
    pub ran: Option<Usec>,
    /// Time between the moment everything in its `After=` was ready and its start.
    pub waited: Usec,
    pub wait: Wait,
}

impl Hop {
    /// Recorded run and wait time.
    pub fn spent(&self) -> Usec {
        self.ran.unwrap_or_default() + self.waited
    }
}

/// The cause of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "by")]
pub enum Wait {
    /// No wait, or one shorter than [`OUTSIDE`].
    Queue,
    /// The device appeared at that time.
    Device,
    /// A recorded socket, timer or path started it.
    Trigger(UnitName),
    /// The boot had finished; a user or program started it.
    AfterBoot,
    /// The cause cannot be determined because the capture lacks a fact.
    NotRecorded(Fact),
    Unknown,
}

/// A fact that a capture can lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "fact", content = "of")]
pub enum Fact {
    /// When PID 1 had loaded its units.
    UnitsLoaded,
    Start(UnitName),
    /// When a unit was active, or had run and ended.
    End(UnitName),
    Order(UnitName),
    /// Units in `After=` that are not in the capture: they do not exist, or they ended and systemd unloaded them.
    MissingUnits(Vec<UnitName>),
}

/// Why a unit started when it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub unit: UnitName,
    /// Start of the unit, counted from PID 1.
    pub began: Usec,
    /// When the main process of the service was executed, if that is recorded.
    pub executed: Option<Usec>,
    /// The part of `began` during which the VM waited to be assigned to a customer.
    pub preprovisioning: Usec,
    /// The chain from the unit back to PID 1.
    pub hops: Vec<Hop>,
    /// Largest saving first.
    pub findings: Vec<Finding>,
}

/// The start of a unit cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotExplained {
    #[error("the capture has no unit `{0}`")]
    Missing(String),
    #[error("the start of `{0}` is unknown: the capture has no `InactiveExitTimestampMonotonic` for it")]
    NotRecorded(String),
    #[error("`{unit}` was not started in this boot{why}")]
    NotStarted {
        unit: String,
        /// Empty, or the recorded reason after a colon.
        why: String,
    },
}

/// Explains the start of a unit.
pub fn explain(boot: &Boot, unit: &str) -> Result<Explanation, NotExplained> {
    let id = boot.id(unit);
    let found = boot.unit(id).ok_or_else(|| NotExplained::Missing(unit.to_owned()))?;
    if !found.is_started() {
        let why = match (found.load_state.as_deref(), found.condition) {
            (Some(state @ ("not-found" | "masked")), _) => format!(": it is {state}"),
            (_, Some(false)) => ": one of its conditions was not met".to_owned(),
            _ if found.activating.is_none() => return Err(NotExplained::NotRecorded(id.to_owned())),
            _ => String::new(),
        };
        return Err(NotExplained::NotStarted { unit: id.to_owned(), why });
    }
    let hops = hops::trace(boot, id, found);
    let preprovisioning = hops.iter().filter(|hop| is_pause(hop)).filter_map(|hop| hop.ran).sum();
    let executed = found.exec_start.filter(|at| *at > Usec::ZERO).map(|at| at - boot.userspace());
    let findings = findings::collect(boot, id, &hops);
    Ok(Explanation { unit: id.into(), began: hops[0].began, executed, preprovisioning, hops, findings })
}

/// Whether a hop is the pause of a preprovisioned VM.
pub(crate) fn is_pause(hop: &Hop) -> bool {
    hop.unit.as_str() == "cloud-init-local.service" && hop.ran.is_some_and(|ran| ran >= PREPROVISIONING)
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue => f.pad("queue"),
            Self::Device => f.pad("outside systemd: the device appeared then"),
            Self::Trigger(unit) => write!(f, "outside systemd: {unit} triggered it"),
            Self::AfterBoot => f.pad("outside systemd: started after the boot had finished"),
            Self::NotRecorded(fact) => write!(f, "unknown: the capture does not record {fact}"),
            Self::Unknown => f.pad("outside systemd: unknown cause"),
        }
    }
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnitsLoaded => f.pad("when PID 1 had loaded the units"),
            Self::Start(unit) => write!(f, "when {unit} started"),
            Self::End(unit) => write!(f, "when {unit} became active"),
            Self::Order(unit) => write!(f, "what {unit} is ordered after"),
            Self::MissingUnits(units) => {
                let some: Vec<&str> = units.iter().map(UnitName::as_str).take(NAMED_UNITS).collect();
                write!(f, "what happened to {}", some.join(", "))?;
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
    fn the_chain_follows_the_unit_that_was_ready_last() {
        let boot = boot(
            "a.service 100 400
             b.service 100 900
             c.target 1000 0 a.service b.service
             kubelet.service 1010 40 c.target",
        );
        let explained = explain(&boot, "kubelet.service").unwrap();
        let chain: Vec<_> = explained.hops.iter().map(|hop| hop.unit.as_str()).collect();
        assert_eq!(chain, ["kubelet.service", "c.target", "b.service"]);
        assert_eq!(explained.hops[0].wait, Wait::Queue);
        assert_eq!(explained.hops[2].waited, Usec(100_000), "since the start of PID 1");
    }

    #[test]
    fn a_start_after_the_boot_has_a_cause_outside_systemd() {
        let mut boot = boot("base.target 1000 0\nkubelet.service 60000 10 base.target");
        boot.manager.finish = Some(Usec(5_000_000));
        let explained = explain(&boot, "kubelet.service").unwrap();
        assert_eq!(explained.hops[0].wait, Wait::AfterBoot);
        assert_eq!(explained.hops[0].waited, Usec(59_000_000));
    }

    #[test]
    fn a_trigger_is_named_only_if_it_is_recorded() {
        let mut boot = boot("k.timer 100 0\nk.service 9000 10 k.timer\nother.service 9000 10 k.timer");
        boot.units.get_mut("k.service").unwrap().triggered_by = vec!["k.timer".into()];
        assert_eq!(explain(&boot, "k.service").unwrap().hops[0].wait, Wait::Trigger("k.timer".into()));
        assert_eq!(explain(&boot, "other.service").unwrap().hops[0].wait, Wait::Unknown);
    }

    #[test]
    fn the_time_before_the_first_unit_is_a_hop_if_it_is_recorded() {
        let mut boot = boot("a.service 2000 100\nkubelet.service 2100 10 a.service");
        let last = |boot: &Boot| explain(boot, "kubelet.service").unwrap().hops.pop().unwrap();
        assert_eq!(last(&boot).wait, Wait::NotRecorded(Fact::UnitsLoaded));
        boot.manager.units_load_finish = Some(Usec(1_991_000));
        let manager = last(&boot);
        assert_eq!((manager.unit.as_str(), manager.ran), (MANAGER, Some(Usec(1_990_000))));
    }

    #[test]
    fn a_missing_fact_is_named_and_not_taken_for_zero() {
        let mut boot = boot("a.service 100 0\nkubelet.service 9000 10 a.service");
        let first = |boot: &Boot| explain(boot, "kubelet.service").unwrap().hops.swap_remove(0);
        assert_eq!(first(&boot).wait, Wait::Unknown);
        boot.units.get_mut("a.service").unwrap().activated = None;
        assert_eq!(first(&boot).wait, Wait::NotRecorded(Fact::End("a.service".into())));
        boot.units.get_mut("a.service").unwrap().activated = Some(Usec(101_000));
        boot.units.get_mut("kubelet.service").unwrap().after.push("gone.service".into());
        let wait = first(&boot).wait;
        assert_eq!(wait, Wait::NotRecorded(Fact::MissingUnits(vec!["gone.service".into()])));
        assert_eq!(wait.to_string(), "unknown: the capture does not record what happened to gone.service");
        boot.units.insert("gone.service".into(), Unit { load_state: Some("not-found".into()), ..Unit::default() });
        assert_eq!(first(&boot).wait, Wait::Unknown, "the capture records that it does not exist");
        boot.units.get_mut("kubelet.service").unwrap().after.clear();
        boot.units.get_mut("kubelet.service").unwrap().order_recorded = false;
        assert_eq!(first(&boot).wait, Wait::NotRecorded(Fact::Order("kubelet.service".into())));
        boot.units.get_mut("kubelet.service").unwrap().activating = None;
        assert!(matches!(explain(&boot, "kubelet.service"), Err(NotExplained::NotRecorded(_))));
    }

    #[test]
    fn a_start_before_pid_1_is_counted_from_pid_1() {
        let mut boot = boot("a.device 1000 3000\nkubelet.service 4000 10 a.device");
        boot.manager.userspace = Some(Usec(2_001_000));
        let explained = explain(&boot, "kubelet.service").unwrap();
        assert_eq!(explained.hops[1].ran, Some(Usec(2_000_000)));
        assert_eq!((explained.began, explained.hops[1].waited), (Usec(2_000_000), Usec::ZERO));
    }

    #[test]
    fn an_ordering_cycle_ends_the_chain() {
        let boot = boot("a.service 100 0 b.service\nb.service 100 0 a.service");
        assert_eq!(explain(&boot, "a.service").unwrap().hops.len(), 2);
    }

    #[test]
    fn a_missing_or_not_started_unit_is_an_error() {
        let mut boot = boot("a.service 100 0");
        assert!(matches!(explain(&boot, "kubelet.service"), Err(NotExplained::Missing(_))));
        boot.units.insert(
            "kubelet.service".into(),
            Unit { condition: Some(false), activating: Some(Usec::ZERO), ..Unit::default() },
        );
        let error = explain(&boot, "kubelet.service").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`kubelet.service` was not started in this boot: one of its conditions was not met"
        );
    }
}
