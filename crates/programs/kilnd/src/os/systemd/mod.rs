//! A client for systemd on its private socket, which exists before D-Bus and only accepts root.

mod job;
#[cfg(test)]
mod tests;
mod transient;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::{DynamicType, OwnedObjectPath, OwnedVariant, Type, Variant};

use crate::os::Error;
use wire::{Answer, Link, Message};

pub use job::JobOutcome;

/// The private socket.
pub const SOCKET: &str = "/run/systemd/private";

const ROOT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
/// The interface of all units.
pub const UNIT: &str = "org.freedesktop.systemd1.Unit";
/// The interface of services.
pub const SERVICE: &str = "org.freedesktop.systemd1.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Whether the systemd of this socket manages this root. In a `chroot`, as of an image, `/run` is often that of the build machine.
pub fn manages_root(socket: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let inode = |path: &str| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    socket.exists() && inode("/proc/1/root/").is_some_and(|root| Some(root) == inode("/"))
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// `loaded`, `not-found`, `masked`, …
    pub load: String,
    /// `active`, `activating`, `inactive`, `failed`, …
    pub active: String,
    /// `running`, `auto-restart`, `dead`, …
    pub sub: String,
    /// Whether its conditions were met at the last start; true before the first one.
    pub conditions: bool,
    /// The result of the last run of a service: `success`, `exit-code`, `start-limit-hit`, …
    pub result: String,
    /// Whether its files changed since systemd read them.
    pub stale: bool,
}

/// What systemd has loaded for a service: its unit file and all drop-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedService {
    /// `loaded`, `not-found`, `masked`, …
    pub load: String,
    /// The programs of `ExecStart=`.
    pub programs: Vec<String>,
    /// In the order in which they were merged.
    pub drop_ins: Vec<String>,
}

impl UnitState {
    /// Whether the unit is active.
    pub fn is_active(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing")
    }
}

/// A client. It connects on first use, and again if systemd closed the connection, as `daemon-reexec` does.
#[derive(Debug)]
pub struct Systemd {
    socket: PathBuf,
    timeout: Duration,
    link: Option<Link>,
}

impl Systemd {
    /// A client with a timeout for responses and jobs.
    pub fn new(socket: impl AsRef<Path>, timeout: Duration) -> Self {
        Self { socket: socket.as_ref().to_owned(), timeout, link: None }
    }

    /// The state of a unit. A missing unit has the load state `not-found`.
    pub fn unit(&mut self, unit: &str) -> Result<UnitState, Error> {
        let path: OwnedObjectPath = self.manager("LoadUnit", unit, &(unit,))?;
        let load = self.property(&path, UNIT, "LoadState", unit)?;
        let active = self.property(&path, UNIT, "ActiveState", unit)?;
        let sub = self.property(&path, UNIT, "SubState", unit)?;
        let checked: u64 = self.property(&path, UNIT, "ConditionTimestampMonotonic", unit)?;
        let conditions = checked == 0 || self.property(&path, UNIT, "ConditionResult", unit)?;
        let stale = self.property(&path, UNIT, "NeedDaemonReload", unit)?;
        let is_service = Path::new(unit).extension().is_some_and(|kind| kind == "service");
        let result = if is_service { self.property(&path, SERVICE, "Result", unit)? } else { String::new() };
        Ok(UnitState { load, active, sub, conditions, result, stale })
    }

    /// What systemd has loaded for a service. A missing one has the load state `not-found`.
    pub fn loaded_service(&mut self, unit: &str) -> Result<LoadedService, Error> {
        let path: OwnedObjectPath = self.manager("LoadUnit", unit, &(unit,))?;
        let load: String = self.property(&path, UNIT, "LoadState", unit)?;
        if load != "loaded" {
            return Ok(LoadedService { load, programs: Vec::new(), drop_ins: Vec::new() });
        }
        let commands: OwnedVariant = self.property(&path, SERVICE, "ExecStart", unit)?;
        let programs = programs(&commands).ok_or_else(|| {
            self.unreachable(io::Error::new(io::ErrorKind::InvalidData, "`ExecStart` has an unexpected type"))
        })?;
        let drop_ins = self.property(&path, UNIT, "DropInPaths", unit)?;
        Ok(LoadedService { load, programs, drop_ins })
    }

    /// A property of a unit, of an interface such as `org.freedesktop.systemd1.Service`.
    pub fn unit_property<T: TryFrom<OwnedVariant>>(
        &mut self,
        unit: &str,
        interface: &str,
        property: &str,
    ) -> Result<T, Error> {
        let path: OwnedObjectPath = self.manager("LoadUnit", unit, &(unit,))?;
        self.property(&path, interface, property, unit)
    }

    /// A property of systemd itself.
    pub fn manager_property<T: TryFrom<OwnedVariant>>(&mut self, property: &str) -> Result<T, Error> {
        let message = self.call(ROOT, PROPERTIES, "Get", "", &(MANAGER, property))?;
        self.variant(message, property)
    }

    /// The names of all loaded units with their active states.
    pub fn units(&mut self) -> Result<Vec<(String, String)>, Error> {
        type Row = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);
        let rows: Vec<Row> = self.manager("ListUnits", "", &())?;
        Ok(rows.into_iter().map(|row| (row.0, row.3)).collect())
    }

    /// Reloads all unit files. Never used during a first boot, because it runs all generators.
    pub fn daemon_reload(&mut self) -> Result<(), Error> {
        self.call_manager("Reload", "", &()).map(drop)
    }

    /// The enablement state of a unit: `enabled`, `disabled`, `static`, `masked`, …
    pub fn enabled(&mut self, unit: &str) -> Result<String, Error> {
        self.manager("GetUnitFileState", unit, &(unit,))
    }

    /// Enables units. Takes effect at the next [reload](Self::daemon_reload).
    pub fn enable(&mut self, units: &[&str]) -> Result<(), Error> {
        self.call_manager("EnableUnitFiles", &units.join(" "), &(units, false, true)).map(drop)
    }

    /// Disables units.
    pub fn disable(&mut self, units: &[&str]) -> Result<(), Error> {
        self.call_manager("DisableUnitFiles", &units.join(" "), &(units, false)).map(drop)
    }

    fn property<T: TryFrom<OwnedVariant>>(
        &mut self,
        path: &OwnedObjectPath,
        interface: &str,
        property: &str,
        unit: &str,
    ) -> Result<T, Error> {
        let message = self.call(path.as_str(), PROPERTIES, "Get", unit, &(interface, property))?;
        self.variant(message, property)
    }

    fn variant<T: TryFrom<OwnedVariant>>(&self, message: Message, property: &str) -> Result<T, Error> {
        let value: OwnedVariant = message.get().map_err(|source| self.unreachable(source))?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("`{property}` has an unexpected type"));
        T::try_from(value).map_err(|_| self.unreachable(wrong()))
    }

    fn manager<B: Serialize + DynamicType, T: DeserializeOwned + Type>(
        &mut self,
        member: &str,
        unit: &str,
        body: &B,
    ) -> Result<T, Error> {
        let message = self.call_manager(member, unit, body)?;
        message.get().map_err(|source| self.unreachable(source))
    }

    fn call_manager<B: Serialize + DynamicType>(
        &mut self,
        member: &str,
        unit: &str,
        body: &B,
    ) -> Result<Message, Error> {
        self.call(ROOT, MANAGER, member, unit, body)
    }

    /// Calls a method, again over a new connection if the old one was closed. All methods that kilnd uses can be repeated safely.
    fn call<B: Serialize + DynamicType>(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        unit: &str,
        body: &B,
    ) -> Result<Message, Error> {
        let fresh = self.link.is_none();
        let response = match self.link()?.call(path, interface, member, body) {
            Err(error) if is_closed(&error) && !fresh => {
                self.link = None;
                self.link()?.call(path, interface, member, body)
            }
            response => response,
        };
        match response {
            Ok(Answer::Body(message)) => Ok(message),
            Ok(Answer::Refused { name, message }) => {
                Err(Error::SystemdRefused { member: member.to_owned(), unit: unit.to_owned(), name, message })
            }
            Err(source) => {
                // The stream may contain half a response.
                self.link = None;
                Err(self.unreachable(source))
            }
        }
    }

    fn link(&mut self) -> Result<&mut Link, Error> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Link::open(&self.socket, self.timeout).map_err(|source| self.unreachable(source))?,
        };
        Ok(self.link.insert(link))
    }

    fn unreachable(&self, source: io::Error) -> Error {
        Error::SystemdUnreachable { socket: self.socket.clone(), source }
    }
}

/// The paths of commands, which are structures that start with the path.
fn programs(commands: &Variant<'_>) -> Option<Vec<String>> {
    let Variant::Array(commands) = commands else { return None };
    let path = |command: &Variant<'_>| match command {
        Variant::Structure(fields) => match fields.fields().first()? {
            Variant::Str(path) => Some(path.to_string()),
            _ => None,
        },
        _ => None,
    };
    commands.inner().iter().map(path).collect()
}

/// Whether systemd closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset)
}
