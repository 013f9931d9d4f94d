//! A node: everything outside the process that a command may touch, built once from the command line.

use std::path::{Path, PathBuf};

use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::{BOOT, STATUS};

use crate::args::Locations;
use crate::boot::kind::BootRecord;
use crate::log::Log;
use crate::os::{self, Durability, Root};
use crate::sources::{Endpoints, Scaled};
use crate::status::Status;

/// A port on which nothing may listen: connections are refused at once.
const UNREACHABLE: &str = "http://127.0.0.1:1";

/// The kernel's id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A node and its environment.
#[derive(Debug)]
pub struct Node {
    pub root: Root,
    pub endpoints: Endpoints,
    /// systemd's private socket; none below `--root`.
    pub systemd: Option<PathBuf>,
    /// The folder with the network interfaces; without it kilnd does not configure an early network.
    pub links: Option<PathBuf>,
    pub wait: Scaled,
    pub log: Log,
}

impl Node {
    /// Opens the root folder. Touches nothing else.
    pub fn open(locations: &Locations) -> Result<Self, os::Error> {
        let root = Root::open(&locations.root)?;
        let default = default_endpoints(&root);
        let endpoints = Endpoints {
            imds: locations.imds.clone().unwrap_or(default.imds),
            wire_server: locations.wire_server.clone().unwrap_or(default.wire_server),
            dmi: locations.dmi.clone().unwrap_or(default.dmi),
            cd: if locations.cd.is_empty() { default.cd } else { locations.cd.clone() },
            credentials: locations.credentials.clone().unwrap_or(default.credentials),
            var_lib: default.var_lib,
        };
        // Set by systemd when standard error is connected to the journal.
        let levels = std::env::var_os("JOURNAL_STREAM").is_some();
        Ok(Self {
            root,
            endpoints,
            systemd: locations.systemd.clone(),
            links: locations.links.clone(),
            wait: Scaled { scale: locations.time_scale },
            log: Log::new(now, levels),
        })
    }

    /// The kernel's id of this boot; empty if it is unreadable.
    pub fn boot_id(&self) -> String {
        let bytes = self.root.read_if_exists(BOOT_ID).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// What `kilnd identity` recorded about this boot; none if it did not run.
    pub fn boot(&self) -> Result<Option<BootRecord>, os::Error> {
        let bytes = self.root.read_if_exists(BOOT)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Writes the status file, with the steps and warnings of the log. A failure is logged; it does not change the result of the command.
    pub fn report(&self, mut status: Status) -> Status {
        status.boot = self.boot().ok().flatten().map(|record| record.kind.as_str().to_owned());
        status.steps = self.log.take_steps();
        status.warnings.extend(self.log.take_warnings());
        let bytes = status.to_json();
        if let Err(error) = self.root.write_all(&[DesiredFile::new(STATUS, &bytes, 0o644)], Durability::Later) {
            self.log.error(&format!("cannot write the status: {error}"));
        }
        status
    }
}

/// The default endpoints. The platform's services describe this machine and not the one whose files are below `--root`, so they are only used
/// there if an option names them. Files are looked up below the root.
fn default_endpoints(root: &Root) -> Endpoints {
    let default = Endpoints::default();
    if root.is_host() {
        return default;
    }
    let below = |path: &Path| root.path().join(path.strip_prefix("/").unwrap_or(path));
    Endpoints {
        imds: UNREACHABLE.to_owned(),
        wire_server: UNREACHABLE.to_owned(),
        dmi: below(&default.dmi),
        cd: default.cd.iter().map(|path| below(path)).collect(),
        credentials: below(&default.credentials),
        var_lib: below(&default.var_lib),
    }
}

fn now() -> u64 {
    u64::try_from(os::clock::boot_time().as_micros()).unwrap_or(u64::MAX)
}
