//! Rules for all resources.

use crate::azure::Azure;

/// Operations that take about two real seconds at the given speed, so that a poller sees them running and does not wait long.
const SLOW: &str = "profile: {gallery: 1200, snapshot: 1200, powerOff: 1200, delete: 600}\n";

fn slow() -> Azure {
    Azure::default().world(SLOW).speed("600")
}

#[test]
fn long_operation_is_polled_by_status_url() {
    slow().plays("arm", "long_operations_by_status_url");
}

#[test]
fn long_operation_is_polled_by_location() {
    slow().plays("arm", "long_operations_by_location");
}

#[test]
fn long_operation_is_polled_by_resource_state() {
    slow().plays("arm", "long_operations_by_resource_state");
}

#[test]
fn long_operation_is_resumed_by_another_client() {
    slow().plays("arm", "long_operations_outlive_their_client");
}

#[test]
fn second_operation_on_a_locked_resource_is_rejected() {
    slow().plays("arm", "two_operations_on_one_resource");
}

#[test]
fn sdk_follows_pages_of_lists() {
    Azure::default().world("pageSize: 3\n").plays("arm", "lists_come_in_pages");
}

#[test]
fn writes_of_scale_sets_and_instances_can_be_conditional() {
    Azure::default().plays("arm", "writes_can_be_conditional");
}

#[test]
fn throttled_reads_of_both_kinds_are_retried_after_the_wait() {
    let faults = "faults:
    - {kind: throttled-arm, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, times: 2}
    - {kind: throttled-compute, method: GET, type: Microsoft.Compute/disks, times: 2}\n";
    Azure::default().faults(faults).plays("arm", "throttled_reads_are_tried_again");
}

#[test]
fn throttled_write_is_not_executed() {
    let faults = "faults:
    - {kind: throttled-compute, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets, times: 2}\n";
    Azure::default().faults(faults).plays("arm", "throttling_of_writes");
}

#[test]
fn request_limits_are_reached_and_recover() {
    Azure::default().world("throttling: true\n").plays("arm", "budgets_run_out");
}

#[test]
fn api_versions_are_checked_per_resource_type() {
    Azure::default().plays("arm", "versions_are_checked_per_type");
}

#[test]
fn paths_ignore_case() {
    Azure::default().plays("arm", "paths_ignore_case");
}

#[test]
fn all_errors_have_the_same_envelope() {
    Azure::default().plays("arm", "errors_have_one_envelope");
}

#[test]
fn all_responses_have_request_ids() {
    Azure::default().plays("arm", "requests_have_ids");
}

#[test]
fn client_discovers_cloud_subscriptions_and_groups() {
    Azure::default().plays("arm", "clouds_and_subscriptions_are_found");
}
