//! Runs a command and reads its output line by line.

use std::io::{self, BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether the exit code was 0.
    pub success: bool,
    /// A process that it started is still running and has its output open.
    pub left_running: bool,
}

/// How long the output may stay open after the command has ended. The last output of a killed child arrives within milliseconds; the
/// rest is a reserve for a busy machine.
const GRACE: Duration = Duration::from_secs(2);

/// The interval of checks whether a silent command has ended.
const TICK: Duration = Duration::from_millis(50);

/// Runs a command and passes the lines of stdout and stderr to `on_line`, in the order in which they were written.
pub fn stream(mut command: Command, mut on_line: impl FnMut(&str)) -> io::Result<Ending> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command has copies of the writer. The stream ends when the last copy is closed.
    drop(command);

    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut ended: Option<Stopwatch> = None;
    let left_running = loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => on_line(String::from_utf8_lossy(&line).trim_end_matches('\r')),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Stopwatch::start());
        }
        if ended.is_some_and(|since| since.elapsed() > GRACE) {
            break true;
        }
    };
    Ok(Ending { success: child.wait()?.success(), left_running })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Ending, Vec<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let ending = stream(command, |line| lines.push(line.to_owned())).unwrap();
        (ending, lines)
    }

    #[test]
    fn stdout_and_stderr_arrive_in_the_order_of_writing() {
        let (ending, lines) = shell("echo one; echo two >&2; echo three; printf four");
        assert_eq!(lines, ["one", "two", "three", "four"]);
        assert_eq!(ending, Ending { success: true, left_running: false });
    }

    #[test]
    fn failing_command_is_reported() {
        assert_eq!(shell("exit 3").0, Ending { success: false, left_running: false });
    }

    #[test]
    fn process_left_running_is_reported_and_does_not_block() {
        let (ending, lines) = shell("sleep 60 & echo $!");
        assert_eq!(ending, Ending { success: true, left_running: true });
        let killed = Command::new("kill").arg(&lines[0]).status().unwrap();
        assert!(killed.success());
    }
}
