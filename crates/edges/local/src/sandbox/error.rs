//! Errors of a sandbox.

use std::io;
use std::path::{Path, PathBuf};

/// Why a sandbox or one of its machines could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("`{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("`{}` does not describe a sandbox", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("this process is not in the sandbox of `{}`; start one with `kiln local run --state {} -- COMMAND`", state.display(), state.display())]
    Outside { state: PathBuf },
    #[error("a sandbox of `{}` is already running", state.display())]
    AlreadyRunning { state: PathBuf },
    #[error("a sandbox needs root: it creates namespaces, mounts and network devices")]
    NotRoot,
    /// Setting up the sandbox in any other process would change the mounts and the network of the host.
    #[error("`kiln local init` must be the first process of new namespaces; start a sandbox with `kiln local run`")]
    NotFirst,
    #[error("the machine did not start; the end of its console:\n{console}")]
    NotStarted { console: String },
    #[error("the machine is still running {seconds} s after it was killed")]
    StillRunning { seconds: u64 },
    #[error("no address is left for machine number {number}: a sandbox has {limit}")]
    NoAddress { number: u16, limit: u16 },
    #[error("cannot answer DHCP requests")]
    Dhcp { source: io::Error },
    #[error(transparent)]
    Machine(#[from] kiln_machines::Error),
}

impl SandboxError {
    /// For `map_err` on the results of `std::fs`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// For `map_err` where a program could not be started.
    pub(crate) fn spawn(program: &str) -> impl Fn(io::Error) -> Self + use<'_> {
        move |source| kiln_machines::Error::spawn(program)(source).into()
    }
}
