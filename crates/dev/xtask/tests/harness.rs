//! The suite's own machinery, with failures planted: against the real cargo, and against broken installations.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;
use test_deps::{Cache, Part, Tier};
use xtask::lanes;
use xtask::process::Ending;
use xtask::setup::{self, Failed, Outcome};
use xtask::tally::Tally;

const PASSING: &str = "#[test] fn passes() {}\n";
const FAILING: &str = "#[test] fn fails() { assert_eq!(1, 2); }\n";
const IGNORED: &str = concat!("#[test] #[ign", "ore] fn is_left_out() {}\n");
const ABORTING: &str = "#[test] fn aborts() { std::process::abort(); }\n";

/// Runs the tests of a package of this one file and counts them as the suite does.
fn counted(source: &str) -> (Ending, Tally) {
    let package = TempDir::new().unwrap();
    let manifest = "[package]\nname = \"planted\"\nedition = \"2024\"\n[workspace]\n";
    fs::create_dir_all(package.path().join("tests")).unwrap();
    fs::create_dir_all(package.path().join("src")).unwrap();
    fs::write(package.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(package.path().join("src/lib.rs"), "").unwrap();
    fs::write(package.path().join("tests/planted.rs"), source).unwrap();
    let target = package.path().join("target");
    let arguments = ["test", "--offline", "--test", "planted", "--target-dir"].map(str::to_owned);
    let arguments = [&arguments[..], &[target.display().to_string()]].concat();
    let executables = lanes::executables(package.path(), &arguments).unwrap();
    lanes::run(&executables, Tier::Default, |_, _| ()).unwrap()
}

#[test]
fn tests_that_pass_are_counted() {
    let (ending, tally) = counted(PASSING);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (true, 1, 0), "{tally:?}");
}

#[test]
fn a_planted_failure_is_counted_and_can_be_run_again() {
    let (ending, tally) = counted(&format!("{PASSING}{FAILING}"));
    assert_eq!((ending.success, tally.passed(), tally.failed()), (false, 1, 1), "{tally:?}");
    assert_eq!(tally.reruns, ["-p planted --test planted"]);
}

#[test]
fn a_planted_ignored_test_is_counted_as_failed_though_cargo_succeeds() {
    let (ending, tally) = counted(&format!("{PASSING}{IGNORED}"));
    assert_eq!((ending.success, tally.passed(), tally.failed(), tally.executed()), (true, 1, 1, 1), "{tally:?}");
}

#[test]
fn a_planted_abort_is_counted_as_failed_though_no_result_was_printed() {
    let (ending, tally) = counted(ABORTING);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (false, 0, 1), "{tally:?}");
}

fn cache() -> (TempDir, Cache) {
    let folder = TempDir::new().unwrap();
    let cache = Cache::at(folder.path().join("parts"));
    (folder, cache)
}

fn make_program(folder: &Path) {
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(folder.join(Part::CargoDeny.program()), "").unwrap();
}

#[test]
fn an_interrupted_installation_is_not_used_and_the_next_one_starts_from_nothing() {
    let (_folder, cache) = cache();
    let interrupted = setup::once(&cache, Part::CargoDeny, |folder| {
        make_program(folder);
        fs::write(folder.join("half"), "").unwrap();
        Err(Failed::Stopped)
    });
    assert!(matches!(interrupted, Err(Failed::Stopped)));
    assert!(cache.find(Part::CargoDeny).is_err());

    let outcome = setup::once(&cache, Part::CargoDeny, |folder| {
        assert!(!folder.join("half").exists(), "what the interrupted one left is still there");
        make_program(folder);
        Ok(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Installed);
    assert!(cache.find(Part::CargoDeny).is_ok());
}

#[test]
fn an_installation_that_makes_no_program_fails() {
    let (_folder, cache) = cache();
    let outcome = setup::once(&cache, Part::CargoDeny, |_| Ok(()));
    assert!(matches!(outcome, Err(Failed::NoProgram(_))), "{outcome:?}");
}

#[test]
fn two_installations_at_once_make_the_part_once() {
    let (_folder, cache) = cache();
    let made = AtomicUsize::new(0);
    let install = || {
        setup::once(&cache, Part::CargoDeny, |folder| {
            made.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            make_program(folder);
            Ok(())
        })
        .unwrap()
    };
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(install)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Installed).count(), 1);
}

#[test]
fn the_reason_of_a_failed_installation_shows_the_command_and_the_end_of_its_log() {
    let failed = Failed::Exit {
        line: "pip install".to_owned(),
        status: "exit status: 1".to_owned(),
        log: "/c/python.log".into(),
        tail: "no matching version".to_owned(),
    };
    let text = failed.to_string();
    for wanted in ["`pip install`", "exit status: 1", "/c/python.log", "no matching version"] {
        assert!(text.contains(wanted), "{text}");
    }
}
