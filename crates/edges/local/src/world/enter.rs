//! The way into a world: new namespaces, and a keeper outside that takes the control groups away afterwards.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::pipe;

use super::WorldError;
use super::record::{Tools, run_folder};
use super::tools::{Needed, must_have};

const KEEPER: &str = include_str!("keeper.sh");

/// What every world is made by. What a kind of machine is run by is looked for when one is switched on.
const NEEDED: [Needed; 8] = [
    ("sh", "dash"),
    ("find", "findutils"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
];

/// A world that this process started. Dropped, or ended together with this process by whatever death, the world ends.
#[derive(Debug)]
pub struct Entered {
    keeper: Child,
    /// The world's first process ends when nobody can write here any more.
    _alive: OwnedFd,
}

/// What a world's first process is told.
#[derive(Debug, Clone)]
pub struct First {
    /// The state folder, absolute.
    pub state: PathBuf,
    /// The name of the world's control groups.
    pub group: String,
    /// The number of the file that ends when the world is to end.
    pub ends: i32,
    /// Where the programs that run machines come from.
    pub tools: Tools,
}

/// Makes the namespaces of a world and starts its first process there. `first` says how it is called, given what it is to be told.
pub fn enter(state: &Path, tools: Tools, first: impl FnOnce(&First) -> Vec<OsString>) -> Result<Entered, WorldError> {
    if !rustix::process::geteuid().is_root() {
        return Err(WorldError::NotRoot);
    }
    must_have(None, &NEEDED)?;
    let run = run_folder(state);
    for folder in [state, &run] {
        private_folder(folder).map_err(WorldError::file(folder))?;
    }
    let state = fs::canonicalize(state).map_err(WorldError::file(state))?;
    // Given on to every process of the world: it is free when the last of them is gone.
    let _lock = inherited_lock(&state)?;
    let piped = |error: Errno| WorldError::Program { program: "pipe".to_owned(), source: error.into() };
    let (ends, alive) = pipe().map_err(piped)?;
    fcntl_setfd(&alive, FdFlags::CLOEXEC).map_err(piped)?;
    let group = format!("kiln-local-{}", std::process::id());
    let told = First { state, group, ends: ends.as_fd().as_raw_fd(), tools };
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "keeper", &told.group]).args(first(&told));
    let keeper = command.spawn().map_err(|source| WorldError::Program { program: "sh".to_owned(), source })?;
    Ok(Entered { keeper, _alive: alive })
}

/// Disks and what machines are told hold secrets. A folder that is there already stays as its owner made it.
fn private_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::DirBuilder::new().mode(0o700).create(path)
}

fn inherited_lock(state: &Path) -> Result<File, WorldError> {
    let path = state.join("world.lock");
    let lock = File::create(&path).map_err(WorldError::file(&path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(WorldError::Taken { state: state.to_owned() }),
        Err(error) => return Err(WorldError::File { path, source: error.into() }),
    }
    fcntl_setfd(&lock, FdFlags::empty()).map_err(|error| WorldError::File { path, source: error.into() })?;
    Ok(lock)
}

impl Entered {
    /// Waits for the end of the world, which is that of its command, and says the command's code.
    pub fn wait(&mut self) -> Result<i32, WorldError> {
        let ended = self.keeper.wait().map_err(|source| WorldError::Program { program: "sh".to_owned(), source })?;
        // A keeper has a code unless it was killed; so had the world then.
        Ok(ended.code().unwrap_or(137))
    }
}
