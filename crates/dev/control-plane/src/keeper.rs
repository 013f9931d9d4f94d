//! Keepers: one small shell per server, which stops it when the last user has gone (`keep.sh`).

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::poll;
use crate::{Component, Error};

const KEEP: &str = include_str!("keep.sh");

/// Starts a server with its keeper and waits until its process is known.
pub(crate) fn spawn(
    component: Component,
    program: &Path,
    arguments: &[String],
    folder: &Path,
    session: Option<&Path>,
) -> Result<Child, Error> {
    let users = folder.join("users.lock");
    let log = folder.join(format!("{component}.log"));
    let output = OpenOptions::new().create(true).append(true).open(&log).map_err(Error::file(&log))?;
    // A pid file of an earlier start would be taken for the new one.
    let _ = fs::remove_file(pid_file(folder, component));
    let mut command = Command::new("sh");
    command
        .args(["-c", KEEP, "keep", component.program()])
        .arg(folder)
        .arg(session.unwrap_or(&users))
        .arg(program)
        .args(arguments)
        .current_dir("/")
        // No proxy and no cloud of the developer's: a server here speaks to loopback alone.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        // Ctrl-C at a terminal ends the test; the keeper must survive it to clean up.
        .process_group(0);
    let mut child = command.spawn().map_err(|source| Error::Command { line: "sh".to_owned(), source })?;
    let file = pid_file(folder, component);
    let known = poll(Duration::from_millis(5), Duration::from_secs(30), || {
        Ok(if file.exists() { Some(true) } else { child.try_wait().ok().flatten().map(|_| false) })
    })?;
    match known {
        Some(true) => Ok(child),
        _ => Err(not_ready(component, folder, "could not be started by `sh`, `setpriv` and `flock` (util-linux)")),
    }
}

/// The error of a server that is not ready, with the end of its log.
pub(crate) fn not_ready(component: Component, folder: &Path, what: impl Into<String>) -> Error {
    let log = folder.join(format!("{component}.log"));
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    Error::NotReady { component, what: what.into(), log, tail }
}

fn pid_file(folder: &Path, component: Component) -> PathBuf {
    folder.join(format!("{component}.pid"))
}

/// The server's process and its keeper's.
pub(crate) fn pair(folder: &Path, component: Component) -> Option<(Process, Process)> {
    match recorded(&pid_file(folder, component))[..] {
        [server, keeper] if server.is_of(folder) => Some((server, keeper)),
        _ => None,
    }
}

/// Forgets a server that has been stopped on purpose.
pub(crate) fn forget(folder: &Path, component: Component) {
    let _ = fs::remove_file(pid_file(folder, component));
}

/// The processes that a pid file names.
pub(crate) fn recorded(pid_file: &Path) -> Vec<Process> {
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::from_raw)).map(Process).collect()
}

/// A process that a pid file names. It may be gone, and its number somebody else's: ask [`Process::is_of`] first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(Pid);

impl Process {
    pub(crate) fn id(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Whether it runs and its command line names something below this folder. That of a dead process is empty.
    pub(crate) fn is_of(self, folder: &Path) -> bool {
        let folder = folder.as_os_str().as_encoded_bytes();
        // In the middle of an exec a living process has no command line either, for as long as the disk takes to give the program.
        let line = poll(Duration::from_millis(10), Duration::from_secs(10), || {
            let line = fs::read(format!("/proc/{}/cmdline", self.id())).unwrap_or_default();
            Ok((!line.is_empty() || !self.lives()).then_some(line))
        });
        let line = line.ok().flatten().unwrap_or_default();
        line.windows(folder.len()).any(|window| window == folder)
    }

    /// Whether there is a process of this number that has not ended.
    fn lives(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The name stands in brackets and may hold anything; the state follows the last of them.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X') || self.threads() > 1)
    }

    /// The first thread of a killed process is dead before the others: as long as one is left, so are its files and its ports.
    fn threads(self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.id())).map_or(0, Iterator::count)
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(self, signal: Signal) {
        // It fails only for a process that is gone, which is what was wanted.
        let _ = kill_process(self.0, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(child: &Child) -> Process {
        Process(Pid::from_child(child))
    }

    #[test]
    fn a_process_is_told_by_its_command_line_until_it_has_ended() {
        let folder = Path::new("/nowhere/plane");
        let mut child =
            Command::new("sh").args(["-c", "read line", "keep"]).arg(folder).stdin(Stdio::piped()).spawn().unwrap();
        let process = process(&child);
        assert!(process.is_of(folder) && process.lives());
        assert!(!process.is_of(Path::new("/nowhere/else")));
        drop(child.stdin.take());
        // Ended and not collected: its number is taken, and it is nobody's any more.
        poll(Duration::from_millis(5), Duration::from_secs(30), || Ok((!process.lives()).then_some(())))
            .unwrap()
            .unwrap();
        assert!(!process.is_of(folder));
        child.wait().unwrap();
        assert!(!process.is_of(folder));
    }
}
