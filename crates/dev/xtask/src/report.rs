//! What a run of the suite says at its end.

use std::fmt::Write as _;
use std::time::Duration;

/// The parts of a run, in order.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    passed: usize,
    failed: usize,
}

#[derive(Debug)]
struct Row {
    part: &'static str,
    time: Duration,
    note: String,
    trouble: Option<Trouble>,
}

/// What went wrong in a part.
#[derive(Debug, PartialEq, Eq)]
pub struct Trouble {
    /// In a few words.
    pub what: String,
    /// The commands that run it again.
    pub again: Vec<String>,
}

impl Trouble {
    /// One trouble with one command that runs it again.
    pub fn new(what: impl Into<String>, again: impl Into<String>) -> Self {
        Self { what: what.into(), again: vec![again.into()] }
    }
}

impl Report {
    /// Adds a part that does not count tests; a failure counts as one.
    pub fn check(&mut self, part: &'static str, time: Duration, result: Result<String, Trouble>) {
        self.failed += usize::from(result.is_err());
        let (note, trouble) = match result {
            Ok(note) => (note, None),
            Err(trouble) => (trouble.what.clone(), Some(trouble)),
        };
        self.rows.push(Row { part, time, note, trouble });
    }

    /// Adds a part that counts tests.
    pub fn tests(
        &mut self,
        part: &'static str,
        time: Duration,
        passed: usize,
        failed: usize,
        trouble: Option<Trouble>,
    ) {
        self.passed += passed;
        // A run that ended badly never reads as "0 failed".
        let failed = failed.max(usize::from(trouble.is_some()));
        self.failed += failed;
        self.rows.push(Row { part, time, note: format!("{passed} passed, {failed} failed"), trouble });
    }

    /// Everything held.
    pub fn is_well(&self) -> bool {
        self.failed == 0
    }

    /// The table, what to run again, and the closing line.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let width = self.rows.iter().map(|row| row.part.len()).max().unwrap_or(0);
        for row in &self.rows {
            let verdict = if row.trouble.is_some() { "FAILED" } else { "ok" };
            let seconds = row.time.as_secs_f64();
            let line = format!("{:width$}  {verdict:6}  {seconds:>7.1} s  {}", row.part, row.note);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for row in &self.rows {
            let Some(trouble) = &row.trouble else { continue };
            let _ = writeln!(text, "\n{} failed: {}", row.part, trouble.what);
            for command in &trouble.again {
                let _ = writeln!(text, "  again: {command}");
            }
        }
        let _ = write!(text, "\n{} passed, {} failed\n", self.passed, self.failed);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_good_run_closes_with_the_count_alone_on_its_line() {
        let mut report = Report::default();
        report.check("format", SECOND, Ok(String::new()));
        report.tests("tests", 12 * SECOND, 41, 0, None);
        report.tests("documentation", SECOND, 1, 0, None);
        assert!(report.is_well());
        assert_eq!(
            report.render(),
            "\
format         ok          1.0 s
tests          ok         12.0 s  41 passed, 0 failed
documentation  ok          1.0 s  1 passed, 0 failed

42 passed, 0 failed
"
        );
    }

    #[test]
    fn a_failed_part_is_named_with_the_command_that_runs_it_again() {
        let mut report = Report::default();
        report.check("format", SECOND, Err(Trouble::new("files are not formatted", "cargo fmt --all")));
        report.tests(
            "tests",
            SECOND,
            40,
            2,
            Some(Trouble::new("2 tests failed", "cargo test -p kiln-sim-azure --lib")),
        );
        assert!(!report.is_well());
        assert_eq!(
            report.render(),
            "\
format  FAILED      1.0 s  files are not formatted
tests   FAILED      1.0 s  40 passed, 2 failed

format failed: files are not formatted
  again: cargo fmt --all

tests failed: 2 tests failed
  again: cargo test -p kiln-sim-azure --lib

40 passed, 3 failed
"
        );
    }

    #[test]
    fn trouble_without_a_failed_test_still_counts() {
        let mut report = Report::default();
        report.tests("tests", SECOND, 40, 0, Some(Trouble::new("cargo failed", "cargo test")));
        assert!(report.render().ends_with("\n40 passed, 1 failed\n"));
    }
}
