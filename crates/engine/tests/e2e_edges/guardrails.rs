//! Locks, policies, keys and sizes that restrict what a run may create.

use kiln_engine::{RunEnd, RunReport, RunRequest, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_sim_azure::{Lock, LockLevel};
use kiln_types::{ErrorClass, Tags};
use serde_json::json;

use crate::world::{World, WorldBuilder, request};

const SET: &str = "/subscriptions/s/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets/set";

async fn run(world: &World, request: &RunRequest) -> RunReport {
    Box::pin(update(&world.quiet(), request)).await.unwrap()
}

fn assert_completed(report: &RunReport) {
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
}

fn locked() -> WorldBuilder {
    let mut builder = WorldBuilder::quick();
    builder.spec.locks = vec![Lock { name: "keep".into(), level: LockLevel::CanNotDelete, path: None }];
    builder
}

#[tokio::test(start_paused = true)]
async fn run_in_a_locked_resource_group_is_refused_before_anything_changes() {
    let world = locked().start().await;
    let report = run(&world, &request(1)).await;
    let RunEnd::Refused(reasons) = &report.end else { panic!("{}", report.end) };
    assert!(reasons[0].contains("CanNotDelete lock `keep` on `/subscriptions/"), "{reasons:?}");
    assert_eq!(world.wire.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn role_that_may_not_read_locks_gets_a_warning() {
    let mut builder = WorldBuilder::quick();
    builder.spec.clients[0].not_actions = vec!["Microsoft.Authorization/locks/read".into()];
    let world = builder.start().await;
    let report = run(&world, &request(1)).await;
    assert_completed(&report);
    assert!(report.notes.iter().any(|note| note.contains("locks could not be read")), "{:?}", report.notes);
}

/// The lock is not seen, because the role may not read it.
#[tokio::test(start_paused = true)]
async fn locked_resource_fails_the_step_at_once_and_for_good() {
    let mut builder = locked();
    builder.spec.locks[0].level = LockLevel::ReadOnly;
    builder.spec.clients[0].not_actions = vec!["Microsoft.Authorization/locks/read".into()];
    let world = builder.start().await;
    let report = run(&world, &request(1)).await;
    let RunEnd::Closed(Outcome::Failed { step, failure }) = &report.end else { panic!("{}", report.end) };
    assert_eq!((*step, failure.class), (Step::Claim, ErrorClass::Locked), "{failure:?}");
    assert_eq!(world.wire.writes().len(), 1, "{:?}", world.wire.writes());
}

#[tokio::test(start_paused = true)]
async fn tags_reach_everything_that_a_policy_checks() {
    let mut builder = WorldBuilder::quick();
    builder.spec.required_tags = vec!["costCenter".into()];
    let world = builder.clone().start().await;
    let report = run(&world, &request(1)).await;
    let RunEnd::Closed(Outcome::Failed { step, failure }) = &report.end else { panic!("{}", report.end) };
    assert_eq!((*step, failure.class), (Step::Gallery, ErrorClass::Policy), "{failure:?}");

    let world = builder.start().await;
    let mut tagged = request(1);
    tagged.options.tags = Tags::from([("costCenter".to_owned(), "42".to_owned())]);
    assert_completed(&run(&world, &tagged).await);
    for created in ["/galleries/SIG", "-prototype", "/versions/", "/snapshots/", "/kiln-canary-"] {
        assert_eq!(world.wire.body("PUT", created)["tags"]["costCenter"], "42", "{created}");
    }
}

#[tokio::test(start_paused = true)]
async fn pool_of_a_size_with_nvme_only_gets_an_image_that_boots() {
    let world = WorldBuilder::quick().pool(|pool| pool.size = "Standard_D2s_v6".into()).start().await;
    assert_completed(&run(&world, &request(1)).await);
    let features = &world.wire.body("PUT", "-prototype")["properties"]["features"];
    assert!(
        features.as_array().unwrap().contains(&json!({"name": "DiskControllerTypes", "value": "SCSI, NVMe"})),
        "{features}"
    );
    assert!(
        features.as_array().unwrap().contains(&json!({"name": "IsAcceleratedNetworkSupported", "value": "True"})),
        "{features}"
    );
}

#[tokio::test(start_paused = true)]
async fn snapshot_version_and_canary_keep_the_keys_of_the_donor() {
    let disk = json!({"managedDisk": {"storageAccountType": "Premium_LRS", "diskEncryptionSet": {"id": SET}}});
    let properties = json!({"virtualMachineProfile": {"storageProfile": {"osDisk": disk}}});
    let keys = |pool: &mut kiln_sim_azure::PoolSpec| pool.properties = properties.as_object().unwrap().clone();
    let world = WorldBuilder::quick().pool(keys).start().await;
    assert_completed(&run(&world, &request(1)).await);
    let snapshot = world.wire.body("PUT", "/snapshots/");
    assert_eq!(snapshot["properties"]["encryption"]["diskEncryptionSetId"], SET);
    let version = world.wire.body("PUT", "/versions/");
    let region = &version["properties"]["publishingProfile"]["targetRegions"][0];
    assert_eq!(region["encryption"]["osDiskImage"]["diskEncryptionSetId"], SET);
    let canary = world.wire.body("PUT", "/kiln-canary-");
    let os_disk = &canary["properties"]["virtualMachineProfile"]["storageProfile"]["osDisk"];
    assert_eq!(os_disk["managedDisk"]["diskEncryptionSet"]["id"], SET);
}

#[tokio::test(start_paused = true)]
async fn role_with_exactly_the_listed_actions_completes_a_run() {
    let mut builder = WorldBuilder::quick();
    builder.spec.clients[0].actions = kiln_azure::role::ACTIONS.map(|need| need.action.to_owned()).into();
    let world = builder.start().await;
    assert_completed(&run(&world, &request(1)).await);
    let denied: Vec<_> = world.wire.requests().into_iter().filter(|(_, _, status)| *status == 403).collect();
    assert_eq!(denied, []);
}
