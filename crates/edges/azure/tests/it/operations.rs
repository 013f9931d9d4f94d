//! Long-running operations: the three ways to poll one, and handles that outlive their process.

use std::time::Duration;

use kiln_azure::Error;
use kiln_types::{ErrorClass, Factory, OperationHandle, OperationState, Progress, SnapshotRequest, Tags};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Script, Step, azure, on};

const STATUS: &str = "https://arm.example/subscriptions/s/providers/Microsoft.Compute/locations/westus2/operations/o?api-version=x&t=signature";
const LOCATION: &str =
    "https://arm.example/subscriptions/s/providers/Microsoft.Compute/locations/westus2/results/o?api-version=x";

fn request() -> SnapshotRequest {
    SnapshotRequest {
        name: "snap".parse().unwrap(),
        location: "westus2".into(),
        disk: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d".into(),
        encryption_set: None,
        tags: Tags::new(),
    }
}

fn accepted() -> Step {
    on("PUT", "/snapshots/snap").answers(202, &json!(null))
}

fn status(word: &str) -> Value {
    json!({"status": word, "startTime": "2026-11-15T00:00:00Z", "name": "o"})
}

fn snapshot(state: &str) -> Value {
    json!({"name": "snap", "id": "/x", "location": "westus2", "properties": {"provisioningState": state}})
}

async fn begin(script: &Script) -> OperationHandle {
    azure(script).snapshot_os_disk(&request()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn operation_url_is_preferred_and_retry_after_is_respected() {
    let script = Script::new([
        accepted().header("azure-asyncoperation", STATUS).header("location", LOCATION).header("retry-after", "5"),
        on("GET", "/operations/o").answers(200, &status("InProgress")).header("retry-after", "30"),
        on("GET", "/operations/o").answers(200, &status("Succeeded")),
    ]);
    let handle = begin(&script).await;
    let began = Instant::now();
    azure(&script).settle(&handle).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(35));
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn result_url_is_polled_without_an_operation_url() {
    let script = Script::new([
        accepted().header("location", LOCATION),
        on("GET", "/results/o").answers(202, &json!(null)).header("retry-after", "3"),
        on("GET", "/results/o").answers(204, &json!(null)),
    ]);
    let handle = begin(&script).await;
    let azure = azure(&script);
    let running = azure.observe(&handle).await.unwrap();
    assert_eq!(running, OperationState::Running(Progress { retry_after: Some(Duration::from_secs(3)), percent: None }));
    assert_eq!(azure.observe(&handle).await.unwrap(), OperationState::Succeeded);
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn resource_is_polled_without_any_url() {
    let script = Script::new([
        accepted(),
        on("GET", "/snapshots/snap").answers(200, &snapshot("Creating")),
        on("GET", "/snapshots/snap").answers(200, &snapshot("Succeeded")),
    ]);
    let handle = begin(&script).await;
    azure(&script).settle(&handle).await.unwrap();
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn forgotten_operation_is_decided_by_its_resource() {
    for (state, expected) in
        [("Updating", OperationState::Running(Progress::default())), ("Succeeded", OperationState::Succeeded)]
    {
        let script = Script::new([
            accepted().header("azure-asyncoperation", STATUS),
            on("GET", "/operations/o").fails(404, "NotFound", "no such operation"),
            on("GET", "/snapshots/snap").answers(200, &snapshot(state)),
        ]);
        let handle = begin(&script).await;
        assert_eq!(azure(&script).observe(&handle).await.unwrap(), expected);
        script.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn forgotten_operation_with_failed_or_missing_resource_has_failed() {
    for (answer, class) in [
        (on("GET", "/snapshots/snap").answers(200, &snapshot("Failed")), ErrorClass::Transient),
        (on("GET", "/snapshots/snap").fails(404, "ResourceNotFound", "none"), ErrorClass::NotFound),
    ] {
        let script = Script::new([
            accepted().header("azure-asyncoperation", STATUS),
            on("GET", "/operations/o").fails(404, "NotFound", "no such operation"),
            answer,
        ]);
        let handle = begin(&script).await;
        let OperationState::Failed(failure) = azure(&script).observe(&handle).await.unwrap() else {
            panic!("not failed")
        };
        assert_eq!(failure.class, class);
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_has_succeeded_when_the_resource_is_gone() {
    let deleted = || on("DELETE", "/snapshots/snap").answers(202, &json!(null)).header("azure-asyncoperation", STATUS);
    let read = |state: &str| on("GET", "/snapshots/snap").answers(200, &snapshot(state));
    let observe = async |answers: Vec<_>| {
        let script = Script::new(std::iter::once(deleted()).chain(answers));
        let azure = azure(&script);
        let handle = azure.delete_snapshot(&"snap".parse().unwrap()).await.unwrap();
        let state = azure.observe(&handle).await.unwrap();
        script.assert_finished();
        state
    };
    let gone = on("GET", "/snapshots/snap").fails(404, "ResourceNotFound", "none");
    assert_eq!(observe(vec![gone]).await, OperationState::Succeeded);
    assert!(matches!(observe(vec![read("Deleting")]).await, OperationState::Running(_)));
    // A resource that is not being deleted: the operation knows why.
    let operation = |status: &str| on("GET", "/operations/o").answers(200, &json!({"status": status}));
    assert!(matches!(observe(vec![read("Succeeded"), operation("InProgress")]).await, OperationState::Running(_)));
    for answers in [
        vec![read("Succeeded"), operation("Succeeded")],
        vec![
            read("Succeeded"),
            on("GET", "/operations/o").fails(404, "NotFound", "no such operation"),
            read("Succeeded"),
        ],
    ] {
        let OperationState::Failed(failure) = observe(answers).await else { panic!("not failed") };
        assert_eq!(failure.class, ErrorClass::Transient, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_operation_has_reason_and_class() {
    let failed = json!({"status": "Failed", "error": {"code": "AllocationFailed", "message": "no capacity"}});
    let script = Script::new([
        accepted().header("azure-asyncoperation", STATUS),
        on("GET", "/operations/o").answers(200, &failed),
        on("GET", "/operations/o").answers(200, &failed),
    ]);
    let handle = begin(&script).await;
    let azure = azure(&script);
    let OperationState::Failed(failure) = azure.observe(&handle).await.unwrap() else { panic!("not failed") };
    assert_eq!((failure.code.as_str(), failure.class), ("AllocationFailed", ErrorClass::Capacity));
    let error = azure.settle(&handle).await.unwrap_err();
    assert!(matches!(&error, Error::Failed { .. }) && error.to_string().contains("no capacity"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn finished_response_is_not_polled() {
    let script = Script::new([on("PUT", "/snapshots/snap").answers(200, &snapshot("Succeeded"))]);
    let handle = begin(&script).await;
    assert_eq!(azure(&script).observe(&handle).await.unwrap(), OperationState::Succeeded);
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn another_client_can_poll_a_stored_handle() {
    let script = Script::new([accepted().header("azure-asyncoperation", STATUS).header("retry-after", "5")]);
    let stored = serde_json::to_string(&begin(&script).await).unwrap();

    let later =
        Script::new([on("GET", "/operations/o").answers(200, &json!({"status": "Running", "percentComplete": 40.0}))]);
    let handle: OperationHandle = serde_json::from_str(&stored).unwrap();
    let state = azure(&later).observe(&handle).await.unwrap();
    assert_eq!(state, OperationState::Running(Progress { retry_after: None, percent: Some(40.0) }));
    assert!(later.requests()[0].query.contains("t=signature"), "the URL is opaque and used unchanged");
}

#[tokio::test(start_paused = true)]
async fn invalid_handles_are_rejected() {
    let error = azure(&Script::default()).observe(&OperationHandle::new("nonsense")).await.unwrap_err();
    assert!(matches!(error, Error::Handle(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lists_follow_next_links() {
    let set = |name: &str| json!({"name": name, "location": "westus2", "properties": {}});
    let script = Script::new([
        on("GET", "/virtualMachineScaleSets").answers(
            200,
            &json!({"value": [set("a")], "nextLink": "https://arm.example/page2?api-version=x&$skiptoken=2"}),
        ),
        on("GET", "/page2").answers(200, &json!({"value": [set("b")], "nextLink": ""})),
    ]);
    let names: Vec<_> = azure(&script).pools().await.unwrap().into_iter().map(|p| p.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    script.assert_finished();
}
