//! Supervisors: one small shell per server that stops it after the last user has gone (`supervise.sh`).

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::poll;
use crate::{Component, Error};

const SUPERVISE: &str = include_str!("supervise.sh");

/// Starts a server with its supervisor and waits until its process ID is known.
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
    // A pid file of an earlier start would be mistaken for the new one.
    let _ = fs::remove_file(pid_file(folder, component));
    let mut command = Command::new("sh");
    command
        .args(["-c", SUPERVISE, "supervise", component.program()])
        .arg(folder)
        .arg(session.unwrap_or(&users))
        .arg(program)
        .args(arguments)
        .current_dir("/")
        // No proxy and no cloud settings of the developer: the servers only use loopback.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        // Ctrl-C in a terminal ends the test; the supervisor must survive it to clean up.
        .process_group(0);
    let mut child = command.spawn().map_err(|source| Error::Command { line: "sh".to_owned(), source })?;
    let file = pid_file(folder, component);
    let known = poll(Duration::from_millis(5), Duration::from_secs(30), || {
        Ok(if file.exists() { Some(true) } else { child.try_wait().ok().flatten().map(|_| false) })
    })?;
    match known {
        Some(true) => Ok(child),
        _ => Err(not_ready(component, folder, "could not be started with `sh`, `setpriv` and `flock` (util-linux)")),
    }
}

/// The error of a server that is not ready, with the end of its log.
pub(crate) fn not_ready(component: Component, folder: &Path, problem: impl Into<String>) -> Error {
    let log = folder.join(format!("{component}.log"));
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    Error::NotReady { component, problem: problem.into(), log, tail }
}

fn pid_file(folder: &Path, component: Component) -> PathBuf {
    folder.join(format!("{component}.pid"))
}

/// The processes of a server and its supervisor.
pub(crate) fn pair(folder: &Path, component: Component) -> Option<(Process, Process)> {
    match read_pids(&pid_file(folder, component))[..] {
        [server, supervisor] if server.is_of(folder) => Some((server, supervisor)),
        _ => None,
    }
}

/// Removes the pid file of a server that was stopped on purpose.
pub(crate) fn forget(folder: &Path, component: Component) {
    let _ = fs::remove_file(pid_file(folder, component));
}

/// The processes in a pid file.
pub(crate) fn read_pids(pid_file: &Path) -> Vec<Process> {
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::from_raw)).map(Process).collect()
}

/// A process from a pid file. It may have ended and its ID may be reused, so check [`Process::is_of`] first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(Pid);

impl Process {
    pub(crate) fn id(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Whether it runs and its command line contains a path below this folder. The command line of a dead process is empty.
    pub(crate) fn is_of(self, folder: &Path) -> bool {
        let folder = folder.as_os_str().as_encoded_bytes();
        // During exec a process has no command line until the program is loaded from disk.
        let line = poll(Duration::from_millis(10), Duration::from_secs(10), || {
            let line = fs::read(format!("/proc/{}/cmdline", self.id())).unwrap_or_default();
            Ok((!line.is_empty() || !self.is_running()).then_some(line))
        });
        let line = line.ok().flatten().unwrap_or_default();
        line.windows(folder.len()).any(|window| window == folder)
    }

    /// Whether the process exists and has not ended.
    fn is_running(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The name is in parentheses and may contain anything; the state follows the last parenthesis.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X') || self.threads() > 1)
    }

    /// The main thread of a killed process ends before the others. Until the last thread ends, its files and ports stay in use.
    fn threads(self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.id())).map_or(0, Iterator::count)
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(self, signal: Signal) {
        // It only fails if the process has already ended.
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
    fn process_is_identified_by_its_command_line_until_it_has_ended() {
        let folder = Path::new("/nowhere/plane");
        let mut child =
            Command::new("sh").args(["-c", "read line", "keep"]).arg(folder).stdin(Stdio::piped()).spawn().unwrap();
        let process = process(&child);
        assert!(process.is_of(folder) && process.is_running());
        assert!(!process.is_of(Path::new("/nowhere/else")));
        drop(child.stdin.take());
        // Ended but not reaped: its ID is still in use, but it no longer belongs to the folder.
        poll(Duration::from_millis(5), Duration::from_secs(30), || Ok((!process.is_running()).then_some(())))
            .unwrap()
            .unwrap();
        assert!(!process.is_of(folder));
        child.wait().unwrap();
        assert!(!process.is_of(folder));
    }
}
