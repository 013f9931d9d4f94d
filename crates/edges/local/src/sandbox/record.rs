//! The record of a sandbox: one file, on a file system in memory that only the sandbox's processes see.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::SandboxError;

/// The settings that all processes of a sandbox share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRecord {
    /// The name of its control group in every hierarchy.
    pub group: String,
    pub tools: ToolRoots,
}

/// Root folders of a Debian that has the programs which run machines. This system's own programs are used where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRoots {
    /// A root with systemd-nspawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nspawn: Option<PathBuf>,
    /// A root with QEMU and genisoimage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu: Option<PathBuf>,
}

/// A sandbox, seen by a process in it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    state: PathBuf,
    pub(crate) record: SandboxRecord,
}

/// The folder of everything that ends with the sandbox, which mounts a file system in memory there.
pub(crate) fn run_folder(state: &Path) -> PathBuf {
    state.join("run")
}

pub(super) fn record_path(state: &Path) -> PathBuf {
    run_folder(state).join("sandbox.json")
}

impl Sandbox {
    /// The sandbox of a state folder. This process must be in it.
    pub fn current(state: &Path) -> Result<Self, SandboxError> {
        let outside = |state: &Path| SandboxError::Outside { state: state.to_owned() };
        let state = match fs::canonicalize(state) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(outside(state)),
            canonical => canonical.map_err(SandboxError::file(state))?,
        };
        let path = record_path(&state);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(outside(&state)),
            read => read.map_err(SandboxError::file(&path))?,
        };
        let record = serde_json::from_slice(&bytes).map_err(|source| SandboxError::Record { path, source })?;
        Ok(Self { state, record })
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The root folder that has QEMU, if it is not this system's own.
    pub fn qemu_root(&self) -> Option<&Path> {
        self.record.tools.qemu.as_deref()
    }

    /// The folder of a machine, which ends with the sandbox.
    pub(crate) fn machine_folder(&self, name: &str) -> PathBuf {
        run_folder(&self.state).join("machines").join(name)
    }

    /// The console output of the last start of a machine. It outlives the machine, to show why it ended.
    pub fn console(&self, name: &str) -> PathBuf {
        self.state.join("consoles").join(format!("{name}.log"))
    }
}

/// Whether a process holds the lock on a file. A file that does not exist is not locked.
pub(crate) fn is_locked(path: &Path) -> Result<bool, SandboxError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(SandboxError::file(path))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(SandboxError::File { path: path.to_owned(), source: error.into() }),
    }
}
