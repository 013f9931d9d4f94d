//! Each kind of fault of the embedded Azure, as the client sees it.

use std::time::Duration;

use kiln_azure::{Azure, Error};
use kiln_types::{
    ErrorClass, Factory, FactoryError, OperationState, Pool, PowerDown, PowerState, Provisioning, SnapshotRequest, Tags,
};
use tokio::time::Instant;

use crate::embedded::Embedded;

const SET: &str = "Microsoft.Compute/virtualMachineScaleSets";
const SNAPSHOT: &str = "Microsoft.Compute/snapshots";

struct Faulty {
    embedded: Embedded,
    azure: Azure,
}

impl Faulty {
    fn new(rule: &str) -> Self {
        let embedded = Embedded::in_real_pace(&format!("faults: [{{{rule}}}]"));
        let azure = embedded.azure();
        Self { embedded, azure }
    }

    async fn pool(&self) -> Pool {
        self.azure.describe_pool(&self.embedded.pool()).await.unwrap()
    }

    /// Tags the pool and waits. Returns the tags that it should have afterwards.
    async fn tag(&self, read: &Pool) -> (Tags, Result<(), Error>) {
        let change = Tags::from([("kiln-run".to_owned(), "r1".to_owned())]);
        let begun = self.azure.tag_pool(read, &change).await;
        let outcome = match begun {
            Ok(handle) => self.azure.settle(&handle).await,
            Err(error) => Err(error),
        };
        let mut tags = read.tags.clone();
        tags.extend(change);
        (tags, outcome)
    }

    async fn snapshot(&self) -> Result<(), Error> {
        let instance = self.azure.describe_instance(&self.embedded.pool(), &"0".parse().unwrap()).await?;
        let request = SnapshotRequest {
            name: "snap".parse().unwrap(),
            location: "westus2".into(),
            disk: instance.os_disk.unwrap(),
            encryption_set: None,
            tags: Tags::new(),
        };
        let handle = self.azure.snapshot_os_disk(&request).await?;
        self.azure.settle(&handle).await
    }
}

#[tokio::test(start_paused = true)]
async fn applied_but_failed_is_an_error_and_reading_shows_the_change() {
    let faulty = Faulty::new(&format!("kind: applied-but-failed, method: PATCH, type: {SET}"));
    let (tags, outcome) = faulty.tag(&faulty.pool().await).await;
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Failed { .. }) && error.retryable(), "{error}");
    assert_eq!(faulty.pool().await.tags, tags);
}

#[tokio::test(start_paused = true)]
async fn success_but_not_applied_is_detected_by_reading() {
    let faulty = Faulty::new(&format!("kind: success-but-not-applied, method: PATCH, type: {SET}"));
    let (tags, outcome) = faulty.tag(&faulty.pool().await).await;
    outcome.unwrap();
    let read = faulty.pool().await;
    assert_ne!(read.tags, tags);
    let (tags, outcome) = faulty.tag(&read).await;
    outcome.unwrap();
    assert_eq!(faulty.pool().await.tags, tags);
}

#[tokio::test(start_paused = true)]
async fn creation_with_lost_response_is_retried_and_applied_once() {
    let faulty = Faulty::new(&format!("kind: reset-after-processing, method: PUT, type: {SNAPSHOT}"));
    faulty.snapshot().await.unwrap();
    let snapshot = faulty.azure.find_snapshot(&"snap".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(snapshot.provisioning, Provisioning::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn conditional_write_with_lost_response_fails_with_precondition_and_is_applied_once() {
    let faulty = Faulty::new(&format!("kind: reset-after-processing, method: PATCH, type: {SET}"));
    let (tags, outcome) = faulty.tag(&faulty.pool().await).await;
    assert!(outcome.unwrap_err().precondition());
    assert_eq!(faulty.pool().await.tags, tags);
}

#[tokio::test(start_paused = true)]
async fn start_without_capacity_is_a_capacity_error() {
    let faulty = Faulty::new(&format!("kind: allocation-failed, type: {SET}/virtualMachines, action: start"));
    let (pool, id) = (faulty.embedded.pool(), "0".parse().unwrap());
    let off = faulty.azure.power_off(&pool, &id, PowerDown::Deallocate).await.unwrap();
    faulty.azure.settle(&off).await.unwrap();
    assert_eq!(faulty.azure.describe_instance(&pool, &id).await.unwrap().power, PowerState::Deallocated);
    let start = faulty.azure.start(&pool, &id).await.unwrap();
    let error = faulty.azure.settle(&start).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Capacity);
    assert!(error.to_string().contains("AllocationFailed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn exceeded_quota_is_a_quota_error() {
    let faulty = Faulty::new(&format!("kind: quota-exceeded, method: PATCH, type: {SET}"));
    let handle = faulty.azure.add_instances(&faulty.pool().await, 3).await.unwrap();
    let error = faulty.azure.settle(&handle).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Quota);
    assert!(!error.retryable());
}

#[tokio::test(start_paused = true)]
async fn operation_survives_a_lost_status_url() {
    let faulty = Faulty::new("kind: status-url-missing, type: operations, times: 1000");
    faulty.snapshot().await.unwrap();
    let snapshot = faulty.azure.find_snapshot(&"snap".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(snapshot.provisioning, Provisioning::Succeeded);
    let deletion = faulty.azure.delete_snapshot(&snapshot.name).await.unwrap();
    faulty.azure.settle(&deletion).await.unwrap();
    assert_eq!(faulty.azure.find_snapshot(&snapshot.name).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn write_based_on_a_stale_response_is_rejected() {
    let faulty = Faulty::new(&format!("kind: stale-read, method: GET, type: {SET}, skip: 1"));
    let first = faulty.pool().await;
    faulty.tag(&first).await.1.unwrap();
    let stale = faulty.pool().await;
    assert_eq!(stale.tags, first.tags, "the stale response predates the write");
    assert!(faulty.tag(&stale).await.1.unwrap_err().precondition());
    let fresh = faulty.pool().await;
    faulty.tag(&fresh).await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn both_kinds_of_throttling_are_waited_out() {
    for kind in ["throttled-arm", "throttled-compute"] {
        let faulty = Faulty::new(&format!("kind: {kind}, method: GET, type: {SET}, times: 2"));
        let began = Instant::now();
        assert_eq!(faulty.pool().await.capacity, 10);
        assert!(began.elapsed() > Duration::ZERO, "{kind}");
        assert_eq!(faulty.embedded.count("GET", faulty.embedded.pool().as_str()), 3, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn token_that_expires_during_polling_is_replaced() {
    let faulty = Faulty::new("kind: token-expires, type: operations, skip: 1");
    let handle =
        faulty.azure.power_off(&faulty.embedded.pool(), &"0".parse().unwrap(), PowerDown::KeepHardware).await.unwrap();
    faulty.azure.settle(&handle).await.unwrap();
    let refused = faulty.embedded.checker.exchanges().iter().filter(|e| e.status == 401).count();
    assert_eq!(refused, 1);
}

#[tokio::test(start_paused = true)]
async fn operation_may_take_longer_than_the_token_lifetime() {
    let faulty = Faulty::new("kind: throttled-arm, times: 0");
    faulty.pool().await;
    // Twice the lifetime of a token.
    tokio::time::sleep(Duration::from_hours(2)).await;
    faulty.pool().await;
    assert!(faulty.embedded.checker.exchanges().iter().any(|e| e.status == 401));
}

#[tokio::test(start_paused = true)]
async fn preempted_operation_can_be_repeated() {
    let faulty = Faulty::new(&format!("kind: preempted, type: {SET}/virtualMachines, action: poweroff"));
    let (pool, id) = (faulty.embedded.pool(), "0".parse().unwrap());
    let handle = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    let error = faulty.azure.settle(&handle).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Preempted);
    assert!(error.conflict() && error.retryable());
    let again = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    faulty.azure.settle(&again).await.unwrap();
    assert_eq!(faulty.azure.observe(&again).await.unwrap(), OperationState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn operations_on_one_instance_are_serialized() {
    let faulty = Faulty::new("kind: throttled-arm, times: 0");
    let (pool, id) = (faulty.embedded.pool(), "0".parse().unwrap());
    let off = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    let on = faulty.azure.start(&pool, &id).await.unwrap();
    faulty.azure.settle(&off).await.unwrap();
    faulty.azure.settle(&on).await.unwrap();
    assert_eq!(faulty.azure.describe_instance(&pool, &id).await.unwrap().power, PowerState::Running);
}
