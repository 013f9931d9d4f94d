//! The processes around a machine: one that holds its control groups, one that holds its namespaces.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::processes::children;
use crate::finished::wait;

/// Far more than making or ending anything here takes: whoever waits longer hangs.
const DEADLINE: Duration = Duration::from_mins(1);

/// The processes around a machine.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    inside: u32,
    said: Receiver<String>,
    pub(super) name: String,
}

impl Keeper {
    /// Makes namespaces and disk of a machine.
    #[track_caller]
    pub(super) fn start(name: &str, root: &Path, arguments: &[String]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let mut command = Command::new("sh");
        command
            .args(["-c", include_str!("keeper.sh"), "keeper", &format!("kiln-{name}"), "-c"])
            .args([include_str!("inside.sh"), "inside"])
            .arg(root)
            .arg(&name)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut process = command.spawn().unwrap_or_else(|error| panic!("sh: {error}"));
        let output = process.stdout.take().expect("it was asked for");
        let (say, said) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| say.send(line)).take_while(Result::is_ok).count();
        });
        let mut keeper = Self { process, inside: 0, said, name };
        keeper.expect("ready");
        let unshare = children(keeper.process.id()).into_iter().next();
        keeper.inside = unshare.and_then(|unshare| children(unshare).into_iter().next()).expect("it is ready");
        keeper
    }

    /// The process whose namespaces the machine's are in, by our own count.
    pub(super) fn inside(&self) -> u32 {
        self.inside
    }

    /// A path as that process sees it.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.inside))
    }

    /// Tells it something.
    #[track_caller]
    pub(super) fn tell(&mut self, word: &str) {
        let input = self.process.stdin.as_mut().expect("open until it is dropped");
        writeln!(input, "{word}").unwrap_or_else(|error| panic!("the keeper of {} is gone: {error}", self.name));
    }

    /// Waits until it says something that begins like this; gives the rest.
    #[track_caller]
    pub(super) fn expect(&self, beginning: &str) -> String {
        let Ok(line) = self.said.recv_timeout(DEADLINE) else {
            panic!("the keeper of {} did not say `{beginning}`: are we root?", self.name)
        };
        let rest = line.strip_prefix(beginning);
        rest.unwrap_or_else(|| panic!("the keeper of {} said `{line}`", self.name)).trim().to_owned()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of its input is the end of the machine; then the keeper removes the control groups.
        drop(self.process.stdin.take());
        if wait(&mut self.process, DEADLINE).is_none() {
            let _ = self.process.kill().and_then(|()| self.process.wait());
        }
    }
}
