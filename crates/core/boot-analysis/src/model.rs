//! A boot: the timestamps of the manager and of its units.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::span::Usec;

/// The full name of a unit, such as `kubelet.service`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct UnitName(Box<str>);

impl UnitName {
    /// The full name, with its suffix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The suffix after the last dot, such as `service`.
    pub fn kind(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, kind)| kind)
    }
}

impl From<&str> for UnitName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for UnitName {
    fn from(name: String) -> Self {
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

/// Timestamps of the manager. `None` is not recorded; zero is recorded as absent, such as the firmware time of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manager {
    /// Time from the start of the firmware to the start of the kernel.
    pub firmware: Option<Usec>,
    /// Time from the start of the boot loader to the start of the kernel.
    pub loader: Option<Usec>,
    /// Start of PID 1 in the initial RAM disk.
    pub initrd: Option<Usec>,
    /// Start of PID 1.
    pub userspace: Option<Usec>,
    /// The job queue was empty for the first time.
    pub finish: Option<Usec>,
    pub generators_finish: Option<Usec>,
    pub units_load_finish: Option<Usec>,
    pub version: Option<String>,
    /// As `systemd-detect-virt` prints it.
    pub virtualization: Option<String>,
}

/// When units that are ordered after a unit could start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The unit became active, or ran and ended.
    At(Usec),
    /// The unit was still starting when the capture was taken.
    NotYet,
    NotRecorded,
}

/// A unit of a boot. `None` is a time that is not recorded; zero is an event that did not happen, as in systemd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unit {
    /// Position in the capture, which breaks ties.
    pub index: usize,
    /// `InactiveExitTimestampMonotonic`.
    pub activating: Option<Usec>,
    /// `ActiveEnterTimestampMonotonic`.
    pub activated: Option<Usec>,
    /// `ActiveExitTimestampMonotonic`.
    pub deactivating: Option<Usec>,
    /// `InactiveEnterTimestampMonotonic`.
    pub deactivated: Option<Usec>,
    /// `ExecMainStartTimestampMonotonic`.
    pub exec_start: Option<Usec>,
    pub after: Vec<UnitName>,
    /// Whether the capture has an `After=` line. Without one, an empty `after` means "unknown".
    pub order_recorded: bool,
    pub before: Vec<UnitName>,
    pub wants: Vec<UnitName>,
    /// `Requires=` and `BindsTo=`.
    pub requires: Vec<UnitName>,
    /// Sockets, timers and paths that can start it.
    pub triggered_by: Vec<UnitName>,
    /// `simple`, `oneshot`, …
    pub service_type: Option<String>,
    /// `loaded`, `not-found`, `masked`.
    pub load_state: Option<String>,
    pub result: Option<String>,
    pub condition: Option<bool>,
}

impl Unit {
    /// Start-up time as `systemd-analyze` computes it. For a failed oneshot, the time until it was inactive again.
    pub fn time(&self) -> Usec {
        let activating = self.activating.unwrap_or_default();
        [self.activated, self.deactivated]
            .into_iter()
            .flatten()
            .find(|end| *end >= activating)
            .map_or(Usec::ZERO, |end| end - activating)
    }

    /// Whether the unit was started in this boot.
    pub fn is_started(&self) -> bool {
        self.activating.is_some_and(|at| at > Usec::ZERO)
    }

    /// Start of the unit. If only the end is recorded, that is used as an upper bound.
    pub fn began(&self) -> Option<Usec> {
        self.activating.or(self.activated).filter(|at| *at > Usec::ZERO)
    }

    /// When units that are ordered after this one could start.
    pub fn released(&self) -> Released {
        let began = self.began().unwrap_or_default();
        match [self.activated, self.deactivated].into_iter().flatten().find(|end| *end >= began) {
            Some(end) => Released::At(end),
            None if self.activated.is_none() || self.deactivated.is_none() => Released::NotRecorded,
            None => Released::NotYet,
        }
    }

    /// Start-up time; `None` unless both ends are recorded.
    pub fn took(&self) -> Option<Usec> {
        match self.released() {
            Released::At(end) => self.activating.map(|began| end - began),
            Released::NotYet | Released::NotRecorded => None,
        }
    }
}

/// Units by name.
pub type Units = BTreeMap<UnitName, Unit>;

/// The recorded state of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    pub manager: Manager,
    pub units: Units,
    /// Alias to primary name, such as `default.target` to `multi-user.target`.
    pub aliases: BTreeMap<UnitName, UnitName>,
    /// The unit at the top of a pasted chain. Such a boot has only the last unit that each unit waited for.
    pub pasted: Option<UnitName>,
}

impl Boot {
    /// The primary name of a unit.
    pub fn id<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, UnitName::as_str)
    }

    /// Looks up a unit by its primary name or an alias.
    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.get(self.id(name))
    }

    /// Looks up a unit that was started in this boot.
    pub fn started(&self, name: &str) -> Option<&Unit> {
        self.unit(name).filter(|unit| unit.is_started())
    }

    /// The default target: what `default.target` is an alias of, otherwise `graphical.target` or `multi-user.target`.
    pub fn goal(&self) -> &str {
        let usual = ["graphical.target", "multi-user.target"];
        let found = ["default.target"].into_iter().chain(usual).find(|name| self.unit(name).is_some());
        self.id(found.unwrap_or("default.target"))
    }

    /// The unit that a pasted chain was printed for; `None` for a capture.
    pub fn pasted_root(&self) -> Option<&str> {
        self.pasted.as_ref().map(UnitName::as_str)
    }

    /// When PID 1 had loaded all units and could start the first one, if that is recorded.
    pub fn loaded(&self) -> Option<Usec> {
        self.manager.units_load_finish.filter(|at| *at > self.userspace())
    }

    /// The earliest recorded time at which a unit could start.
    pub(crate) fn first(&self) -> Usec {
        self.loaded().unwrap_or_else(|| self.userspace())
    }

    /// Start of PID 1.
    pub fn userspace(&self) -> Usec {
        self.manager.userspace.unwrap_or_default()
    }
}
