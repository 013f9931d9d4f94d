//! What a command says while it works: a line per step with its time, on standard error, which is the journal where systemd started us.

use std::cell::RefCell;
use std::error::Error;
use std::io::Write as _;

use crate::status::StepTime;

/// Microseconds since the machine started, time in suspension included.
pub type Usec = u64;

/// How many steps are remembered. A program that runs for months and reports seldom must not grow; no command has as many.
const REMEMBERED: usize = 256;

/// How loud a line is, in the numbers of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Collects steps and says them.
#[derive(Debug)]
pub struct Journal {
    now: fn() -> Usec,
    /// Whether the reader takes `<6>` in front of a line for its level; nobody reads without it.
    levels: Option<bool>,
    steps: RefCell<Vec<StepTime>>,
    warnings: RefCell<Vec<String>>,
}

impl Journal {
    /// A journal on this clock. `levels`: the reader is systemd's journal.
    pub fn new(now: fn() -> Usec, levels: bool) -> Self {
        Self { now, levels: Some(levels), steps: RefCell::default(), warnings: RefCell::default() }
    }

    /// A journal that collects and says nothing.
    pub fn silent(now: fn() -> Usec) -> Self {
        Self { levels: None, ..Self::new(now, false) }
    }

    /// The time.
    pub fn now(&self) -> Usec {
        (self.now)()
    }

    /// Does a step, says how long it took and remembers it.
    pub fn step<T, E: Error>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = self.now();
        let result = work();
        let took = self.now().saturating_sub(started);
        match &result {
            Ok(_) => self.line(Level::Info, &format!("{name}: {}", milliseconds(took))),
            Err(error) => {
                let causes = chain(error).join(": ");
                self.line(Level::Error, &format!("{name}: failed after {}: {causes}", milliseconds(took)));
            }
        }
        let mut steps = self.steps.borrow_mut();
        if steps.len() >= REMEMBERED {
            steps.remove(0);
        }
        steps.push(StepTime { name: name.to_owned(), started_usec: started, took_usec: took, ok: result.is_ok() });
        result
    }

    /// Says something that is as it should be.
    pub fn say(&self, line: &str) {
        self.line(Level::Info, line);
    }

    /// Says something that does no harm and that somebody should know. It stays in the status.
    pub fn warn(&self, line: impl Into<String>) {
        let line = line.into();
        // What is looked at twice is said once.
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&line) {
            self.line(Level::Warning, &line);
            warnings.push(line);
            let excess = warnings.len().saturating_sub(REMEMBERED);
            warnings.drain(..excess);
        }
    }

    /// Says what went wrong.
    pub fn fail(&self, line: &str) {
        self.line(Level::Error, line);
    }

    /// The steps since it was last asked.
    pub fn take_steps(&self) -> Vec<StepTime> {
        self.steps.take()
    }

    /// The warnings since it was last asked.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    fn line(&self, level: Level, line: &str) {
        let Some(levels) = self.levels else { return };
        let prefix = if levels { format!("<{}>", level as u8) } else { String::new() };
        // In one piece: standard error has no memory, and each piece is a call.
        let text = format!("{prefix}{}\n", line.replace('\n', " "));
        // A journal that cannot be written to is no reason to leave a node without its kubelet.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

fn milliseconds(usec: Usec) -> String {
    format!("{}.{:03} ms", usec / 1000, usec % 1000)
}

/// An error with everything under it, outermost first.
pub fn chain(error: &dyn Error) -> Vec<String> {
    let mut all = vec![error.to_string()];
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        // Transparent errors say the same twice.
        if all.last() != Some(&text) {
            all.push(text);
        }
        source = inner.source();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_warnings_are_remembered_until_they_are_asked_for() {
        let journal = Journal::silent(|| 7);
        assert!(matches!(journal.step("write", || Ok::<_, std::io::Error>(5)), Ok(5)));
        assert!(journal.step("flip", || Err::<(), _>(std::io::Error::other("no room"))).is_err());
        journal.warn("a file was edited");
        journal.warn("a file was edited");
        let steps: Vec<_> =
            journal.take_steps().into_iter().map(|step| (step.name, step.started_usec, step.ok)).collect();
        assert_eq!(steps, [("write".to_owned(), 7, true), ("flip".to_owned(), 7, false)]);
        assert_eq!(journal.take_warnings(), ["a file was edited"]);
        assert!(journal.take_steps().is_empty() && journal.take_warnings().is_empty());
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk gone"));
        assert_eq!(chain(&error), ["cannot write", "disk gone"]);
        assert_eq!(milliseconds(1_234), "1.234 ms");
    }
}
