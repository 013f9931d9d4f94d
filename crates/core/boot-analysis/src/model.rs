//! A boot: what the manager and its units recorded.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::span::Usec;

/// The name of a unit, `kubelet.service`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct UnitName(Box<str>);

impl UnitName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is behind the last dot.
    pub fn kind(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, kind)| kind)
    }
}

impl From<&str> for UnitName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::borrow::Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// When the manager reached its marks. A mark that was not recorded is none; one that does not exist on this machine is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manager {
    /// The firmware's time before the kernel, counted back from it.
    pub firmware: Option<Usec>,
    /// The loader's.
    pub loader: Option<Usec>,
    /// PID 1 of the initial RAM disk.
    pub initrd: Option<Usec>,
    /// PID 1.
    pub userspace: Option<Usec>,
    /// The queue of jobs was empty for the first time.
    pub finish: Option<Usec>,
    /// All generators had run.
    pub generators_finish: Option<Usec>,
    /// All units were loaded.
    pub units_load_finish: Option<Usec>,
    /// systemd's version.
    pub version: Option<String>,
    /// What it runs in.
    pub virtualization: Option<String>,
}

/// When a unit let go on those that are ordered after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// It was active then, or had run and ended.
    At(Usec),
    /// Not yet, when this was recorded.
    NotYet,
    /// The record does not say.
    NotRecorded,
}

/// A unit of a boot. A time that was not recorded is none; one that did not come is zero, as systemd writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unit {
    /// Its place among the units of the capture: ties are settled by it.
    pub index: usize,
    /// It began to start.
    pub activating: Option<Usec>,
    /// It was active.
    pub activated: Option<Usec>,
    /// It began to stop.
    pub deactivating: Option<Usec>,
    /// It was inactive again.
    pub deactivated: Option<Usec>,
    /// Its program was executed.
    pub exec_start: Option<Usec>,
    /// Units that had to start before it.
    pub after: Vec<UnitName>,
    /// Whether the record says which these are. No such unit is something else than no such record.
    pub order_recorded: bool,
    /// Units that had to start after it.
    pub before: Vec<UnitName>,
    /// Units that it pulls in.
    pub wants: Vec<UnitName>,
    /// Units that it needs.
    pub requires: Vec<UnitName>,
    /// Units by which it is started from outside of the boot's jobs: sockets, timers, paths.
    pub triggered_by: Vec<UnitName>,
    /// `simple`, `oneshot`, …
    pub service_type: Option<String>,
    /// `loaded`, `not-found`, `masked`.
    pub load_state: Option<String>,
    /// How it ended.
    pub result: Option<String>,
    /// Whether its conditions held.
    pub condition: Option<bool>,
}

impl Unit {
    /// How long it took to start. A oneshot that failed took the time until it was inactive again.
    pub fn time(&self) -> Usec {
        let activating = self.activating.unwrap_or_default();
        [self.activated, self.deactivated]
            .into_iter()
            .flatten()
            .find(|end| *end >= activating)
            .map_or(Usec::ZERO, |end| end - activating)
    }

    /// Whether it was started at all in this boot.
    pub fn is_started(&self) -> bool {
        self.activating.is_some_and(|at| at > Usec::ZERO)
    }

    /// When it began, as far as that is recorded: a unit of which only the end is known began at the latest then.
    pub fn began(&self) -> Option<Usec> {
        self.activating.or(self.activated).filter(|at| *at > Usec::ZERO)
    }

    /// When those that are ordered after it could go on.
    pub fn released(&self) -> Released {
        let began = self.began().unwrap_or_default();
        match [self.activated, self.deactivated].into_iter().flatten().find(|end| *end >= began) {
            Some(end) => Released::At(end),
            None if self.activated.is_none() || self.deactivated.is_none() => Released::NotRecorded,
            None => Released::NotYet,
        }
    }

    /// How long it took to start; none where the record does not hold both ends.
    pub fn took(&self) -> Option<Usec> {
        match self.released() {
            Released::At(end) => self.activating.map(|began| end - began),
            Released::NotYet | Released::NotRecorded => None,
        }
    }
}

/// Units by name.
pub type Units = BTreeMap<UnitName, Unit>;

/// A boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    /// What the manager recorded.
    pub manager: Manager,
    pub units: Units,
    /// Other names of units, `default.target`.
    pub aliases: BTreeMap<UnitName, UnitName>,
    /// The unit at the top of a pasted chain: all that is known is the last that each unit waited for.
    pub pasted: Option<UnitName>,
}

impl Boot {
    /// The name that a unit goes by, whatever it was asked for under.
    pub fn id<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, UnitName::as_str)
    }

    /// A unit under any of its names.
    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.get(self.id(name))
    }

    /// A unit that took part in this boot.
    pub fn started(&self, name: &str) -> Option<&Unit> {
        self.unit(name).filter(|unit| unit.is_started())
    }

    /// What the boot was to reach: `default.target`, where its name is recorded, else the usual ones.
    pub fn goal(&self) -> &str {
        let usual = ["graphical.target", "multi-user.target"];
        let found = ["default.target"].into_iter().chain(usual).find(|name| self.unit(name).is_some());
        self.id(found.unwrap_or("default.target"))
    }

    /// The unit that a pasted chain was printed for; none in a capture.
    pub fn pasted_root(&self) -> Option<&str> {
        self.pasted.as_ref().map(UnitName::as_str)
    }

    /// When PID 1 had loaded its units and could start the first, where that is recorded.
    pub fn loaded(&self) -> Option<Usec> {
        self.manager.units_load_finish.filter(|at| *at > self.userspace())
    }

    /// The earliest that a unit could start, as far as is recorded.
    pub(crate) fn first(&self) -> Usec {
        self.loaded().unwrap_or_else(|| self.userspace())
    }

    /// When PID 1 began.
    pub fn userspace(&self) -> Usec {
        self.manager.userspace.unwrap_or_default()
    }
}
