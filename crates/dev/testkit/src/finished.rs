//! Programs that run to their end, with their output.

use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use kiln_machines::command::wait;
use serde_json::Value;

/// The result of a program.
pub struct Finished {
    command: String,
    /// `None` when a signal ended the program.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Returns this result if the program succeeded, and fails the test otherwise.
    #[track_caller]
    #[must_use]
    pub fn success(self) -> Self {
        assert!(self.code == Some(0), "{self}");
        self
    }

    /// The standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, code, stdout, stderr } = self;
        let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        write!(f, "`{command}` ended with {code}\n-- stdout\n{stdout}\n-- stderr\n{stderr}")
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs a program without standard input. A program that does not end in time is killed and fails the test, which shows its output.
#[track_caller]
pub fn run(mut command: Command, deadline: Duration) -> Finished {
    let line = redacted(&command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("`{line}`: {error}"));
    let read = |mut stream: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // The output before a read error is still shown.
            let _ = stream.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = child.stdout.take().map(|stream| read(Box::new(stream)));
    let stderr = child.stderr.take().map(|stream| read(Box::new(stream)));
    let status = wait(&mut child, deadline).unwrap_or_else(|error| panic!("`{line}`: {error}"));
    if status.is_none() {
        child.kill().and_then(|()| child.wait()).unwrap_or_else(|error| panic!("killing `{line}`: {error}"));
    }
    let text = |thread: Option<thread::JoinHandle<String>>| thread.and_then(|t| t.join().ok()).unwrap_or_default();
    let finished = Finished {
        command: line,
        code: status.and_then(|status| status.code()),
        stdout: text(stdout),
        stderr: text(stderr),
    };
    assert!(status.is_some(), "did not end within {} s: {finished}", deadline.as_secs());
    finished
}

/// The command line without secrets.
fn redacted(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    let mut secret = false;
    for word in command.get_args() {
        let word = word.to_string_lossy();
        words.push(if secret { "***".to_owned() } else { word.clone().into_owned() });
        secret = ["-p", "--password", "--client-secret"].contains(&word.as_ref());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn shell(script: &str, deadline: Duration) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, deadline)
    }

    #[test]
    fn code_and_both_outputs_are_kept() {
        let finished = shell("echo out; echo err >&2; exit 3", LONG);
        assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (Some(3), "out\n", "err\n"));
    }

    #[test]
    #[should_panic(expected = "the reason")]
    fn failure_shows_the_output() {
        let _ = shell("echo the reason >&2; exit 1", LONG).success();
    }

    #[test]
    #[should_panic(expected = "did not end within 0 s")]
    fn program_that_does_not_end_fails_the_test() {
        shell("exec sleep 60", Duration::from_millis(20));
    }

    #[test]
    fn secret_on_the_command_line_is_redacted() {
        let mut command = Command::new("az");
        command.args(["login", "--password", "hunter2", "--tenant", "t"]);
        assert_eq!(redacted(&command), "az login --password *** --tenant t");
    }
}
