//! The report at the end of a test run.

use std::fmt::Write as _;
use std::time::Duration;

use crate::tally::Tally;

/// The checks of a run, in order.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    passed: usize,
    failed: usize,
    not_run: Vec<NotRun>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    verdict: &'static str,
    time: Duration,
    note: String,
    failure: Option<Failure>,
}

/// Tests of one binary that did not run. A check that did not run has its description as selection and no tests.
#[derive(Debug)]
struct NotRun {
    selection: String,
    tests: Vec<String>,
}

/// The failure of a check.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    /// Commands that run the check again or fix the problem.
    pub commands: Vec<String>,
}

impl Failure {
    /// A failure with one command.
    pub fn new(message: impl Into<String>, command: impl Into<String>) -> Self {
        Self { message: message.into(), commands: vec![command.into()] }
    }
}

impl Report {
    /// Adds a check that does not count tests. Its failure counts as one failed test.
    pub fn check(&mut self, name: &'static str, time: Duration, result: Result<String, Failure>) {
        self.failed += usize::from(result.is_err());
        let (verdict, note, failure) = match result {
            Ok(note) => ("ok", note, None),
            Err(failure) => ("FAILED", failure.message.clone(), Some(failure)),
        };
        self.rows.push(Row { name, verdict, time, note, failure });
    }

    /// Adds a check that did not run. It counts as one test that did not run.
    pub fn check_not_run(&mut self, name: &'static str, what: &str) {
        let row = Row { name, verdict: "NOT RUN", time: Duration::ZERO, note: what.to_owned(), failure: None };
        self.rows.push(row);
        self.not_run.push(NotRun { selection: format!("{name}: {what}"), tests: Vec::new() });
    }

    /// Adds a check that counts tests.
    pub fn tests(&mut self, name: &'static str, time: Duration, tally: &Tally, failure: Option<Failure>) {
        let passed = tally.passed();
        // A run that failed is never reported as "0 failed".
        let failed = tally.failed().max(usize::from(failure.is_some()));
        self.passed += passed;
        self.failed += failed;
        let mut note = format!("{passed} passed, {failed} failed");
        let not_run: usize = tally.binaries.iter().map(|binary| binary.not_run.len()).sum();
        if not_run > 0 {
            let _ = write!(note, ", {not_run} not run");
        }
        for binary in tally.binaries.iter().filter(|binary| !binary.not_run.is_empty()) {
            self.not_run.push(NotRun { selection: binary.selection.clone(), tests: binary.not_run.clone() });
        }
        let verdict = if failure.is_some() { "FAILED" } else { "ok" };
        self.rows.push(Row { name, verdict, time, note, failure });
    }

    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.failed == 0
    }

    /// The table, failures with their commands, tests that did not run, and the closing line.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in &self.rows {
            let seconds = row.time.as_secs_f64();
            let line = format!("{:width$}  {:7}  {seconds:>7.1} s  {}", row.name, row.verdict, row.note);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for row in &self.rows {
            let Some(failure) = &row.failure else { continue };
            let _ = writeln!(text, "\n{} failed: {}", row.name, failure.message);
            for command in &failure.commands {
                let _ = writeln!(text, "  run: {command}");
            }
        }
        let skipped: usize = self.not_run.iter().map(|entry| entry.tests.len().max(1)).sum();
        if skipped > 0 {
            let _ = writeln!(text, "\nnot run, because there is no recorded data (see CONTRIBUTING.md):");
        }
        for NotRun { selection, tests } in &self.not_run {
            let _ = writeln!(text, "  {selection}");
            for test in tests {
                let _ = writeln!(text, "    {test}");
            }
        }
        let _ = write!(text, "\n{} passed, {} failed", self.passed, self.failed);
        if skipped > 0 {
            let _ = write!(text, ", {skipped} skipped");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Binary;

    const SECOND: Duration = Duration::from_secs(1);

    fn tally(passed: usize, failed: usize, not_run: &[&str]) -> Tally {
        let mut binary = Binary::new("it", "-p kiln-azure --test it");
        binary.line(&format!("test result: ok. {passed} passed; {failed} failed; 0 ignored; 0 measured"));
        binary.not_run = not_run.iter().map(|name| (*name).to_owned()).collect();
        Tally { binaries: vec![binary], ..Tally::default() }
    }

    #[test]
    fn successful_run_ends_with_a_line_of_counts() {
        let mut report = Report::default();
        report.check("format", SECOND, Ok(String::new()));
        report.tests("tests", 12 * SECOND, &tally(41, 0, &[]), None);
        report.tests("documentation", SECOND, &tally(1, 0, &[]), None);
        assert!(report.is_success());
        assert_eq!(
            report.render(),
            "\
format         ok           1.0 s
tests          ok          12.0 s  41 passed, 0 failed
documentation  ok           1.0 s  1 passed, 0 failed

42 passed, 0 failed
"
        );
    }

    #[test]
    fn failed_check_is_named_with_the_command_that_runs_it_again() {
        let mut report = Report::default();
        report.check("format", SECOND, Err(Failure::new("files are not formatted", "cargo fmt --all")));
        let failure = Failure::new("2 tests failed", "cargo test -p kiln-sim-azure --lib");
        report.tests("tests", SECOND, &tally(40, 2, &[]), Some(failure));
        assert!(!report.is_success());
        assert_eq!(
            report.render(),
            "\
format  FAILED       1.0 s  files are not formatted
tests   FAILED       1.0 s  40 passed, 2 failed

format failed: files are not formatted
  run: cargo fmt --all

tests failed: 2 tests failed
  run: cargo test -p kiln-sim-azure --lib

40 passed, 3 failed
"
        );
    }

    #[test]
    fn tests_and_checks_that_did_not_run_are_named_and_never_counted_as_passed() {
        let mut report = Report::default();
        report.tests("tests", SECOND, &tally(40, 0, &["recordings::a", "recordings::b"]), None);
        report.check_not_run("openapi", "exchanges were not checked");
        assert!(report.is_success());
        assert_eq!(
            report.render(),
            "\
tests    ok           1.0 s  40 passed, 0 failed, 2 not run
openapi  NOT RUN      0.0 s  exchanges were not checked

not run, because there is no recorded data (see CONTRIBUTING.md):
  -p kiln-azure --test it
    recordings::a
    recordings::b
  openapi: exchanges were not checked

40 passed, 0 failed, 3 skipped
"
        );
    }

    #[test]
    fn failure_without_a_failed_test_still_counts() {
        let mut report = Report::default();
        report.tests("tests", SECOND, &tally(40, 0, &[]), Some(Failure::new("cargo failed", "cargo test")));
        assert!(report.render().ends_with("\n40 passed, 1 failed\n"));
    }
}
