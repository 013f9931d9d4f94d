//! `cargo xtask test`: the whole suite of a tier. All parts run even when one fails; only code that does not compile stops it.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use test_deps::{Cache, Part, SESSION_LOCK, Tier};

use crate::floor;
use crate::lanes;
use crate::process::{self, Ending};
use crate::report::{Report, Trouble};
use crate::select::{self, words};
use crate::setup::{Background, Outcome};
use crate::stopwatch::Stopwatch;
use crate::tally::{Binary, Tally};
use crate::workspace::{Workspace, cargo};

/// What a binary takes before its time is worth a line.
const SLOW: Duration = Duration::from_secs(20);

/// Runs the suite of a tier and prints the report; `true` when all of it held.
pub fn run(root: &Path, tier: Tier) -> Result<bool, Box<dyn Error>> {
    let workspace = Workspace::load(root)?;
    let cache = Cache::of_user()?;
    for part in tier.parts().filter(|&part| cache.find(part).is_err()) {
        println!("installing `{part}` beside the build; log: {}", cache.log_file(part).display());
    }
    let _session = session(&cache)?;
    let parts = Background::start(&cache, tier.parts());
    let mut suite = Suite { root, tier, workspace, cache, parts, report: Report::default() };
    suite.run()?;
    print!("\n{}", suite.report.render());
    Ok(suite.report.is_well())
}

/// Held for the run: what tests share (a control plane) stays between two test binaries. The kernel lets go of it at the end,
/// whatever end that is.
fn session(cache: &Cache) -> Result<File, Box<dyn Error>> {
    let folder = cache.run_folder();
    let path = folder.join(SESSION_LOCK);
    let held = fs::create_dir_all(&folder)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
        .and_then(|file| file.lock_shared().map(|()| file));
    held.map_err(|error| format!("{}: {error}", path.display()).into())
}

struct Suite<'a> {
    root: &'a Path,
    tier: Tier,
    workspace: Workspace,
    cache: Cache,
    parts: Background,
    report: Report,
}

impl Suite<'_> {
    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        self.command("format", words("fmt --all --check"), "files are not formatted", "cargo fmt --all")?;
        let targets = select::targets(&self.workspace, self.tier);
        let mut build = targets.clone();
        build.push("--no-run".to_owned());
        if !self.command("build", build, "it does not compile", "")? {
            return Ok(());
        }
        // Before the tests, because the parts that they need may still be on their way.
        self.clippy()?;
        for part in self.tier.parts().filter(|part| *part != Part::CargoDeny) {
            self.installed(part);
        }
        let executed = self.binaries("tests", &targets)?;
        let executed = executed + self.tests("documentation", &select::documentation(&self.workspace, self.tier))?;
        self.deny()?;
        let result = floor::check(self.root, self.tier, executed);
        let result = result.map(|floor| format!("{executed} executed, floor {floor}"));
        self.report.check(
            "floor",
            Duration::ZERO,
            result.map_err(|f| Trouble::new(f.to_string(), "cargo xtask floor")),
        );
        Ok(())
    }

    /// Runs a cargo command whose output goes to the terminal as it is; `true` when it succeeded.
    fn command(
        &mut self,
        part: &'static str,
        arguments: Vec<String>,
        trouble: &str,
        again: &str,
    ) -> Result<bool, Box<dyn Error>> {
        let again = if again.is_empty() { format!("cargo {}", arguments.join(" ")) } else { again.to_owned() };
        let mut command = cargo(self.root);
        command.args(arguments);
        self.status(part, command, trouble, again)
    }

    fn status(
        &mut self,
        part: &'static str,
        mut command: Command,
        trouble: &str,
        again: String,
    ) -> Result<bool, Box<dyn Error>> {
        println!("== {part}");
        let watch = Stopwatch::start();
        let program = command.get_program().to_owned();
        let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
        let result = if status.success() { Ok(String::new()) } else { Err(Trouble::new(trouble, again)) };
        self.report.check(part, watch.elapsed(), result);
        Ok(status.success())
    }

    /// Waits for a part. One that was there already is not worth a row.
    fn installed(&mut self, part: Part) -> bool {
        let watch = Stopwatch::start();
        let result = match self.parts.wait(part) {
            None | Some(Ok(Outcome::Present)) => return true,
            Some(Ok(Outcome::Installed)) => {
                Ok(format!("installed `{part}` beside the build; this is what it took longer"))
            }
            Some(Err(error)) => {
                eprintln!("{part}: {error}");
                Err(Trouble::new(format!("part `{part}` is not installed"), format!("cargo xtask setup {part}")))
            }
        };
        let well = result.is_ok();
        self.report.check("setup", watch.elapsed(), result);
        well
    }

    /// Runs test binaries side by side and prints a line for each; what a failed one printed is shown whole.
    fn binaries(&mut self, part: &'static str, arguments: &[String]) -> Result<usize, Box<dyn Error>> {
        println!("== {part}");
        let watch = Stopwatch::start();
        let executables = lanes::executables(self.root, arguments)?;
        let (ending, tally) = lanes::run(&executables, self.tier, |binary, time| {
            show(binary);
            // Where a slow run's time went, without a second run to find out.
            if time >= SLOW {
                println!("              {} took {} s", binary.name, time.as_secs());
            }
        })?;
        let trouble = trouble(ending, &tally, arguments);
        self.report.tests(part, watch.elapsed(), tally.passed(), tally.failed(), trouble);
        Ok(tally.executed())
    }

    /// Runs tests as cargo does, one crate after the other.
    fn tests(&mut self, part: &'static str, arguments: &[String]) -> Result<usize, Box<dyn Error>> {
        println!("== {part}");
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
        let trouble = trouble(ending, &tally, arguments);
        self.report.tests(part, watch.elapsed(), tally.passed(), tally.failed(), trouble);
        Ok(tally.executed())
    }

    fn clippy(&mut self) -> Result<(), Box<dyn Error>> {
        let mut arguments = words("clippy --workspace --all-targets --locked");
        // Targets of the full tier are linted in every tier: it costs seconds and needs none of their parts.
        arguments.extend(select::features(&self.workspace, Tier::Full));
        arguments.extend(words("-- --deny warnings"));
        self.command("clippy", arguments, "there are warnings", "").map(drop)
    }

    fn deny(&mut self) -> Result<(), Box<dyn Error>> {
        if !self.installed(Part::CargoDeny) {
            return Ok(());
        }
        let mut command = Command::new(self.cache.find(Part::CargoDeny)?);
        // Advisories need a database from outside; what is checked here needs the lock file alone.
        let arguments = "--locked --log-level warn check --hide-inclusion-graph bans licenses sources";
        command.current_dir(self.root).args(words(arguments));
        let again = format!("{} {arguments}", command.get_program().display());
        self.status("deny", command, "a dependency breaks a rule of deny.toml", again).map(drop)
    }
}

fn show(binary: &Binary) {
    if binary.is_well() {
        if binary.passed > 0 {
            println!("{:>5} passed  {}", binary.passed, binary.name);
        }
        return;
    }
    println!("{:>5} FAILED  {}", binary.failed, binary.name);
    for line in &binary.output {
        println!("      | {line}");
    }
    if binary.crashed() {
        println!("      it ended without a result");
    }
    if binary.ignored > 0 {
        println!("      {} tests are ignored: a test that cannot run must fail", binary.ignored);
    }
}

/// What went wrong, by cargo's exit code and by our own count.
fn trouble(ending: Ending, tally: &Tally, arguments: &[String]) -> Option<Trouble> {
    let what = if ending.left_running {
        "a test left a process running".to_owned()
    } else if tally.failed() > 0 {
        format!("{} failed", tally.failed())
    } else if !ending.success {
        "cargo test failed".to_owned()
    } else {
        return None;
    };
    let again = tally.reruns.iter().map(|selection| format!("cargo test {selection}"));
    let again: Vec<_> =
        if tally.reruns.is_empty() { vec![format!("cargo {}", arguments.join(" "))] } else { again.collect() };
    Some(Trouble { what, again })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Ending = Ending { success: true, left_running: false };

    #[test]
    fn a_bad_ending_is_trouble_even_when_every_counted_test_passed() {
        let arguments = words("test --workspace");
        assert_eq!(trouble(WELL, &Tally::default(), &arguments), None);
        for ending in [Ending { success: false, ..WELL }, Ending { left_running: true, ..WELL }] {
            let trouble = trouble(ending, &Tally::default(), &arguments).unwrap();
            assert_eq!(trouble.again, ["cargo test --workspace"]);
        }
    }
}
