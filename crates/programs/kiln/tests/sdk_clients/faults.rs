//! Each kind of fault, as a real client sees it.

use crate::azure::Azure;

/// Runs the scenario with one rule in the fault plan.
#[track_caller]
fn run_with_fault(scenario: &str, rule: &str) {
    Azure::default().faults(&format!("faults:\n- {{{rule}}}\n")).plays("faults", scenario);
}

#[test]
fn applied_but_failed_reports_failure_with_effect() {
    run_with_fault("applied_but_failed", "kind: applied-but-failed, method: PUT, type: Microsoft.Compute/snapshots");
}

#[test]
fn success_but_not_applied_reports_success_without_effect() {
    run_with_fault(
        "success_but_not_applied",
        "kind: success-but-not-applied, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets",
    );
}

#[test]
fn reset_after_processing_breaks_the_connection_of_an_executed_write() {
    run_with_fault(
        "reset_after_processing",
        "kind: reset-after-processing, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets",
    );
}

#[test]
fn allocation_failed_leaves_the_vm_off() {
    run_with_fault(
        "allocation_failed",
        "kind: allocation-failed, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, action: start",
    );
}

#[test]
fn quota_exceeded_fails_a_scale_out() {
    run_with_fault(
        "quota_exceeded",
        "kind: quota-exceeded, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets",
    );
}

#[test]
fn zrs_not_supported_fails_an_image_version() {
    run_with_fault(
        "zrs_not_supported",
        "kind: zrs-not-supported, method: PUT, type: Microsoft.Compute/galleries/images/versions",
    );
}

#[test]
fn status_url_missing_hides_a_running_operation() {
    run_with_fault("status_url_missing", "kind: status-url-missing, type: operations, times: 2");
}

#[test]
fn stale_read_returns_the_state_before_the_last_write() {
    run_with_fault(
        "stale_read",
        "kind: stale-read, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, skip: 1",
    );
}

#[test]
fn token_expires_during_an_operation() {
    run_with_fault("token_expires", "kind: token-expires, type: operations");
}

#[test]
fn preempted_operation_fails() {
    run_with_fault(
        "preempted",
        "kind: preempted, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, action: powerOff",
    );
}

#[test]
fn fault_rule_selects_requests() {
    run_with_fault(
        "rules_choose_their_requests",
        "kind: allocation-failed, type: Microsoft.Compute/virtualMachineScaleSets/virtualMachines, name: '*/0', action: start, skip: 1, times: 2",
    );
}
