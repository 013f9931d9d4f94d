//! PID 1, on its private socket: there before any bus, and for root alone.

mod job;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::{DynamicType, OwnedObjectPath, OwnedVariant, Type};

use crate::os::Error;
use wire::{Answer, Link, Message};

pub use job::JobOutcome;

/// Where PID 1 listens.
pub const SOCKET: &str = "/run/systemd/private";

const ROOT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// What PID 1 knows of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// `loaded`, `not-found`, `masked`, …
    pub load: String,
    /// `active`, `activating`, `inactive`, `failed`, …
    pub active: String,
    /// `running`, `auto-restart`, `dead`, …
    pub sub: String,
    /// Whether its conditions held when it was last to start. True before that.
    pub conditions: bool,
    /// How its last run ended, for a service: `success`, `exit-code`, `start-limit-hit`, …
    pub result: String,
    /// Whether its files changed since they were read.
    pub stale: bool,
}

impl UnitState {
    /// Whether it runs, or has run and stays.
    pub fn is_active(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing")
    }
}

/// A client of PID 1. Connects when it must, and again when the other side has gone: `daemon-reexec` closes every connection.
#[derive(Debug)]
pub struct Systemd {
    socket: PathBuf,
    patience: Duration,
    link: Option<Link>,
}

impl Systemd {
    /// A client that waits at most so long for any answer, and for any job to end.
    pub fn new(socket: impl AsRef<Path>, patience: Duration) -> Self {
        Self { socket: socket.as_ref().to_owned(), patience, link: None }
    }

    /// What it knows of a unit. One that there is not is `not-found`.
    pub fn unit(&mut self, unit: &str) -> Result<UnitState, Error> {
        let path: OwnedObjectPath = self.manager("LoadUnit", unit, &(unit,))?;
        let load = self.property(&path, UNIT, "LoadState", unit)?;
        let active = self.property(&path, UNIT, "ActiveState", unit)?;
        let sub = self.property(&path, UNIT, "SubState", unit)?;
        let tried: u64 = self.property(&path, UNIT, "ConditionTimestampMonotonic", unit)?;
        let conditions = tried == 0 || self.property(&path, UNIT, "ConditionResult", unit)?;
        let stale = self.property(&path, UNIT, "NeedDaemonReload", unit)?;
        let is_service = Path::new(unit).extension().is_some_and(|kind| kind == "service");
        let result = if is_service { self.property(&path, SERVICE, "Result", unit)? } else { String::new() };
        Ok(UnitState { load, active, sub, conditions, result, stale })
    }

    /// One property of a unit, of an interface such as `org.freedesktop.systemd1.Service`.
    pub fn unit_property<T: TryFrom<OwnedVariant>>(
        &mut self,
        unit: &str,
        interface: &str,
        property: &str,
    ) -> Result<T, Error> {
        let path: OwnedObjectPath = self.manager("LoadUnit", unit, &(unit,))?;
        self.property(&path, interface, property, unit)
    }

    /// The names of all loaded units with their active states.
    pub fn units(&mut self) -> Result<Vec<(String, String)>, Error> {
        type Row = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);
        let rows: Vec<Row> = self.manager("ListUnits", "", &())?;
        Ok(rows.into_iter().map(|row| (row.0, row.3)).collect())
    }

    /// Reads all unit files again. Never at first boot: it runs every generator.
    pub fn daemon_reload(&mut self) -> Result<(), Error> {
        self.ask("Reload", "", &()).map(drop)
    }

    /// Whether a unit starts by itself: `enabled`, `disabled`, `static`, `masked`, …
    pub fn enabled(&mut self, unit: &str) -> Result<String, Error> {
        self.manager("GetUnitFileState", unit, &(unit,))
    }

    /// Lets units start by themselves. Takes effect with the next [reload](Self::daemon_reload).
    pub fn enable(&mut self, units: &[&str]) -> Result<(), Error> {
        self.ask("EnableUnitFiles", &units.join(" "), &(units, false, true)).map(drop)
    }

    /// Lets units start by themselves no more.
    pub fn disable(&mut self, units: &[&str]) -> Result<(), Error> {
        self.ask("DisableUnitFiles", &units.join(" "), &(units, false)).map(drop)
    }

    fn property<T: TryFrom<OwnedVariant>>(
        &mut self,
        path: &OwnedObjectPath,
        interface: &str,
        property: &str,
        unit: &str,
    ) -> Result<T, Error> {
        let message = self.call(path.as_str(), PROPERTIES, "Get", unit, &(interface, property))?;
        let value: OwnedVariant = message.get().map_err(|source| self.unreachable(source))?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("`{property}` is of another type"));
        T::try_from(value).map_err(|_| self.unreachable(wrong()))
    }

    fn manager<B: Serialize + DynamicType, T: DeserializeOwned + Type>(
        &mut self,
        member: &str,
        unit: &str,
        body: &B,
    ) -> Result<T, Error> {
        let message = self.ask(member, unit, body)?;
        message.get().map_err(|source| self.unreachable(source))
    }

    fn ask<B: Serialize + DynamicType>(&mut self, member: &str, unit: &str, body: &B) -> Result<Message, Error> {
        self.call(ROOT, MANAGER, member, unit, body)
    }

    /// Calls a method, over a new connection when the old one has gone. Each of our methods may be called twice.
    fn call<B: Serialize + DynamicType>(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        unit: &str,
        body: &B,
    ) -> Result<Message, Error> {
        let fresh = self.link.is_none();
        let answer = match self.link()?.call(path, interface, member, body) {
            Err(error) if gone(&error) && !fresh => {
                self.link = None;
                self.link()?.call(path, interface, member, body)
            }
            answer => answer,
        };
        match answer {
            Ok(Answer::Body(message)) => Ok(message),
            Ok(Answer::Refused { name, message }) => {
                Err(Error::SystemdRefused { member: member.to_owned(), unit: unit.to_owned(), name, message })
            }
            Err(source) => {
                // Half an answer may be under way: the connection is of no use any more.
                self.link = None;
                Err(self.unreachable(source))
            }
        }
    }

    fn link(&mut self) -> Result<&mut Link, Error> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Link::open(&self.socket, self.patience).map_err(|source| self.unreachable(source))?,
        };
        Ok(self.link.insert(link))
    }

    fn unreachable(&self, source: io::Error) -> Error {
        Error::SystemdUnreachable { socket: self.socket.clone(), source }
    }
}

/// Whether the other side has closed the connection.
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset)
}
