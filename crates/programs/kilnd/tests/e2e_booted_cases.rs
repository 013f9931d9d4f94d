//! The cases of `tests/node` that boot a machine: kilnd and its units on a real systemd, where documents come from, what keeps kubelet
//! from starting, and what comes back by itself.

mod booted;
mod support;

use booted::steps::Play;
use support::case::{Needs, compare, names, place};
use testkit::cases;

cases! {
    check:
    agent_after_the_configured_target = "booted-agent-after-the-configured-target",
    agent_waits_for_the_configured_target = "booted-agent-waits-for-the-configured-target",
    an_agent_starts_late_where_no_kubelet_is = "booted-agent-where-no-kubelet-is",
    clone_that_cannot_be_reset = "booted-clone-that-cannot-be-reset",
    document_comes_late = "booted-document-comes-late",
    first_boot = "booted-first-boot",
    kernel_arguments_at_first_boot = "booted-kernel-arguments-at-first-boot",
    machine_that_was_started_ahead = "booted-machine-that-was-started-ahead",
    metadata_closed_to_pods = "booted-metadata-closed-to-pods",
    nothing_asked_is_beyond_the_watch = "booted-nothing-asked-is-beyond-the-watch",
    old_medium_undoes_no_update = "booted-old-medium-undoes-no-update",
    refused_document_keeps_the_gate_shut = "booted-refused-document-keeps-the-gate-shut",
    second_boot_while_metadata_hangs = "booted-second-boot-while-metadata-hangs",
    sick_kubelet_comes_back = "booted-sick-kubelet-comes-back",
    trial_that_is_cut_off = "booted-trial-that-is-cut-off",
    trial_that_takes_the_machine_down_twice = "booted-trial-that-takes-the-machine-down-twice",
    unit_that_must_run = "booted-unit-that-must-run",
}

fn check(name: &str) {
    let case = place(name);
    let steps = std::fs::read_to_string(case.join("run")).expect("steps");
    compare(&case, &Play::run(&case, &steps));
}

#[test]
fn every_folder_is_a_case() {
    assert_eq!(names(Needs::Machine), LISTED);
}
