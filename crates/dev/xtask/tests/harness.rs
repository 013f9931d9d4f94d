//! Tests of the harness itself: it must report failures in real cargo packages and in broken installations.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;
use test_deps::{Cache, TestDep, Tier};
use xtask::lanes;
use xtask::process::Ending;
use xtask::setup::{self, Failed, Outcome};
use xtask::tally::Tally;

const PASSING: &str = "#[test] fn passes() {}\n";
const FAILING: &str = "#[test] fn fails() { assert_eq!(1, 2); }\n";
const IGNORED: &str = concat!("#[test] #[ign", "ore] fn is_left_out() {}\n");
const ABORTING: &str = "#[test] fn aborts() { std::process::abort(); }\n";

/// Runs the tests of a package with this source file and counts them as `cargo xtask test` does.
fn counted(source: &str, has_recordings: bool) -> (Ending, Tally) {
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
    lanes::run(&executables, Tier::Default, has_recordings, |_, _| ()).unwrap()
}

#[test]
fn passing_tests_are_counted() {
    let (ending, tally) = counted(PASSING, true);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (true, 1, 0), "{tally:?}");
}

#[test]
fn failing_test_is_counted_with_the_command_that_runs_it_again() {
    let (ending, tally) = counted(&format!("{PASSING}{FAILING}"), true);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (false, 1, 1), "{tally:?}");
    assert_eq!(tally.reruns, ["-p planted --test planted"]);
}

#[test]
fn ignored_test_is_counted_as_failed_though_cargo_succeeds() {
    let (ending, tally) = counted(&format!("{PASSING}{IGNORED}"), true);
    assert_eq!((ending.success, tally.passed(), tally.failed(), tally.executed()), (true, 1, 1, 1), "{tally:?}");
}

#[test]
fn abort_without_a_result_is_counted_as_failed() {
    let (ending, tally) = counted(ABORTING, true);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (false, 0, 1), "{tally:?}");
}

#[test]
fn tests_that_need_recordings_are_listed_as_not_run_without_them() {
    let source = format!("{PASSING}mod recordings {{ {FAILING} }}");
    let (ending, tally) = counted(&source, false);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (true, 1, 0), "{tally:?}");
    assert_eq!(tally.binaries[0].not_run, ["recordings::fails"]);
    let (ending, tally) = counted(&source, true);
    assert_eq!((ending.success, tally.passed(), tally.failed()), (false, 1, 1), "{tally:?}");
    assert!(tally.binaries[0].not_run.is_empty());
}

fn cache() -> (TempDir, Cache) {
    let folder = TempDir::new().unwrap();
    let cache = Cache::at(folder.path().join("test-deps"));
    (folder, cache)
}

fn make_program(folder: &Path) {
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(folder.join(TestDep::CargoDeny.program()), "").unwrap();
}

#[test]
fn interrupted_installation_is_not_used_and_the_next_one_starts_from_scratch() {
    let (_folder, cache) = cache();
    let interrupted = setup::once(&cache, TestDep::CargoDeny, |folder| {
        make_program(folder);
        fs::write(folder.join("half"), "").unwrap();
        Err(Failed::Stopped)
    });
    assert!(matches!(interrupted, Err(Failed::Stopped)));
    assert!(cache.find(TestDep::CargoDeny).is_err());

    let outcome = setup::once(&cache, TestDep::CargoDeny, |folder| {
        assert!(!folder.join("half").exists(), "files of the interrupted installation still exist");
        make_program(folder);
        Ok(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Installed);
    assert!(cache.find(TestDep::CargoDeny).is_ok());
}

#[test]
fn installation_without_its_program_fails() {
    let (_folder, cache) = cache();
    let outcome = setup::once(&cache, TestDep::CargoDeny, |_| Ok(()));
    assert!(matches!(outcome, Err(Failed::NoProgram(_))), "{outcome:?}");
}

#[test]
fn concurrent_installations_run_once() {
    let (_folder, cache) = cache();
    let made = AtomicUsize::new(0);
    let install = || {
        setup::once(&cache, TestDep::CargoDeny, |folder| {
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
fn error_of_a_failed_installation_has_the_command_and_the_end_of_its_log() {
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
