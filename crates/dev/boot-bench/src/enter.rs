//! Namespaces of the lab's own.

use std::ffi::OsStr;
use std::process::Command;

/// A command in namespaces of its own: mounts, processes, network. What it starts, mounts and listens on ends with it, and it ends with
/// whoever started it, also when that one is killed.
///
/// `--kill-child` alone ends what is inside when `unshare` dies; nobody would tell `unshare` that its parent did.
pub fn alone(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"]);
    command.arg(program);
    command
}
