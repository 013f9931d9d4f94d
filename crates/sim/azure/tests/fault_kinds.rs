//! Each kind of fault.

mod common;

use common::{COMPUTE, Client, DISK, GALLERY, POOL, with_version};
use http::Method;
use serde_json::{Value, json};

fn pool(client: &Client) -> String {
    client.compute(&format!("virtualMachineScaleSets/{POOL}"))
}

fn stop(client: &Client) -> common::Got {
    client.post(&format!("{}/powerOff", pool(client)), COMPUTE, Some(&json!({"instanceIds": ["0"]})))
}

fn power(client: &Client) -> String {
    let view = client.get(&format!("{}/virtualMachines/0/instanceView", pool(client)), COMPUTE).body;
    view["statuses"][1]["code"].as_str().expect("a power state").to_owned()
}

fn ends(client: &Client, got: &common::Got) -> (String, String) {
    let end = client.operation(got);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&end["status"]), text(&end["error"]["code"]))
}

const STOP: &str = "method: POST, type: Microsoft.Compute/virtualMachineScaleSets, action: powerOff";

fn stopping_with(kind: &str) -> Client {
    Client::faulty(&format!("faults: [{{kind: {kind}, {STOP}}}]"))
}

#[tokio::test]
async fn applied_but_failed_has_effects_and_reports_failure() {
    let client = stopping_with("applied-but-failed");
    let got = stop(&client);
    assert_eq!(ends(&client, &got), ("Failed".into(), "InternalExecutionError".into()));
    assert_eq!(power(&client), "PowerState/stopped");
}

#[tokio::test]
async fn applied_but_failed_without_operation_is_a_500() {
    let client = Client::faulty("faults: [{kind: applied-but-failed, method: PUT, type: resourceGroups}]");
    let path = format!("/subscriptions/{}/resourceGroups/new", client.sim.spec().subscription_id);
    assert_eq!(client.put(&path, "2022-09-01", &json!({"location": "eastus"})).status, 500);
    assert_eq!(client.get(&path, "2022-09-01").status, 200);
}

#[tokio::test]
async fn success_but_not_applied_reports_success_without_effects() {
    let client = stopping_with("success-but-not-applied");
    let got = stop(&client);
    assert_eq!(ends(&client, &got).0, "Succeeded");
    assert_eq!(power(&client), "PowerState/running");
    // The second attempt works.
    client.done(stop(&client));
    assert_eq!(power(&client), "PowerState/stopped");
}

#[tokio::test]
async fn reset_after_processing_breaks_the_connection_after_the_write() {
    let client = stopping_with("reset-after-processing");
    let url = with_version(&format!("{}/powerOff", pool(&client)), COMPUTE);
    assert!(client.try_send(&Method::POST, &url, &[], Some(&json!({"instanceIds": ["0"]}))).is_none());
    assert_eq!(power(&client), "PowerState/stopped");
}

#[tokio::test]
async fn allocation_failed_leaves_the_vm_stopped() {
    let client = Client::faulty(
        "faults: [{kind: allocation-failed, method: POST, type: Microsoft.Compute/virtualMachineScaleSets, action: start}]",
    );
    client.done(stop(&client));
    let start = || client.post(&format!("{}/start", pool(&client)), COMPUTE, Some(&json!({"instanceIds": ["0"]})));
    let got = start();
    assert_eq!(ends(&client, &got), ("Failed".into(), "AllocationFailed".into()));
    assert_eq!(power(&client), "PowerState/stopped");
    client.done(start());
    assert_eq!(power(&client), "PowerState/running");
}

#[tokio::test]
async fn quota_exceeded_leaves_new_instances_failed() {
    let client = Client::faulty(
        "faults: [{kind: quota-exceeded, method: PATCH, type: Microsoft.Compute/virtualMachineScaleSets}]",
    );
    let got = client.patch(&pool(&client), COMPUTE, &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 11}}));
    assert_eq!(ends(&client, &got), ("Failed".into(), "QuotaExceeded".into()));
    let instance = client.get(&format!("{}/virtualMachines/10", pool(&client)), COMPUTE).body;
    assert_eq!(instance["properties"]["provisioningState"], "Failed");
    assert_eq!(client.get(&pool(&client), COMPUTE).body["properties"]["provisioningState"], "Failed");
}

#[tokio::test]
async fn zrs_not_supported_leaves_a_failed_version_that_blocks_its_name() {
    let client = Client::faulty(
        "faults: [{kind: zrs-not-supported, method: PUT, type: Microsoft.Compute/galleries/images/versions}]",
    );
    let version = format!("{}/2026.11.15", client.ready_for_version());
    let got = client.put(&version, GALLERY, &client.version_body("Standard_ZRS", false));
    let end = client.operation(&got);
    assert!(end["error"]["message"].as_str().is_some_and(|text| text.contains("detail:ZRS is not supported")), "{end}");
    assert_eq!(client.get(&version, GALLERY).body["properties"]["provisioningState"], "Failed");
    assert_eq!(
        client.put(&version, GALLERY, &client.version_body("Standard_LRS", false)).code(),
        "PropertyChangeNotAllowed"
    );
    client.done(client.delete(&version, GALLERY));
    client.done(client.put(&version, GALLERY, &client.version_body("Standard_LRS", false)));
}

#[tokio::test]
async fn status_url_missing_is_404_while_the_resource_is_correct() {
    let client = Client::faulty("faults: [{kind: status-url-missing, type: operations, times: 2}]");
    let got = stop(&client);
    let status = client.send(&Method::GET, got.header("azure-asyncoperation"), None);
    assert_eq!((status.status, status.code()), (404, "OperationNotFound"));
    assert_eq!(client.send(&Method::GET, got.header("location"), None).status, 404);
    assert_eq!(power(&client), "PowerState/stopped");
}

#[tokio::test]
async fn stale_read_returns_the_state_before_the_last_write() {
    let client =
        Client::faulty("faults: [{kind: stale-read, method: GET, type: Microsoft.Compute/virtualMachineScaleSets}]");
    client.done(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"run": "7"}})));
    let (stale, fresh) = (client.get(&pool(&client), COMPUTE), client.get(&pool(&client), COMPUTE));
    assert!(stale.body["tags"].get("run").is_none());
    assert_eq!(fresh.body["tags"]["run"], "7");
    assert_ne!(stale.header("etag"), fresh.header("etag"), "a write with the stale ETag would be rejected");
}

#[tokio::test]
async fn arm_and_compute_throttling_have_different_bodies() {
    let client = Client::faulty(
        "faults: [{kind: throttled-arm, method: GET, type: '*/snapshots'}, {kind: throttled-compute, method: GET, type: '*/disks'}]",
    );
    let arm = client.get(&client.compute("snapshots"), DISK);
    assert_eq!((arm.status, arm.code(), arm.header("retry-after")), (429, "SubscriptionRequestsThrottled", "1"));
    let compute = client.get(&client.compute("disks"), DISK);
    assert_eq!((compute.status, compute.code(), compute.header("retry-after")), (429, "OperationNotAllowed", "1"));
    assert_eq!(compute.body["error"]["details"][0]["code"], "TooManyRequests");
}

#[tokio::test]
async fn token_expires_invalidates_issued_tokens_only() {
    let mut client = Client::faulty("faults: [{kind: token-expires, type: operations}]");
    let got = stop(&client);
    let refused = client.send(&Method::GET, got.header("azure-asyncoperation"), None);
    assert_eq!((refused.status, refused.code()), (401, "ExpiredAuthenticationToken"));
    assert!(refused.header("www-authenticate").starts_with("Bearer "));
    assert_eq!(client.get(&pool(&client), COMPUTE).status, 401, "the old token remains invalid");
    client.login();
    assert_eq!(client.operation(&got)["status"], "Succeeded");
}

#[tokio::test]
async fn preempted_operation_reports_being_superseded() {
    let client = stopping_with("preempted");
    let got = stop(&client);
    assert_eq!(ends(&client, &got), ("Failed".into(), "OperationPreempted".into()));
    assert_eq!(power(&client), "PowerState/running");
}
