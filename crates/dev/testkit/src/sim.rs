//! The built `kiln`, and the embedded Azure in it.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use kiln_machines::command::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clients::seal;
use crate::{Finished, run};

/// The limit for a server to become ready. A debug build takes seconds to create its certificates on a busy host.
const READY: Duration = Duration::from_mins(1);

/// The limit between SIGTERM and SIGKILL.
const END: Duration = Duration::from_secs(10);

/// The built program. Cargo gives its path only to tests of the same package: `Kiln::at(env!("CARGO_BIN_EXE_kiln"))` in
/// `crates/programs/kiln/tests`.
#[derive(Clone, Debug)]
pub struct Kiln {
    binary: PathBuf,
}

impl Kiln {
    /// The program at this path.
    pub fn at(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into() }
    }

    /// A command that runs it, without the developer's cloud settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        seal(&mut command);
        command
    }

    /// Runs it to its end. The caller checks whether it failed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Finished {
        run(self.command(arguments), READY)
    }

    /// Starts `kiln sim serve` with these arguments.
    #[track_caller]
    pub fn sim(&self, arguments: &[&str]) -> SimProcess {
        SimProcess::start(&self.binary, arguments)
    }
}

/// A running `kiln sim serve`. It is stopped when this value is dropped, with SIGTERM and then SIGKILL.
pub struct SimProcess {
    child: Child,
    ready: Value,
    stderr: Arc<Mutex<String>>,
}

impl SimProcess {
    /// Starts it and waits for its ready line.
    #[track_caller]
    pub fn start(binary: &Path, arguments: &[&str]) -> Self {
        Self::start_within(binary, arguments, READY)
    }

    #[track_caller]
    fn start_within(binary: &Path, arguments: &[&str], deadline: Duration) -> Self {
        let mut command = Command::new(binary);
        command.args(["sim", "serve"]).args(arguments);
        seal(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let first_line = child.stdout.take().map(first_line);
        let stderr = Arc::new(Mutex::new(String::new()));
        if let Some(stream) = child.stderr.take() {
            collect(stream, Arc::clone(&stderr));
        }
        let mut process = Self { child, ready: Value::Null, stderr };
        let line = first_line.and_then(|line| line.recv_timeout(deadline).ok());
        let Some(line) = line else { panic!("no ready line within {} s; {}", deadline.as_secs(), process.ended()) };
        process.ready = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!("the ready line is not JSON ({error}): {line:?}; {}", process.ended());
        });
        process
    }

    /// The ready line.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// A string of the ready line: `arm`, `caFile`, `clientSecret`.
    #[track_caller]
    pub fn key(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_else(|| panic!("the ready line has no text `{key}`; it has {}", self.keys()))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops it with SIGTERM, as a service manager does. Returns `None` if it had to be killed.
    pub fn terminate(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
        let status = wait(&mut self.child, END).ok().flatten();
        if status.is_none() {
            self.kill();
        }
        status
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The keys of the ready line. Its values contain a secret.
    fn keys(&self) -> String {
        let keys = self.ready.as_object().into_iter().flat_map(|map| map.keys().map(String::as_str));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Stops a process that failed to start, and describes its end.
    fn ended(&mut self) -> String {
        // A process that has closed its output is about to end, and its exit code says more than a kill.
        let status = wait(&mut self.child, Duration::from_secs(1)).ok().flatten();
        self.kill();
        let status = status.map_or_else(|| "it was still running".to_owned(), |status| status.to_string());
        // The end of the log may still be in the pipe.
        thread::sleep(Duration::from_millis(50));
        format!("{status}; stderr:\n{}", self.stderr())
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        self.terminate();
        if thread::panicking() {
            eprintln!("-- stderr of `kiln sim serve`\n{}", self.stderr());
        }
    }
}

impl fmt::Debug for SimProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimProcess").field("id", &self.id()).field("ready", &self.keys()).finish_non_exhaustive()
    }
}

/// The first line of a stream. The rest is read and dropped, so that the writer never blocks.
fn first_line(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        if let Some(line) = lines.next() {
            // The receiver is gone after the deadline.
            let _ = sender.send(line);
        }
        drop(sender);
        lines.for_each(drop);
    });
    receiver
}

fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = into.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&line);
            text.push('\n');
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn fake_kiln() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-kiln")
    }

    fn is_alive(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn process_ends_with_the_value() {
        let sim = Kiln::at(fake_kiln()).sim(&["serves"]);
        assert_eq!(sim.key("arm"), "https://localhost:1");
        let id = sim.id();
        assert!(is_alive(id));
        drop(sim);
        assert!(!is_alive(id));
    }

    #[test]
    fn debug_output_has_no_secret() {
        let sim = SimProcess::start(&fake_kiln(), &["serves"]);
        assert_eq!(sim.key("clientSecret"), "hunter2");
        let debug = format!("{sim:?}");
        assert!(debug.contains("clientSecret") && !debug.contains("hunter2"), "{debug}");
    }

    #[test]
    fn clean_stop_on_sigterm_differs_from_death_by_signal() {
        let status = SimProcess::start(&fake_kiln(), &["stops-cleanly"]).terminate().unwrap();
        assert_eq!(status.code(), Some(0));
        let status = SimProcess::start(&fake_kiln(), &["serves"]).terminate().unwrap();
        assert_eq!(status.signal(), Some(15));
    }

    #[test]
    fn log_of_a_server_is_kept() {
        let sim = SimProcess::start(&fake_kiln(), &["serves", "--seed", "7"]);
        // The log and the ready line are in different pipes.
        while sim.stderr().is_empty() {
            thread::yield_now();
        }
        assert_eq!(sim.stderr(), "args sim serve serves --seed 7\n");
    }

    #[test]
    #[should_panic(expected = "port 8443 is in use")]
    fn server_that_ends_early_fails_with_its_log() {
        SimProcess::start(&fake_kiln(), &["dies"]);
    }

    #[test]
    #[should_panic(expected = "the ready line is not JSON")]
    fn server_with_another_first_line_fails() {
        SimProcess::start(&fake_kiln(), &["chats"]);
    }

    #[test]
    #[should_panic(expected = "no ready line within 0 s; it was still running")]
    fn server_that_never_becomes_ready_fails() {
        SimProcess::start_within(&fake_kiln(), &["hangs"], Duration::from_millis(20));
    }

    #[test]
    #[should_panic(expected = "the ready line has no text `imds`; it has arm, clientSecret")]
    fn missing_key_is_reported_with_the_existing_keys() {
        SimProcess::start(&fake_kiln(), &["serves"]).key("imds");
    }
}
