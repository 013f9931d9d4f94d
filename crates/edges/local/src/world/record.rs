//! What the processes of a world know of it: one file, in memory, that only they see.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::WorldError;

/// What the processes of a world know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The name of its control groups.
    pub group: String,
    /// Where the programs that run machines come from.
    pub tools: Tools,
}

/// Where the programs that run machines come from: roots of a Debian that has them. This system's own where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tools {
    /// A root with systemd-nspawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nspawn: Option<PathBuf>,
    /// A root with QEMU and genisoimage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu: Option<PathBuf>,
}

/// A world, seen by a process in it.
#[derive(Debug, Clone)]
pub struct World {
    state: PathBuf,
    pub(crate) record: Record,
}

/// Where a world keeps what is gone with it: a file system in memory, mounted there in the world alone.
pub(crate) fn run_folder(state: &Path) -> PathBuf {
    state.join("run")
}

impl World {
    /// The world of a state folder, from the inside.
    pub fn around(state: &Path) -> Result<Self, WorldError> {
        let state = match fs::canonicalize(state) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(WorldError::Outside { state: state.to_owned() });
            }
            found => found.map_err(WorldError::file(state))?,
        };
        let path = run_folder(&state).join("world.json");
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(WorldError::Outside { state }),
            read => read.map_err(WorldError::file(&path))?,
        };
        let record = serde_json::from_slice(&bytes).map_err(|source| WorldError::Record { path, source })?;
        Ok(Self { state, record })
    }

    /// Its state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The root of a system that has QEMU, where it is not this system's own.
    pub fn qemu_root(&self) -> Option<&Path> {
        self.record.tools.qemu.as_deref()
    }

    /// The folder of a machine, gone with the world.
    pub(crate) fn machine(&self, name: &str) -> PathBuf {
        run_folder(&self.state).join("machines").join(name)
    }

    /// What the last life of a machine said, kept for who wants to know why it ended.
    pub fn console(&self, name: &str) -> PathBuf {
        self.state.join("consoles").join(format!("{name}.log"))
    }
}

/// Whether somebody holds the lock on a file; nobody does where there is none.
pub(crate) fn held(path: &Path) -> Result<bool, WorldError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(WorldError::file(path))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(WorldError::File { path: path.to_owned(), source: error.into() }),
    }
}
