//! Compares the output of kiln with that of Debian's `systemd-analyze` on random boots. Needs neither root nor a running systemd.

mod bus;
#[path = "../support/dice.rs"]
mod dice;
mod graph;

use std::process::Command;

use kiln_boot_analysis::{Boot, Usec};
use tempfile::TempDir;
use test_deps::TestDep;

/// Boots in every test run.
const CASES: u64 = 300;
/// Boots in the long test run.
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
        let mut command = Command::new(testkit::require(TestDep::SystemdAnalyze));
        command.arg("--user").arg("--no-pager").args(arguments);
        command.env("XDG_RUNTIME_DIR", self.folder.path()).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
        command.env_remove("DBUS_SESSION_BUS_ADDRESS");
        let output = command.output().expect("systemd-analyze runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn compare(seed: u64) {
    let boot = graph::boot(seed);
    let tool = Tool::new(&boot);
    let fuzz = [Usec::ZERO, Usec(1_000_000), Usec(10_000_000)][usize::try_from(seed % 3).unwrap_or_default()];
    let wide = fuzz.to_string();
    for unit in boot.units.keys().take(4).map(kiln_boot_analysis::UnitName::as_str).chain(["default.target"]) {
        let expected = tool.run(&["critical-chain", "--fuzz", &wide, unit]);
        let chain = kiln_boot_analysis::chain(&boot, unit, fuzz).expect("a finished boot");
        assert_eq!(chain, expected, "seed {seed}, unit {unit}, fuzz {fuzz}: kiln, then systemd-analyze");
    }
    assert_eq!(
        kiln_boot_analysis::blame(&boot).expect("finished"),
        tool.run(&["blame"]),
        "seed {seed}: kiln, then systemd-analyze"
    );
    assert_eq!(
        kiln_boot_analysis::time(&boot).expect("finished"),
        tool.run(&["time"]),
        "seed {seed}: kiln, then systemd-analyze"
    );
}

#[test]
fn chain_blame_and_time_equal_systemd_analyze() {
    (0..CASES).for_each(compare);
}

#[cfg(feature = "tier2")]
#[test]
fn chain_blame_and_time_equal_systemd_analyze_on_thousands_of_boots() {
    (CASES..MANY).for_each(compare);
}

#[test]
fn a_missing_default_target_is_reported_as_by_systemd_analyze() {
    let mut boot = graph::boot(7);
    let target = boot.id("default.target").to_owned();
    boot.units.get_mut(target.as_str()).expect("a default target").activated = None;
    let second_line = |boot: &Boot| {
        let time = kiln_boot_analysis::time(boot).expect("finished");
        assert_eq!(time, Tool::new(boot).run(&["time"]), "kiln, then systemd-analyze");
        time.lines().nth(1).expect("two lines").to_owned()
    };
    assert_eq!(second_line(&boot), format!("Could not get time to reach {target}."));
    boot.aliases.clear();
    assert_eq!(second_line(&boot), "could not find default.target.");
}

/// systemd-analyze stores open branches in a 32-bit word, so its tree is wrong below the 32nd level. kiln prints the same.
#[test]
fn a_tree_deeper_than_32_levels_equals_systemd_analyze() {
    for (depth, every) in [(31, 1), (33, 1), (40, 3), (70, 5), (70, 1)] {
        let boot = graph::ladder(depth, every);
        let tool = Tool::new(&boot);
        let ours = kiln_boot_analysis::chain(&boot, "step0.target", Usec::ZERO).expect("a finished boot");
        assert_eq!(ours, tool.run(&["critical-chain", "step0.target"]), "{depth} deep: kiln, then systemd-analyze");
    }
}

#[test]
fn an_unfinished_boot_is_rejected_as_by_systemd_analyze() {
    let mut boot = graph::boot(7);
    boot.manager.finish = Some(Usec::ZERO);
    assert!(kiln_boot_analysis::chain(&boot, "default.target", Usec::ZERO).is_err());
    let tool = Tool::new(&boot);
    let mut command = Command::new(testkit::require(TestDep::SystemdAnalyze));
    command.args(["--user", "critical-chain"]).env("XDG_RUNTIME_DIR", tool.folder.path());
    let output = command.output().expect("systemd-analyze runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not yet finished"));
}
