//! Private namespaces: new mounts, processes and network for a program and everything that it starts.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::network::NetworkNamespace;
use crate::processes::children;
use crate::{Error, command};

const KEEPER: &str = concat!(include_str!("groups.sh"), include_str!("keeper.sh"));

/// Far longer than creating or removing namespaces takes, also on a host that compiles on every core.
const DEADLINE: Duration = Duration::from_mins(1);

/// A command that runs `program` in new mount, process and network namespaces. Whatever the program starts, mounts or listens on ends with
/// it, and it ends with this process, also when this process is killed.
///
/// `--kill-child` alone ends the program when `unshare` dies, but `unshare` itself would not notice the death of its parent; `setpriv` makes
/// the kernel signal it.
pub fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"]);
    command.arg(program);
    command
}

/// A command that runs its arguments as [`isolated`] does, and in the control group `{prefix}-{process id}` of every hierarchy. It removes
/// the groups when the last process has ended. Append the program and its arguments.
pub fn isolated_in_group(group: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "keeper", group]);
    command
}

/// The name of a control group of this process, for [`isolated_in_group`].
pub fn group_name(prefix: &str) -> String {
    format!("{prefix}-{}", std::process::id())
}

/// Namespaces that exist as long as this value. Their first process holds them and ends with its standard input, so that they also end when
/// this process is killed.
#[derive(Debug)]
pub struct Namespaces {
    keeper: Child,
    first: u32,
}

impl Namespaces {
    /// Creates namespaces. `script` runs as their first process: it must print `ready`, then read its standard input to the end.
    pub fn create(group: &str, script: &str, arguments: &[&OsStr]) -> Result<Self, Error> {
        let failed = || Error::NoNamespaces { name: group.to_owned() };
        let mut keeper = isolated_in_group(group);
        keeper.args(["sh", "-c", script, "hold"]).args(arguments).current_dir("/");
        // In a process group of its own, Ctrl-C in a terminal does not reach the machine before its owner.
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut keeper = keeper.spawn().map_err(Error::spawn("sh"))?;
        let output = keeper.stdout.take().ok_or_else(failed)?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
        let mut namespaces = Self { keeper, first: 0 };
        if lines.recv_timeout(DEADLINE).ok().as_deref() != Some("ready\n") {
            return Err(failed());
        }
        let unshare = children(namespaces.keeper.id()).into_iter().next();
        namespaces.first = unshare.and_then(|unshare| children(unshare).into_iter().next()).ok_or_else(failed)?;
        Ok(namespaces)
    }

    /// A path as the first process sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }

    /// The network namespace.
    pub fn network(&self) -> NetworkNamespace {
        NetworkNamespace::of_process(self.first)
    }

    /// A command that runs its arguments in the namespaces.
    pub fn command(&self) -> Command {
        enter(self.first, &["--mount", "--net", "--pid"])
    }

    /// Ends every process in the namespaces, and waits for it.
    pub fn close(&mut self) {
        drop(self.keeper.stdin.take());
        if !matches!(command::wait(&mut self.keeper, DEADLINE), Ok(Some(_))) {
            let _ = self.keeper.kill().and_then(|()| self.keeper.wait());
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.close();
    }
}

/// A command that runs its arguments in namespaces of a process, which are named as options of `nsenter`.
pub fn enter(process: u32, namespaces: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &process.to_string()]).args(namespaces).arg("--");
    command
}
