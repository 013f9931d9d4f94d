//! Each fault kind by name, as a real client meets it.

use crate::azure::Azure;

/// Plays the scenario with one rule in the plan.
#[track_caller]
fn plays(scenario: &str, rule: &str) {
    Azure::default().faults(&format!("faults:\n- {{{rule}}}\n")).plays("faults", scenario);
}

#[test]
fn applied_but_failed_says_failed_and_did_it() {
    plays("applied_but_failed", "kind: applied-but-failed, method: PUT, type: Microsoft.Compute/snapshots");
}

#[test]
fn success_but_not_applied_says_succeeded_and_did_nothing() {
    plays(
        "success_but_not_applied",
        "kind: success-but-not-applied, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets",
    );
}

#[test]
fn reset_after_processing_breaks_the_connection_of_a_write_that_was_done() {
    plays(
        "reset_after_processing",
        "kind: reset-after-processing, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets",
    );
}

#[test]
fn allocation_failed_leaves_the_machine_off() {
    plays(
        "allocation_failed",
        "kind: allocation-failed, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, action: start",
    );
}

#[test]
fn quota_exceeded_fails_a_scale_out() {
    plays("quota_exceeded", "kind: quota-exceeded, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets");
}

#[test]
fn zrs_not_supported_fails_an_image_version() {
    plays(
        "zrs_not_supported",
        "kind: zrs-not-supported, method: PUT, type: Microsoft.Compute/galleries/images/versions",
    );
}

#[test]
fn status_url_missing_hides_an_operation_that_goes_on() {
    plays("status_url_missing", "kind: status-url-missing, type: operations, times: 2");
}

#[test]
fn stale_read_gives_what_was_there_before_the_last_write() {
    plays("stale_read", "kind: stale-read, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, skip: 1");
}

#[test]
fn token_expires_inside_an_operation() {
    plays("token_expires", "kind: token-expires, type: operations");
}

#[test]
fn preempted_fails_an_operation_for_a_later_one() {
    plays(
        "preempted",
        "kind: preempted, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, action: powerOff",
    );
}

#[test]
fn a_rule_of_the_plan_chooses_its_requests() {
    plays(
        "rules_choose_their_requests",
        "kind: allocation-failed, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, name: '*/0', action: start, skip: 1, times: 2",
    );
}
