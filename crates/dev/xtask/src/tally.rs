//! Counts tests in the output of test binaries and of `cargo test --doc`.

use std::collections::BTreeMap;

/// The results of a test run.
#[derive(Debug, Default)]
pub struct Tally {
    /// In the order of execution.
    pub binaries: Vec<Binary>,
    /// The selections of failed binaries, such as `-p kiln-sim-azure --test world`.
    pub reruns: Vec<String>,
}

/// One test binary, or the documentation tests of one crate.
#[derive(Debug)]
pub struct Binary {
    /// The name of the target.
    pub name: String,
    /// The arguments of `cargo test` that run only these tests.
    pub selection: String,
    pub passed: usize,
    pub failed: usize,
    /// Tests marked with an attribute; `cargo xtask test` reports them as failed.
    pub ignored: usize,
    /// The names of tests that `cargo xtask test` left out.
    pub not_run: Vec<String>,
    /// All lines that it printed.
    pub output: Vec<String>,
    reported: bool,
}

impl Binary {
    /// A binary without output so far.
    pub fn new(name: &str, selection: &str) -> Self {
        Self {
            name: name.to_owned(),
            selection: selection.to_owned(),
            passed: 0,
            failed: 0,
            ignored: 0,
            not_run: Vec::new(),
            output: Vec::new(),
            reported: false,
        }
    }

    /// Processes the next line of output.
    pub fn line(&mut self, line: &str) {
        if let Some([passed, failed, ignored]) = result(line) {
            self.passed += passed;
            self.failed += failed;
            self.ignored += ignored;
            self.reported = true;
        }
        self.output.push(line.to_owned());
    }

    /// Whether it ended without a result line, for example because a signal killed it.
    pub fn has_crashed(&self) -> bool {
        !self.reported
    }

    /// Whether nothing failed and nothing was ignored.
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.ignored == 0 && !self.has_crashed()
    }
}

impl Tally {
    /// Processes the next line. Returns whether the tests of another crate start with it.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(selection) = heading(line) {
            self.binaries.push(Binary::new(line.trim(), &selection));
            return true;
        }
        if let Some(selection) = rerun(line)
            && !self.reruns.contains(&selection)
        {
            self.reruns.push(selection);
        }
        if let Some(binary) = self.binaries.last_mut() {
            binary.line(line);
        }
        false
    }

    /// The number of tests that passed.
    pub fn passed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.passed).sum()
    }

    /// The number of failed and ignored tests and of crashed binaries.
    pub fn failed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.failed + binary.ignored + usize::from(binary.has_crashed())).sum()
    }

    /// The number of tests that ran to an end.
    pub fn executed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.passed + binary.failed).sum()
    }
}

/// The selection of the crate in a line such as `   Doc-tests kiln_sim_azure`.
fn heading(line: &str) -> Option<String> {
    let library = line.trim_start().strip_prefix("Doc-tests ")?;
    Some(format!("-p {} --doc", library.replace('_', "-")))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
fn result(line: &str) -> Option<[usize; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count =
        |word: &str| counts.split("; ").find_map(|part| part.strip_suffix(word)?.trim_end().parse::<usize>().ok());
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

/// ``error: test failed, to rerun pass `-p kiln-sim-azure --lib` ``, or a line of the list at the end.
fn rerun(line: &str) -> Option<String> {
    let quoted = line
        .strip_prefix("error: test failed, to rerun pass ")
        .or_else(|| line.strip_prefix("    `-p ").map(|_| line.trim()))?;
    Some(quoted.trim().trim_matches('`').to_owned())
}

/// The tests in the output of a test binary with `--list`. Benchmarks are not tests.
pub fn listed(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// The number of tests per crate in the output of `cargo test --doc -- --list`.
pub fn listed_documentation(lines: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut current = None;
    for line in lines {
        if let Some(selection) = heading(line) {
            current = Some(selection);
        } else if let Some(selection) = current.as_ref().filter(|_| line.ends_with(": test")) {
            *counts.entry(selection.clone()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        for line in text.lines() {
            tally.line(line);
        }
        tally
    }

    const GREEN: &str = "\
   Compiling xtask v0.1.0 (/k/crates/xtask)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.05s
   Doc-tests kiln_boot_analysis

running 2 tests
..
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests kiln_bootstrap

running 3 tests
...
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s

   Doc-tests kiln_sim_azure

running 1 test
.
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn all_result_lines_are_added_and_filtered_tests_do_not_count() {
        let tally = tally(GREEN);
        assert_eq!((tally.passed(), tally.failed(), tally.executed()), (10, 0, 10));
        let selections: Vec<_> = tally.binaries.iter().map(|binary| binary.selection.as_str()).collect();
        assert_eq!(selections, ["-p kiln-boot-analysis --doc", "-p kiln-bootstrap --doc", "-p kiln-sim-azure --doc"]);
    }

    #[test]
    fn ignored_test_counts_as_failed() {
        let tally = tally(&GREEN.replacen("2 passed; 0 failed; 0 ignored", "1 passed; 0 failed; 1 ignored", 1));
        assert_eq!((tally.passed(), tally.failed()), (9, 1));
        assert!(!tally.binaries[0].is_success());
    }

    #[test]
    fn crash_before_the_result_line_counts_as_failed() {
        let text =
            GREEN.replace("test result: ok. 3 passed", "error: test failed, to rerun pass `-p xtask --test purity`\n#");
        let tally = tally(&text);
        assert_eq!((tally.passed(), tally.failed(), tally.executed()), (7, 1, 7));
        assert!(tally.binaries[1].has_crashed());
        assert_eq!(tally.reruns, ["-p xtask --test purity"]);
    }

    #[test]
    fn each_failed_selection_is_listed_once() {
        let tally = tally(
            "error: test failed, to rerun pass `-p xtask --lib`\nerror: 2 targets failed:\n    `-p xtask --lib`\n    `-p kiln --test e2e_demo`\n",
        );
        assert_eq!(tally.reruns, ["-p xtask --lib", "-p kiln --test e2e_demo"]);
    }

    #[test]
    fn listed_tests_are_counted_and_benchmarks_are_not() {
        let tests: Vec<_> = listed("a::b: test\nc: test\nd: benchmark\n\n2 tests, 1 benchmark").collect();
        assert_eq!(tests, ["a::b", "c"]);
    }

    #[test]
    fn listed_documentation_tests_are_counted_per_crate() {
        let lines = "   Doc-tests kiln_types\n0 tests\n   Doc-tests kiln_boot_analysis\nsrc/lib.rs - c (line 3): test\n\n1 test";
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        assert_eq!(listed_documentation(&lines), [("-p kiln-boot-analysis --doc".to_owned(), 1)].into());
    }
}
