//! What kiln prints, held against Debian's own `systemd-analyze` on random boots. No root, no booted systemd.

mod bus;
#[path = "../support/dice.rs"]
mod dice;
mod graph;

use std::process::Command;

use kiln_boot_analysis::{Boot, Usec};
use tempfile::TempDir;
use test_deps::Part;

/// Boots that every run tries.
const CASES: u64 = 300;
/// And those of the long run.
#[cfg(feature = "tier2")]
const MANY: u64 = 3_000;

struct Tool {
    folder: TempDir,
}

impl Tool {
    fn new(boot: &Boot) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        bus::Fake::serve(boot.clone(), folder.path()).expect("a bus");
        Self { folder }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(testkit::require(Part::SystemdAnalyze));
        command.arg("--user").arg("--no-pager").args(arguments);
        command.env("XDG_RUNTIME_DIR", self.folder.path()).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
        command.env_remove("DBUS_SESSION_BUS_ADDRESS");
        let output = command.output().expect("systemd-analyze runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn hold_against(seed: u64) {
    let boot = graph::boot(seed);
    let tool = Tool::new(&boot);
    let fuzz = [Usec::ZERO, Usec(1_000_000), Usec(10_000_000)][usize::try_from(seed % 3).unwrap_or_default()];
    let wide = fuzz.to_string();
    for unit in boot.units.keys().take(4).map(kiln_boot_analysis::UnitName::as_str).chain(["default.target"]) {
        let theirs = tool.run(&["critical-chain", "--fuzz", &wide, unit]);
        let ours = kiln_boot_analysis::chain(&boot, unit, fuzz).expect("a finished boot");
        assert_eq!(ours, theirs, "seed {seed}, unit {unit}, fuzz {fuzz}: ours, then theirs");
    }
    assert_eq!(
        kiln_boot_analysis::blame(&boot).expect("finished"),
        tool.run(&["blame"]),
        "seed {seed}: ours, then theirs"
    );
    assert_eq!(
        kiln_boot_analysis::time(&boot).expect("finished"),
        tool.run(&["time"]),
        "seed {seed}: ours, then theirs"
    );
}

#[test]
fn chain_blame_and_time_are_byte_for_byte_those_of_systemd_analyze() {
    (0..CASES).for_each(hold_against);
}

#[cfg(feature = "tier2")]
#[test]
fn thousands_of_boots_are_printed_as_systemd_analyze_prints_them() {
    (CASES..MANY).for_each(hold_against);
}

#[test]
fn a_goal_that_is_not_there_or_not_recorded_is_told_as_the_tool_tells_it() {
    let mut boot = graph::boot(7);
    let goal = boot.id("default.target").to_owned();
    boot.units.get_mut(goal.as_str()).expect("a goal").activated = None;
    let said = |boot: &Boot| {
        let ours = kiln_boot_analysis::time(boot).expect("finished");
        assert_eq!(ours, Tool::new(boot).run(&["time"]), "ours, then theirs");
        ours.lines().nth(1).expect("two lines").to_owned()
    };
    assert_eq!(said(&boot), format!("Could not get time to reach {goal}."));
    boot.aliases.clear();
    assert_eq!(said(&boot), "could not find default.target.");
}

/// The tool keeps the open branches in the bits of a word: below the 32nd level its lines are no longer what one would expect.
#[test]
fn branches_that_are_deeper_than_a_word_has_bits_are_printed_as_the_tool_prints_them() {
    for (depth, every) in [(31, 1), (33, 1), (40, 3), (70, 5), (70, 1)] {
        let boot = graph::ladder(depth, every);
        let tool = Tool::new(&boot);
        let ours =
            kiln_boot_analysis::chain(&boot, "step0.target", Usec::ZERO).expect("a finished boot");
        assert_eq!(ours, tool.run(&["critical-chain", "step0.target"]), "{depth} deep: ours, then theirs");
    }
}

#[test]
fn a_boot_that_goes_on_is_refused_as_the_tool_refuses_it() {
    let mut boot = graph::boot(7);
    boot.manager.finish = Some(Usec::ZERO);
    assert!(kiln_boot_analysis::chain(&boot, "default.target", Usec::ZERO).is_err());
    let tool = Tool::new(&boot);
    let mut command = Command::new(testkit::require(Part::SystemdAnalyze));
    command.args(["--user", "critical-chain"]).env("XDG_RUNTIME_DIR", tool.folder.path());
    let output = command.output().expect("systemd-analyze runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not yet finished"));
}
