//! `cargo xtask test`: all checks of a tier. A failed check does not stop the others, unless the code does not compile.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use test_deps::{Cache, Recordings, SESSION_LOCK, TestDep, Tier};

use crate::floor::{self, Counts};
use crate::lanes;
use crate::process::{self, Ending};
use crate::report::{Failure, Report};
use crate::select::{self, words};
use crate::setup::{Background, Outcome};
use crate::stopwatch::Stopwatch;
use crate::tally::{Binary, Tally};
use crate::workspace::{Workspace, cargo};

/// The run time above which a binary's time is printed.
const SLOW: Duration = Duration::from_secs(20);

/// Runs the suite of a tier and prints the report. Returns whether everything passed.
pub fn run(root: &Path, tier: Tier) -> Result<bool, Box<dyn Error>> {
    let workspace = Workspace::load(root)?;
    let cache = Cache::of_user()?;
    for dependency in tier.test_deps().filter(|&dependency| cache.find(dependency).is_err()) {
        println!("installing `{dependency}` during the build; log: {}", cache.log_file(dependency).display());
    }
    let _session = lock_session(&cache)?;
    let installing = Background::start(&cache, tier.test_deps());
    let (report, counts) = (Report::default(), Counts::new());
    let mut suite = Suite { root, tier, workspace, cache, installing, has_recordings: true, report, counts };
    suite.run()?;
    print!("\n{}", suite.report.render());
    Ok(suite.report.is_success())
}

/// Locks the session file for this run, so that services that test binaries share (a control plane) keep running in between. The
/// kernel releases the lock even if this process is killed.
fn lock_session(cache: &Cache) -> Result<File, Box<dyn Error>> {
    let folder = cache.run_folder();
    let path = folder.join(SESSION_LOCK);
    let locked = fs::create_dir_all(&folder)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
        .and_then(|file| file.lock_shared().map(|()| file));
    locked.map_err(|error| format!("{}: {error}", path.display()).into())
}

struct Suite<'a> {
    root: &'a Path,
    tier: Tier,
    workspace: Workspace,
    cache: Cache,
    installing: Background,
    has_recordings: bool,
    report: Report,
    /// Tests per binary, including those that did not run.
    counts: Counts,
}

impl Suite<'_> {
    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        self.command("format", words("fmt --all --check"), "files are not formatted", "cargo fmt --all")?;
        let targets = select::targets(&self.workspace, self.tier);
        let mut build = targets.clone();
        build.push("--no-run".to_owned());
        if !self.command("build", build, "the code does not compile", "")? {
            return Ok(());
        }
        // Before the tests, because their dependencies may still be installing.
        self.clippy()?;
        for dependency in self.tier.test_deps().filter(|dependency| *dependency != TestDep::CargoDeny) {
            self.wait_for(dependency);
        }
        self.recordings();
        self.binaries("tests", &targets)?;
        self.documentation("documentation", &select::documentation(&self.workspace, self.tier))?;
        self.deny()?;
        let result = floor::check(self.root, self.tier, &self.counts);
        let result = result.map_err(|fault| Failure::new(fault.to_string(), "cargo xtask floor"));
        self.report.check("floor", Duration::ZERO, result);
        Ok(())
    }

    /// Decides whether tests that need recorded data run. Where the data is required they run, and fail if it is missing.
    fn recordings(&mut self) {
        let recordings = Recordings::from_environment();
        let Err(missing) = recordings.find() else { return };
        if recordings.is_required() {
            let failure = Failure { message: missing.to_string(), commands: Vec::new() };
            self.report.check("recordings", Duration::ZERO, Err(failure));
            return;
        }
        println!("{missing}; tests that need it do not run");
        self.has_recordings = false;
        self.report.check_not_run("openapi", "requests and responses were not checked against Azure's specifications");
    }

    /// Runs a cargo command with its output on the terminal. Returns whether it succeeded.
    fn command(
        &mut self,
        name: &'static str,
        arguments: Vec<String>,
        message: &str,
        rerun: &str,
    ) -> Result<bool, Box<dyn Error>> {
        let rerun = if rerun.is_empty() { format!("cargo {}", arguments.join(" ")) } else { rerun.to_owned() };
        let mut command = cargo(self.root);
        command.args(arguments);
        self.status(name, command, message, rerun)
    }

    fn status(
        &mut self,
        name: &'static str,
        mut command: Command,
        message: &str,
        rerun: String,
    ) -> Result<bool, Box<dyn Error>> {
        println!("== {name}");
        let watch = Stopwatch::start();
        let program = command.get_program().to_owned();
        let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
        let result = if status.success() { Ok(String::new()) } else { Err(Failure::new(message, rerun)) };
        self.report.check(name, watch.elapsed(), result);
        Ok(status.success())
    }

    /// Waits until a dependency is installed. Adds a row to the report unless it was installed before.
    fn wait_for(&mut self, dependency: TestDep) -> bool {
        let watch = Stopwatch::start();
        let result = match self.installing.wait(dependency) {
            None | Some(Ok(Outcome::Present)) => return true,
            Some(Ok(Outcome::Installed)) => {
                Ok(format!("installed `{dependency}`; the time is the wait after the build"))
            }
            Some(Err(error)) => {
                eprintln!("error: cannot install `{dependency}`: {error}");
                let command = format!("cargo xtask setup {dependency}");
                Err(Failure::new(format!("test dependency `{dependency}` is not installed"), command))
            }
        };
        let is_installed = result.is_ok();
        self.report.check("setup", watch.elapsed(), result);
        is_installed
    }

    /// Runs test binaries in parallel and prints a line for each, with the whole output of failed ones.
    fn binaries(&mut self, name: &'static str, arguments: &[String]) -> Result<(), Box<dyn Error>> {
        println!("== {name}");
        let watch = Stopwatch::start();
        let executables = lanes::executables(self.root, arguments)?;
        let (ending, tally) = lanes::run(&executables, self.tier, self.has_recordings, |binary, time| {
            show(binary);
            if time >= SLOW {
                println!("              {} took {} s", binary.name, time.as_secs());
            }
        })?;
        self.add_tests(name, watch, ending, &tally, arguments);
        Ok(())
    }

    fn add_tests(&mut self, name: &'static str, watch: Stopwatch, ending: Ending, tally: &Tally, arguments: &[String]) {
        self.report.tests(name, watch.elapsed(), tally, failure(ending, tally, arguments));
        for binary in &tally.binaries {
            let count = binary.passed + binary.failed + binary.not_run.len();
            *self.counts.entry(binary.selection.clone()).or_default() += count;
        }
    }

    /// Runs documentation tests with cargo, one crate after the other.
    fn documentation(&mut self, name: &'static str, arguments: &[String]) -> Result<(), Box<dyn Error>> {
        println!("== {name}");
        let watch = Stopwatch::start();
        let mut command = cargo(self.root);
        command.args(arguments).env(Tier::VARIABLE, self.tier.name());
        let mut tally = Tally::default();
        let mut preamble = Vec::new();
        let ending = process::stream(command, |line| {
            let ended = tally.binaries.len();
            if tally.line(line) {
                if let Some(binary) = ended.checked_sub(1).map(|last| &tally.binaries[last]) {
                    show(binary);
                }
            } else if ended == 0 {
                preamble.push(line.to_owned());
            }
        })?;
        match tally.binaries.last() {
            Some(binary) => show(binary),
            None => println!("{}", preamble.join("\n")),
        }
        self.add_tests(name, watch, ending, &tally, arguments);
        Ok(())
    }

    fn clippy(&mut self) -> Result<(), Box<dyn Error>> {
        let mut arguments = words("clippy --workspace --all-targets --locked");
        // Every tier lints the targets of the full tier, too: that takes seconds and needs no test dependencies.
        arguments.extend(select::features(&self.workspace, Tier::Full));
        arguments.extend(words("-- --deny warnings"));
        self.command("clippy", arguments, "clippy reported warnings", "").map(drop)
    }

    fn deny(&mut self) -> Result<(), Box<dyn Error>> {
        if !self.wait_for(TestDep::CargoDeny) {
            return Ok(());
        }
        let mut command = Command::new(self.cache.find(TestDep::CargoDeny)?);
        // No advisories: they need a database from the network, while these checks need only the lock file.
        let arguments = "--locked --log-level warn check --hide-inclusion-graph bans licenses sources";
        command.current_dir(self.root).args(words(arguments));
        let rerun = format!("{} {arguments}", command.get_program().display());
        self.status("deny", command, "a dependency violates deny.toml", rerun).map(drop)
    }
}

fn show(binary: &Binary) {
    if !binary.not_run.is_empty() {
        println!("{:>5} NOT RUN {}", binary.not_run.len(), binary.name);
    }
    if binary.is_success() {
        if binary.passed > 0 {
            println!("{:>5} passed  {}", binary.passed, binary.name);
        }
        return;
    }
    println!("{:>5} FAILED  {}", binary.failed, binary.name);
    for line in &binary.output {
        println!("      | {line}");
    }
    if binary.has_crashed() {
        println!("      the binary ended without a result");
    }
    if binary.ignored > 0 {
        println!("      {} tests are ignored; a test that cannot run must fail", binary.ignored);
    }
}

/// The failure of a test run, according to the exit codes and the counted tests.
fn failure(ending: Ending, tally: &Tally, arguments: &[String]) -> Option<Failure> {
    let message = if ending.left_running {
        "a test left a process running".to_owned()
    } else if tally.failed() > 0 {
        format!("{} failed", tally.failed())
    } else if !ending.success {
        "cargo test failed".to_owned()
    } else {
        return None;
    };
    let commands = tally.reruns.iter().map(|selection| format!("cargo test {selection}"));
    let commands: Vec<_> =
        if tally.reruns.is_empty() { vec![format!("cargo {}", arguments.join(" "))] } else { commands.collect() };
    Some(Failure { message, commands })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: Ending = Ending { success: true, left_running: false };

    #[test]
    fn bad_exit_code_is_a_failure_though_every_counted_test_passed() {
        let arguments = words("test --workspace");
        assert_eq!(failure(SUCCESS, &Tally::default(), &arguments), None);
        for ending in [Ending { success: false, ..SUCCESS }, Ending { left_running: true, ..SUCCESS }] {
            let failure = failure(ending, &Tally::default(), &arguments).unwrap();
            assert_eq!(failure.commands, ["cargo test --workspace"]);
        }
    }
}
