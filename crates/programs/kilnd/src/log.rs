//! The log of a command: one line per step with its duration, on standard error. Under systemd that is the log.

use std::cell::RefCell;
use std::error::Error;
use std::io::Write as _;

use crate::status::StepTime;

/// Microseconds since boot, including time in suspension.
pub type Usec = u64;

/// How many steps and warnings are kept for the status. `kilnd watch` runs for months and must not grow.
const KEPT: usize = 256;

/// Separates the message of an error from its hint.
const HINT: &str = "\nhint: ";

/// Syslog severities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Writes log lines, and collects steps and warnings for the status.
#[derive(Debug)]
pub struct Log {
    now: fn() -> Usec,
    /// Whether lines start with their level, as `<6>`; none to write nothing.
    levels: Option<bool>,
    steps: RefCell<Vec<StepTime>>,
    warnings: RefCell<Vec<String>>,
}

impl Log {
    /// A log with this clock. `levels`: standard error is connected to the log.
    pub fn new(now: fn() -> Usec, levels: bool) -> Self {
        Self { now, levels: Some(levels), steps: RefCell::default(), warnings: RefCell::default() }
    }

    /// A log that only collects.
    pub fn silent(now: fn() -> Usec) -> Self {
        Self { levels: None, ..Self::new(now, false) }
    }

    /// The current time.
    pub fn now(&self) -> Usec {
        (self.now)()
    }

    /// Executes a step, logs its duration and records it.
    pub fn step<T, E: Error>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = self.now();
        let result = work();
        let took = self.now().saturating_sub(started);
        match &result {
            Ok(_) => self.line(Level::Info, &format!("{name}: {}", milliseconds(took))),
            Err(error) => {
                let causes = error_line(error);
                self.line(Level::Error, &format!("{name}: failed after {}: {causes}", milliseconds(took)));
            }
        }
        let mut steps = self.steps.borrow_mut();
        if steps.len() >= KEPT {
            steps.remove(0);
        }
        steps.push(StepTime { name: name.to_owned(), started_usec: started, took_usec: took, ok: result.is_ok() });
        result
    }

    /// Logs a line.
    pub fn info(&self, line: &str) {
        self.line(Level::Info, line);
    }

    /// Logs a warning, once, and keeps it for the status.
    pub fn warn(&self, line: impl Into<String>) {
        let line = line.into().replace(HINT, "; ");
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&line) {
            self.line(Level::Warning, &line);
            warnings.push(line);
            let excess = warnings.len().saturating_sub(KEPT);
            warnings.drain(..excess);
        }
    }

    /// Logs an error line.
    pub fn error(&self, line: &str) {
        self.line(Level::Error, line);
    }

    /// Logs an error with its causes, and its hints on separate lines.
    pub fn report(&self, error: &dyn Error) {
        self.error(&format!("error: {}", error_line(error)));
        for hint in error_hints(error) {
            self.error(&format!("hint: {hint}"));
        }
    }

    /// Takes the steps since the last call.
    pub fn take_steps(&self) -> Vec<StepTime> {
        self.steps.take()
    }

    /// Takes the warnings since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    fn line(&self, level: Level, line: &str) {
        let Some(levels) = self.levels else { return };
        let prefix = if levels { format!("<{}>", level as u8) } else { String::new() };
        // One write: standard error is not buffered.
        let text = format!("{prefix}{}\n", line.replace(HINT, "; ").replace('\n', " "));
        // A node must not stay without its kubelet because the log cannot be written.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

fn milliseconds(usec: Usec) -> String {
    format!("{}.{:03} ms", usec / 1000, usec % 1000)
}

/// The messages of an error and its causes, outermost first, without their hints.
pub fn error_chain(error: &dyn Error) -> Vec<String> {
    split_hints(error).into_iter().map(|(message, _)| message).collect()
}

/// The messages of an error and its causes in one line, without their hints.
pub fn error_line(error: &dyn Error) -> String {
    error_chain(error).join(": ")
}

/// The hints of an error and its causes, outermost first.
pub fn error_hints(error: &dyn Error) -> Vec<String> {
    split_hints(error).into_iter().filter_map(|(_, hint)| hint).collect()
}

/// Message and hint of each error in a chain.
fn split_hints(error: &dyn Error) -> Vec<(String, Option<String>)> {
    let split = |text: String| match text.split_once(HINT) {
        Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
        None => (text, None),
    };
    kiln_types::error_chain::messages(error).into_iter().map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_warnings_are_kept_until_they_are_taken() {
        let log = Log::silent(|| 7);
        assert!(matches!(log.step("write", || Ok::<_, std::io::Error>(5)), Ok(5)));
        assert!(log.step("flip", || Err::<(), _>(std::io::Error::other("no room"))).is_err());
        log.warn("a file was edited");
        log.warn("a file was edited");
        let steps: Vec<_> = log.take_steps().into_iter().map(|step| (step.name, step.started_usec, step.ok)).collect();
        assert_eq!(steps, [("write".to_owned(), 7, true), ("flip".to_owned(), 7, false)]);
        assert_eq!(log.take_warnings(), ["a file was edited"]);
        assert!(log.take_steps().is_empty() && log.take_warnings().is_empty());
    }

    #[test]
    fn error_chain_lists_causes_and_separates_hints() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write\nhint: free space")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk gone"));
        assert_eq!(error_chain(&error), ["cannot write", "disk gone"]);
        assert_eq!(error_hints(&error), ["free space"]);
        assert_eq!(milliseconds(1_234), "1.234 ms");
    }
}
