//! Retries by class of error.

use std::time::Duration;

use kiln_azure::Error;
use kiln_types::{ErrorClass, Factory, FactoryError, PoolName, PowerDown, RecipeChange, Revision, SnapshotName};
use serde_json::json;
use tokio::time::Instant;

use crate::script::{Script, azure, on};

fn snapshot() -> SnapshotName {
    "snapshot_pool".parse().unwrap()
}

fn pool() -> PoolName {
    "pool".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn both_kinds_of_throttling_wait_for_retry_after() {
    let compute = json!({"error": {"code": "OperationNotAllowed", "message": "too many", "details": [{"code": "TooManyRequests", "message": "{}"}]}});
    let script = Script::new([
        on("GET", "/snapshots/snapshot_pool")
            .fails(429, "SubscriptionRequestsThrottled", "slow down")
            .header("retry-after", "17"),
        on("GET", "/snapshots/snapshot_pool").answers(429, &compute).header("retry-after", "300"),
        on("GET", "/snapshots/snapshot_pool").fails(404, "ResourceNotFound", "none"),
    ]);
    let began = Instant::now();
    assert_eq!(azure(&script).find_snapshot(&snapshot()).await.unwrap(), None);
    assert_eq!(began.elapsed(), Duration::from_secs(317));
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn persistent_throttling_fails_with_its_class() {
    let throttled =
        || on("GET", "/snapshots/snapshot_pool").fails(429, "TooManyRequests", "no").header("retry-after", "1");
    let script = Script::new((0..10).map(|_| throttled()));
    let error = azure(&script).find_snapshot(&snapshot()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Throttled);
    assert!(error.retryable());
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn conflicting_operation_is_waited_for() {
    let busy = "Another operation is in progress on this resource.";
    let script = Script::new([
        on("POST", "/virtualMachines/0/poweroff").fails(409, "OperationNotAllowed", busy),
        on("POST", "/virtualMachines/0/poweroff").fails(409, "Conflict", busy),
        on("POST", "/virtualMachines/0/poweroff")
            .answers(202, &json!(null))
            .header("location", "https://arm.example/l"),
    ]);
    azure(&script).power_off(&pool(), &"0".parse().unwrap(), PowerDown::KeepHardware).await.unwrap();
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn exceeded_quota_is_not_retried() {
    let limit = "Operation could not be completed as it results in exceeding approved standardDSv3Family Cores quota.";
    let script = Script::new([on("POST", "/virtualMachines/0/start").fails(409, "OperationNotAllowed", limit)]);
    let error = azure(&script).start(&pool(), &"0".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Quota);
    assert!(!error.retryable());
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn failed_precondition_is_not_retried() {
    let script = Script::new([on("PATCH", "/virtualMachineScaleSets/pool").fails(412, "PreconditionFailed", "etag")]);
    let error =
        azure(&script).set_recipe(&pool(), &RecipeChange::default(), &Revision::new("\"1\"")).await.unwrap_err();
    assert!(error.precondition());
    assert_eq!(script.requests()[0].if_match.as_deref(), Some("\"1\""));
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn broken_connections_and_5xx_are_retried_for_idempotent_requests() {
    let script = Script::new([
        on("GET", "/snapshots/snapshot_pool").resets(),
        on("GET", "/snapshots/snapshot_pool").fails(503, "ServerBusy", "later"),
        on("GET", "/snapshots/snapshot_pool").answers(502, &json!(null)),
        on("GET", "/snapshots/snapshot_pool").fails(404, "ResourceNotFound", "none"),
    ]);
    assert_eq!(azure(&script).find_snapshot(&snapshot()).await.unwrap(), None);
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn persistently_broken_connection_is_a_retryable_error_that_names_the_request() {
    let script = Script::new((0..6).map(|_| on("GET", "/snapshots/snapshot_pool").resets()));
    let error = azure(&script).find_snapshot(&snapshot()).await.unwrap_err();
    assert!(error.retryable());
    let text = error.to_string();
    assert!(text.starts_with("GET /subscriptions/s/resourceGroups/g/"), "{text}");
    assert!(text.contains("connection reset by peer") && text.contains("6 attempts"), "{text}");
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn error_has_code_message_target_details_and_correlation_id() {
    let body = json!({"error": {"code": "InvalidParameter", "message": "no such size", "target": "vmSize",
        "details": [{"code": "Inner", "message": "why"}]}});
    let script = Script::new([on("PATCH", "/virtualMachineScaleSets/pool")
        .answers(400, &body)
        .header("x-ms-correlation-request-id", "c-42")]);
    let error =
        azure(&script).set_recipe(&pool(), &RecipeChange::default(), &Revision::new("\"1\"")).await.unwrap_err();
    let Error::Answered { status, detail, class, correlation_id, attempts, .. } = &error else { panic!("{error}") };
    assert_eq!((*status, *class, *attempts), (400, ErrorClass::Invalid, 1));
    assert_eq!((detail.code.as_str(), detail.target.as_deref()), ("InvalidParameter", Some("vmSize")));
    assert_eq!(detail.details[0].code, "Inner");
    assert_eq!(correlation_id.as_deref(), Some("c-42"));
    assert!(error.to_string().contains("c-42"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn each_request_has_a_unique_id() {
    let script =
        Script::new((0..2).map(|_| on("GET", "/snapshots/snapshot_pool").fails(404, "ResourceNotFound", "none")));
    let azure = azure(&script);
    for _ in 0..2 {
        azure.find_snapshot(&snapshot()).await.unwrap();
    }
    let ids: Vec<_> = script.requests().into_iter().map(|a| a.client_request_id.unwrap()).collect();
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn unexpected_response_error_names_the_json_path() {
    let script =
        Script::new([on("GET", "/virtualMachineScaleSets/pool").answers(200, &json!({"name": "pool", "location": 7}))]);
    let error = azure(&script).describe_pool(&pool()).await.unwrap_err();
    assert!(error.to_string().contains("`location`"), "{error}");
}
