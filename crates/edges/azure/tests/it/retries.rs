//! Requests are sent again by what the error says.

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
async fn both_kinds_of_throttling_are_waited_out_as_azure_asks() {
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
    script.done();
}

#[tokio::test(start_paused = true)]
async fn throttling_that_does_not_end_is_given_up_with_its_class() {
    let throttled =
        || on("GET", "/snapshots/snapshot_pool").fails(429, "TooManyRequests", "no").header("retry-after", "1");
    let script = Script::new((0..10).map(|_| throttled()));
    let error = azure(&script).find_snapshot(&snapshot()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Throttled);
    assert!(error.retryable());
    script.done();
}

#[tokio::test(start_paused = true)]
async fn another_operation_in_progress_is_waited_for() {
    let busy = "Another operation is in progress on this resource.";
    let script = Script::new([
        on("POST", "/virtualMachines/0/poweroff").fails(409, "OperationNotAllowed", busy),
        on("POST", "/virtualMachines/0/poweroff").fails(409, "Conflict", busy),
        on("POST", "/virtualMachines/0/poweroff")
            .answers(202, &json!(null))
            .header("location", "https://arm.example/l"),
    ]);
    azure(&script).power_off(&pool(), &"0".parse().unwrap(), PowerDown::KeepHardware).await.unwrap();
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_core_limit_is_reported_and_not_waited_for() {
    let limit = "Operation could not be completed as it results in exceeding approved standardDSv3Family Cores quota.";
    let script = Script::new([on("POST", "/virtualMachines/0/start").fails(409, "OperationNotAllowed", limit)]);
    let error = azure(&script).start(&pool(), &"0".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Quota);
    assert!(!error.retryable());
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_somebody_else_overtook_is_never_repeated() {
    let script = Script::new([on("PATCH", "/virtualMachineScaleSets/pool").fails(412, "PreconditionFailed", "etag")]);
    let error =
        azure(&script).set_recipe(&pool(), &RecipeChange::default(), &Revision::new("\"1\"")).await.unwrap_err();
    assert!(error.precondition());
    assert_eq!(script.asked()[0].if_match.as_deref(), Some("\"1\""));
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_and_a_5xx_are_repeated_where_that_is_safe() {
    let script = Script::new([
        on("GET", "/snapshots/snapshot_pool").resets(),
        on("GET", "/snapshots/snapshot_pool").fails(503, "ServerBusy", "later"),
        on("GET", "/snapshots/snapshot_pool").answers(502, &json!(null)),
        on("GET", "/snapshots/snapshot_pool").fails(404, "ResourceNotFound", "none"),
    ]);
    assert_eq!(azure(&script).find_snapshot(&snapshot()).await.unwrap(), None);
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_stays_broken_is_an_error_that_names_the_request_and_says_retry() {
    let script = Script::new((0..6).map(|_| on("GET", "/snapshots/snapshot_pool").resets()));
    let error = azure(&script).find_snapshot(&snapshot()).await.unwrap_err();
    assert!(error.retryable());
    let text = error.to_string();
    assert!(text.starts_with("GET /subscriptions/s/resourceGroups/g/"), "{text}");
    assert!(text.contains("connection reset by peer") && text.contains("6 attempts"), "{text}");
    script.done();
}

#[tokio::test(start_paused = true)]
async fn an_error_carries_code_message_target_causes_and_correlation_id() {
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
async fn each_request_has_its_own_id() {
    let script =
        Script::new((0..2).map(|_| on("GET", "/snapshots/snapshot_pool").fails(404, "ResourceNotFound", "none")));
    let azure = azure(&script);
    for _ in 0..2 {
        azure.find_snapshot(&snapshot()).await.unwrap();
    }
    let ids: Vec<_> = script.asked().into_iter().map(|a| a.client_request_id.unwrap()).collect();
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_told_with_the_place_in_it() {
    let script =
        Script::new([on("GET", "/virtualMachineScaleSets/pool").answers(200, &json!({"name": "pool", "location": 7}))]);
    let error = azure(&script).describe_pool(&pool()).await.unwrap_err();
    assert!(error.to_string().contains("`location`"), "{error}");
}
