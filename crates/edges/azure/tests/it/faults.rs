//! Each kind of fault of the embedded Azure, as this client sees it.

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
    world: Embedded,
    azure: Azure,
}

impl Faulty {
    fn new(rule: &str) -> Self {
        let world = Embedded::in_real_pace(&format!("faults: [{{{rule}}}]"));
        let azure = world.azure();
        Self { world, azure }
    }

    async fn pool(&self) -> Pool {
        self.azure.describe_pool(&self.world.pool()).await.unwrap()
    }

    /// Tags the pool and waits; the tags that it should have then.
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
        let instance = self.azure.describe_instance(&self.world.pool(), &"0".parse().unwrap()).await?;
        let request = SnapshotRequest {
            name: "snap".parse().unwrap(),
            location: "westus2".into(),
            disk: instance.os_disk.unwrap(),
            tags: Tags::new(),
        };
        let handle = self.azure.snapshot_os_disk(&request).await?;
        self.azure.settle(&handle).await
    }
}

#[tokio::test(start_paused = true)]
async fn applied_but_failed_is_a_failure_and_a_reading_shows_that_it_was_done() {
    let faulty = Faulty::new(&format!("kind: applied-but-failed, method: PATCH, type: {SET}"));
    let (tags, outcome) = faulty.tag(&faulty.pool().await).await;
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Failed { .. }) && error.retryable(), "{error}");
    assert_eq!(faulty.pool().await.tags, tags);
}

#[tokio::test(start_paused = true)]
async fn success_but_not_applied_is_seen_only_by_reading() {
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
async fn a_creation_whose_answer_was_lost_is_repeated_and_done_once() {
    let faulty = Faulty::new(&format!("kind: reset-after-processing, method: PUT, type: {SNAPSHOT}"));
    faulty.snapshot().await.unwrap();
    let snapshot = faulty.azure.find_snapshot(&"snap".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(snapshot.provisioning, Provisioning::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_conditional_write_whose_answer_was_lost_says_read_again_and_was_done_once() {
    let faulty = Faulty::new(&format!("kind: reset-after-processing, method: PATCH, type: {SET}"));
    let (tags, outcome) = faulty.tag(&faulty.pool().await).await;
    assert!(outcome.unwrap_err().precondition());
    assert_eq!(faulty.pool().await.tags, tags);
}

#[tokio::test(start_paused = true)]
async fn a_start_without_hardware_is_a_lack_of_capacity() {
    let faulty = Faulty::new(&format!("kind: allocation-failed, type: {SET}/virtualMachines, action: start"));
    let (pool, id) = (faulty.world.pool(), "0".parse().unwrap());
    let off = faulty.azure.power_off(&pool, &id, PowerDown::Deallocate).await.unwrap();
    faulty.azure.settle(&off).await.unwrap();
    assert_eq!(faulty.azure.describe_instance(&pool, &id).await.unwrap().power, PowerState::Deallocated);
    let start = faulty.azure.start(&pool, &id).await.unwrap();
    let error = faulty.azure.settle(&start).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Capacity);
    assert!(error.to_string().contains("AllocationFailed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn more_instances_than_the_quota_allows_are_a_matter_for_a_person() {
    let faulty = Faulty::new(&format!("kind: quota-exceeded, method: PATCH, type: {SET}"));
    let handle = faulty.azure.add_instances(&faulty.pool().await, 3).await.unwrap();
    let error = faulty.azure.settle(&handle).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Quota);
    assert!(!error.retryable());
}

#[tokio::test(start_paused = true)]
async fn a_lost_status_url_does_not_lose_the_operation() {
    let faulty = Faulty::new("kind: status-url-missing, type: operations, times: 1000");
    faulty.snapshot().await.unwrap();
    let snapshot = faulty.azure.find_snapshot(&"snap".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(snapshot.provisioning, Provisioning::Succeeded);
    let deletion = faulty.azure.delete_snapshot(&snapshot.name).await.unwrap();
    faulty.azure.settle(&deletion).await.unwrap();
    assert_eq!(faulty.azure.find_snapshot(&snapshot.name).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_stale_reading_cannot_be_written_upon() {
    let faulty = Faulty::new(&format!("kind: stale-read, method: GET, type: {SET}, skip: 1"));
    let first = faulty.pool().await;
    faulty.tag(&first).await.1.unwrap();
    let stale = faulty.pool().await;
    assert_eq!(stale.tags, first.tags, "this reading is of before the write");
    assert!(faulty.tag(&stale).await.1.unwrap_err().precondition());
    let fresh = faulty.pool().await;
    faulty.tag(&fresh).await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn throttling_of_both_kinds_costs_time_and_nothing_else() {
    for kind in ["throttled-arm", "throttled-compute"] {
        let faulty = Faulty::new(&format!("kind: {kind}, method: GET, type: {SET}, times: 2"));
        let began = Instant::now();
        assert_eq!(faulty.pool().await.capacity, 10);
        assert!(began.elapsed() > Duration::ZERO, "{kind}");
        assert_eq!(faulty.world.count("GET", faulty.world.pool().as_str()), 3, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_while_an_operation_is_watched_is_replaced() {
    let faulty = Faulty::new("kind: token-expires, type: operations, skip: 1");
    let handle =
        faulty.azure.power_off(&faulty.world.pool(), &"0".parse().unwrap(), PowerDown::KeepHardware).await.unwrap();
    faulty.azure.settle(&handle).await.unwrap();
    let refused = faulty.world.judge.seen().iter().filter(|e| e.status == 401).count();
    assert_eq!(refused, 1);
}

#[tokio::test(start_paused = true)]
async fn an_operation_of_hours_outlives_its_token() {
    let faulty = Faulty::new("kind: throttled-arm, times: 0");
    faulty.pool().await;
    // Twice the life of a token.
    tokio::time::sleep(Duration::from_hours(2)).await;
    faulty.pool().await;
    assert!(faulty.world.judge.seen().iter().any(|e| e.status == 401));
}

#[tokio::test(start_paused = true)]
async fn a_preempted_operation_may_be_asked_for_again() {
    let faulty = Faulty::new(&format!("kind: preempted, type: {SET}/virtualMachines, action: poweroff"));
    let (pool, id) = (faulty.world.pool(), "0".parse().unwrap());
    let handle = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    let error = faulty.azure.settle(&handle).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Preempted);
    assert!(error.conflict() && error.retryable());
    let again = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    faulty.azure.settle(&again).await.unwrap();
    assert_eq!(faulty.azure.observe(&again).await.unwrap(), OperationState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn two_operations_on_one_instance_come_one_after_the_other() {
    let faulty = Faulty::new("kind: throttled-arm, times: 0");
    let (pool, id) = (faulty.world.pool(), "0".parse().unwrap());
    let off = faulty.azure.power_off(&pool, &id, PowerDown::KeepHardware).await.unwrap();
    let on = faulty.azure.start(&pool, &id).await.unwrap();
    faulty.azure.settle(&off).await.unwrap();
    faulty.azure.settle(&on).await.unwrap();
    assert_eq!(faulty.azure.describe_instance(&pool, &id).await.unwrap().power, PowerState::Running);
}
