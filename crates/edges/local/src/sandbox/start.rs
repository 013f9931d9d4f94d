//! Starting a sandbox: new namespaces, and a keeper outside of them that removes the control groups afterwards.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use kiln_machines::namespaces::{group_name, isolated_in_group};
use kiln_machines::tools::{self, Needed};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::pipe;

use super::SandboxError;
use super::record::{ToolRoots, run_folder};

/// The programs that every sandbox needs. Those of one kind of machine are checked when such a machine starts.
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

/// A sandbox that this process started. It ends when this value is dropped, and when this process ends or is killed.
#[derive(Debug)]
pub struct RunningSandbox {
    keeper: Child,
    /// The other end is `Init::lifeline`.
    _lifeline: OwnedFd,
}

/// The arguments of a sandbox's first process.
#[derive(Debug, Clone)]
pub struct Init {
    /// The state folder, as an absolute path.
    pub state: PathBuf,
    /// The name of the sandbox's control group.
    pub group: String,
    /// The number of a file descriptor that reads the end of file when the sandbox must end.
    pub lifeline: i32,
    pub tools: ToolRoots,
}

/// Creates the namespaces of a sandbox and starts its first process there, with the command line that `command` returns.
pub fn start(
    state: &Path,
    tools: ToolRoots,
    command: impl FnOnce(&Init) -> Vec<OsString>,
) -> Result<RunningSandbox, SandboxError> {
    if !rustix::process::geteuid().is_root() {
        return Err(SandboxError::NotRoot);
    }
    tools::require(None, &NEEDED)?;
    let run = run_folder(state);
    for folder in [state, &run] {
        create_private_folder(folder).map_err(SandboxError::file(folder))?;
    }
    let state = fs::canonicalize(state).map_err(SandboxError::file(state))?;
    // Every process of the sandbox inherits the lock, so it is free when the last of them has ended.
    let _lock = take_inherited_lock(&state)?;
    let failed = |error: Errno| SandboxError::spawn("pipe")(error.into());
    let (reader, lifeline) = pipe().map_err(failed)?;
    fcntl_setfd(&lifeline, FdFlags::CLOEXEC).map_err(failed)?;
    let init = Init { state, group: group_name("kiln-local"), lifeline: reader.as_fd().as_raw_fd(), tools };
    let mut keeper = isolated_in_group(&init.group);
    let keeper = keeper.args(command(&init)).spawn().map_err(SandboxError::spawn("sh"))?;
    Ok(RunningSandbox { keeper, _lifeline: lifeline })
}

/// Creates a folder that only its owner may read: disks and user data contain secrets. A folder that exists keeps its mode.
fn create_private_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::DirBuilder::new().mode(0o700).create(path)
}

fn take_inherited_lock(state: &Path) -> Result<File, SandboxError> {
    let path = state.join("sandbox.lock");
    let lock = File::create(&path).map_err(SandboxError::file(&path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(SandboxError::AlreadyRunning { state: state.to_owned() }),
        Err(error) => return Err(SandboxError::File { path, source: error.into() }),
    }
    fcntl_setfd(&lock, FdFlags::empty()).map_err(|error| SandboxError::File { path, source: error.into() })?;
    Ok(lock)
}

impl RunningSandbox {
    /// Waits until the command in the sandbox has ended, and returns its exit code.
    pub fn wait(&mut self) -> Result<i32, SandboxError> {
        let status = self.keeper.wait().map_err(SandboxError::spawn("sh"))?;
        // Only a killed keeper has no exit code, and the sandbox is killed with it.
        Ok(status.code().unwrap_or(137))
    }
}
