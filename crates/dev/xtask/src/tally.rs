//! Counting executed tests in what `cargo test` prints.

/// What `cargo test` said, one entry per test binary or crate of documentation tests.
#[derive(Debug, Default)]
pub struct Tally {
    /// In the order of execution.
    pub binaries: Vec<Binary>,
    /// The selections that cargo offers for running what failed again, such as `-p kiln-sim-azure --test world`.
    pub reruns: Vec<String>,
}

/// One test binary, or the documentation tests of one crate.
#[derive(Debug)]
pub struct Binary {
    /// Cargo's own heading for it.
    pub name: String,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests marked as ignored.
    pub ignored: usize,
    /// Everything it printed.
    pub output: Vec<String>,
    reported: bool,
}

impl Binary {
    /// One that has not said anything yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), passed: 0, failed: 0, ignored: 0, output: Vec::new(), reported: false }
    }

    /// Takes in the next line that it printed.
    pub fn line(&mut self, line: &str) {
        if let Some([passed, failed, ignored]) = result(line) {
            self.passed += passed;
            self.failed += failed;
            self.ignored += ignored;
            self.reported = true;
        }
        self.output.push(line.to_owned());
    }

    /// It ended without a result line: killed by a signal, aborted, or with a harness of its own.
    pub fn crashed(&self) -> bool {
        !self.reported
    }

    /// Nothing failed, nothing was left out.
    pub fn is_well(&self) -> bool {
        self.failed == 0 && self.ignored == 0 && !self.crashed()
    }
}

impl Tally {
    /// Takes in the next line; `true` when the line began a new binary.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(name) = heading(line) {
            self.binaries.push(Binary::new(name));
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

    /// Tests that passed.
    pub fn passed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.passed).sum()
    }

    /// Tests that failed or were left out, and binaries that did not say how they ended.
    pub fn failed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.failed + binary.ignored + usize::from(binary.crashed())).sum()
    }

    /// Tests that ran to an end.
    pub fn executed(&self) -> usize {
        self.binaries.iter().map(|binary| binary.passed + binary.failed).sum()
    }
}

/// `     Running tests/purity.rs (target/debug/deps/purity-0123456789abcdef)` or `   Doc-tests kiln_sim_azure`.
fn heading(line: &str) -> Option<&str> {
    let line = line.strip_prefix("   ")?.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line);
    }
    let path = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?.1;
    let file = path.rsplit(['/', '\\']).next()?;
    file.rsplit_once('-').map(|(stem, _)| stem)
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

/// The number of tests in the output of `cargo test … -- --list`.
pub fn listed<'a>(lines: impl IntoIterator<Item = &'a str>) -> usize {
    lines.into_iter().filter(|line| line.ends_with(": test")).count()
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
     Running unittests src/lib.rs (target/debug/deps/kiln_sim_azure-0123456789abcdef)

running 2 tests
..
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/purity.rs (target/debug/deps/purity-fedcba9876543210)

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
    fn every_result_line_is_summed_and_filtered_tests_do_not_count() {
        let tally = tally(GREEN);
        assert_eq!((tally.passed(), tally.failed(), tally.executed()), (10, 0, 10));
        let names: Vec<_> = tally.binaries.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["kiln_sim_azure", "purity", "Doc-tests kiln_sim_azure"]);
    }

    #[test]
    fn an_ignored_test_counts_as_failed() {
        let tally = tally(&GREEN.replacen("2 passed; 0 failed; 0 ignored", "1 passed; 0 failed; 1 ignored", 1));
        assert_eq!((tally.passed(), tally.failed()), (9, 1));
        assert!(!tally.binaries[0].is_well());
    }

    #[test]
    fn a_binary_that_dies_before_its_result_line_counts_as_failed() {
        let text =
            GREEN.replace("test result: ok. 3 passed", "error: test failed, to rerun pass `-p xtask --test purity`\n#");
        let tally = tally(&text);
        assert_eq!((tally.passed(), tally.failed(), tally.executed()), (7, 1, 7));
        assert!(tally.binaries[1].crashed());
        assert_eq!(tally.reruns, ["-p xtask --test purity"]);
    }

    #[test]
    fn each_failed_selection_is_offered_once() {
        let tally = tally(
            "error: test failed, to rerun pass `-p xtask --lib`\nerror: 2 targets failed:\n    `-p xtask --lib`\n    `-p kiln --test e2e_demo`\n",
        );
        assert_eq!(tally.reruns, ["-p xtask --lib", "-p kiln --test e2e_demo"]);
    }

    #[test]
    fn listed_tests_are_counted_and_benchmarks_are_not() {
        assert_eq!(
            listed("a::b: test\nsrc/lib.rs - c (line 3): test\nd: benchmark\n\n2 tests, 1 benchmark".lines()),
            2
        );
    }
}
