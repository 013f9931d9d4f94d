//! The cases of `tests/node` that boot a machine with kilnd and its units on a real systemd: sources of NodeConfigs, the gate, reverts.

mod booted;
mod support;

use booted::steps::Runner;
use support::case::{Needs, case_path, compare, names};
use testkit::cases;

cases! {
    check:
    agent_after_the_configured_target = "booted-agent-after-the-configured-target",
    agent_waits_for_the_configured_target = "booted-agent-waits-for-the-configured-target",
    agent_starts_late_without_a_kubelet = "booted-agent-without-kubelet",
    clone_that_cannot_be_reset = "booted-clone-that-cannot-be-reset",
    first_boot = "booted-first-boot",
    interrupted_trial = "booted-interrupted-trial",
    kernel_arguments_at_first_boot = "booted-kernel-arguments-at-first-boot",
    document_arrives_late = "booted-late-document",
    metadata_service_blocked_for_pods = "booted-metadata-blocked-for-pods",
    network_settings = "booted-network-settings",
    old_provisioning_media_does_not_undo_an_update = "booted-old-media-keep-the-update",
    preprovisioned_machine = "booted-preprovisioned",
    rejected_document_keeps_the_gate_closed = "booted-rejected-document-keeps-the-gate-closed",
    second_boot_while_metadata_hangs = "booted-second-boot-while-metadata-hangs",
    trial_that_crashes_the_machine_twice_is_reverted = "booted-trial-with-two-reboots",
    unhealthy_kubelet_is_reverted = "booted-unhealthy-kubelet-is-reverted",
    required_unit = "booted-unit-gate",
    watch_can_apply_every_field = "booted-watch-applies-every-field",
}

fn check(name: &str) {
    let case = case_path(name);
    let steps = std::fs::read_to_string(case.join("run")).expect("steps");
    compare(&case, &Runner::run(&case, &steps));
}

#[test]
fn every_folder_is_a_case() {
    assert_eq!(names(Needs::Machine), LISTED);
}
