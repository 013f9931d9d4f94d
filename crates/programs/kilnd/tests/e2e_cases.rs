//! The cases of `tests/node` that trace system calls or need a full or read-only file system.

mod support;

use support::case::{Needs, check_with, names};
use test_deps::TestDep;
use testkit::cases;

cases! {
    check:
    first_boot_has_no_child_process_and_no_fsync = "first-boot-in-system-calls",
    disk_full = "disk-full",
    kill_at_every_rename = "kill-at-every-rename",
    kill_under_a_strict_umask = "kill-under-a-strict-umask",
    nothing_to_do_writes_nothing = "nothing-to-do-in-system-calls",
    read_only = "read-only",
}

fn check(folder: &str) {
    check_with(folder, &[("STRACE", strace())]);
}

/// The command line of Debian's strace with its own loader and libraries.
fn strace() -> String {
    let nspawn = testkit::require(TestDep::NodeRoot);
    let root = nspawn.ancestors().nth(3).expect("`/usr/bin/systemd-nspawn` is below a root");
    let library = root.join("usr/lib/x86_64-linux-gnu");
    let loader = library.join("ld-linux-x86-64.so.2");
    let strace = root.join("usr/bin/strace");
    format!("{} --library-path {} {}", loader.display(), library.display(), strace.display())
}

#[test]
fn every_folder_is_a_case() {
    assert_eq!(names(Needs::More), sorted(LISTED));
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}
