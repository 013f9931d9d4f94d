//! Programs that run to their end.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::Error;

/// The number of lines of a failed program's output that an error shows.
const SHOWN: usize = 20;

/// Poll interval while waiting for a child.
const TICK: Duration = Duration::from_millis(10);

/// Runs a command without standard input. The error has the end of its output.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::spawn(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let output_end = tail(String::from_utf8_lossy(&text).trim(), SHOWN);
    Err(Error::Failed { line: command_line(command), status: output.status.to_string(), output: output_end })
}

/// The program and its arguments, separated by spaces.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Waits for a child; `None` when it still runs after the deadline.
pub fn wait(child: &mut Child, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= deadline {
            return Ok(None);
        }
        thread::sleep(TICK);
        waited += TICK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_shows_the_command_line_and_its_output() {
        let mut command = Command::new("sh");
        let error = run(command.args(["-c", "echo reason; exit 3"])).unwrap_err().to_string();
        assert_eq!(error, "`sh -c echo reason; exit 3` failed (exit status: 3): reason");
        assert!(
            matches!(run(&mut Command::new("/nowhere")), Err(Error::Spawn { program, .. }) if program == "/nowhere")
        );
    }

    #[test]
    fn tail_has_the_last_lines() {
        assert_eq!((tail("a\nb\nc", 2).as_str(), tail("a", 2).as_str()), ("b\nc", "a"));
    }
}
