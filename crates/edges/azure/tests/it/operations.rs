//! Long operations: three ways to watch one, and a handle that outlives its process.

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
async fn the_operations_own_url_comes_first_and_its_retry_after_is_kept() {
    let script = Script::new([
        accepted().header("azure-asyncoperation", STATUS).header("location", LOCATION).header("retry-after", "5"),
        on("GET", "/operations/o").answers(200, &status("InProgress")).header("retry-after", "30"),
        on("GET", "/operations/o").answers(200, &status("Succeeded")),
    ]);
    let handle = begin(&script).await;
    let began = Instant::now();
    azure(&script).settle(&handle).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(35));
    script.done();
}

#[tokio::test(start_paused = true)]
async fn without_it_the_place_of_the_result_is_watched() {
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
    script.done();
}

#[tokio::test(start_paused = true)]
async fn without_both_the_resource_itself_is_watched() {
    let script = Script::new([
        accepted(),
        on("GET", "/snapshots/snap").answers(200, &snapshot("Creating")),
        on("GET", "/snapshots/snap").answers(200, &snapshot("Succeeded")),
    ]);
    let handle = begin(&script).await;
    azure(&script).settle(&handle).await.unwrap();
    script.done();
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_azure_forgot_is_judged_by_its_resource() {
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
        script.done();
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_operation_with_a_failed_or_missing_resource_has_failed() {
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
async fn a_forgotten_deletion_is_done_when_the_resource_is_gone() {
    let script = Script::new([
        on("DELETE", "/snapshots/snap").answers(202, &json!(null)).header("azure-asyncoperation", STATUS),
        on("GET", "/operations/o").fails(404, "NotFound", "no such operation"),
        on("GET", "/snapshots/snap").fails(404, "ResourceNotFound", "none"),
    ]);
    let azure = azure(&script);
    let handle = azure.delete_snapshot(&"snap".parse().unwrap()).await.unwrap();
    assert_eq!(azure.observe(&handle).await.unwrap(), OperationState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_failed_operation_says_why_and_what_that_means() {
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
async fn a_finished_answer_is_not_asked_about_again() {
    let script = Script::new([on("PUT", "/snapshots/snap").answers(200, &snapshot("Succeeded"))]);
    let handle = begin(&script).await;
    assert_eq!(azure(&script).observe(&handle).await.unwrap(), OperationState::Succeeded);
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_taken_up_by_another_client_from_its_text_alone() {
    let script = Script::new([accepted().header("azure-asyncoperation", STATUS).header("retry-after", "5")]);
    let stored = serde_json::to_string(&begin(&script).await).unwrap();

    let later =
        Script::new([on("GET", "/operations/o").answers(200, &json!({"status": "Running", "percentComplete": 40.0}))]);
    let handle: OperationHandle = serde_json::from_str(&stored).unwrap();
    let state = azure(&later).observe(&handle).await.unwrap();
    assert_eq!(state, OperationState::Running(Progress { retry_after: None, percent: Some(40.0) }));
    assert!(later.asked()[0].query.contains("t=signature"), "the URL is opaque and used whole");
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_not_ours_is_refused() {
    let error = azure(&Script::default()).observe(&OperationHandle::new("nonsense")).await.unwrap_err();
    assert!(matches!(error, Error::Handle(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lists_follow_their_pages() {
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
    script.done();
}
