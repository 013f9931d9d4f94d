//! What holds for all resources alike.

use crate::azure::Azure;

/// Operations of about two real seconds at the speed that goes with it, so that a poller sees them running and is not kept for long.
const SLOW: &str = "profile: {gallery: 1200, powerOff: 1200, delete: 600}\n";

fn slow() -> Azure {
    Azure::default().world(SLOW).speed("600")
}

#[test]
fn a_long_operation_is_polled_by_its_status_url() {
    slow().plays("arm", "long_operations_by_status_url");
}

#[test]
fn a_long_operation_is_polled_by_its_location() {
    slow().plays("arm", "long_operations_by_location");
}

#[test]
fn a_long_operation_is_polled_by_the_state_of_its_resource() {
    slow().plays("arm", "long_operations_by_resource_state");
}

#[test]
fn a_long_operation_is_taken_up_by_another_client() {
    slow().plays("arm", "long_operations_outlive_their_client");
}

#[test]
fn a_second_operation_on_a_busy_resource_is_refused() {
    slow().plays("arm", "two_operations_on_one_resource");
}

#[test]
fn lists_come_in_pages_that_the_sdk_follows() {
    Azure::default().world("pageSize: 3\n").plays("arm", "lists_come_in_pages");
}

#[test]
fn writes_of_scale_sets_and_instances_can_depend_on_an_etag() {
    Azure::default().plays("arm", "writes_can_be_conditional");
}

#[test]
fn throttled_reads_of_both_kinds_are_tried_again_after_the_wait() {
    let faults = "faults:
    - {kind: throttled-arm, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, times: 2}
    - {kind: throttled-compute, method: GET, type: Microsoft.Compute/disks, times: 2}\n";
    Azure::default().faults(faults).plays("arm", "throttled_reads_are_tried_again");
}

#[test]
fn a_throttled_write_is_not_carried_out() {
    let faults = "faults:
    - {kind: throttled-compute, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets, times: 2}\n";
    Azure::default().faults(faults).plays("arm", "throttling_of_writes");
}

#[test]
fn request_budgets_run_out_and_fill_again() {
    Azure::default().world("throttling: true\n").plays("arm", "budgets_run_out");
}

#[test]
fn api_versions_are_checked_per_resource_type() {
    Azure::default().plays("arm", "versions_are_checked_per_type");
}

#[test]
fn paths_match_in_any_case() {
    Azure::default().plays("arm", "paths_match_in_any_case");
}

#[test]
fn every_error_has_the_same_envelope() {
    Azure::default().plays("arm", "errors_have_one_envelope");
}

#[test]
fn every_answer_carries_request_ids() {
    Azure::default().plays("arm", "requests_have_ids");
}

#[test]
fn a_client_finds_cloud_subscriptions_and_groups() {
    Azure::default().plays("arm", "clouds_and_subscriptions_are_found");
}
