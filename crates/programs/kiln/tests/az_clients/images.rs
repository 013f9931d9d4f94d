//! Galleries, definitions, versions and snapshots.

use serde_json::json;

use crate::azure::Azure;
use crate::session::{POOL, Session};

#[test]
fn az_creates_an_image_version_from_a_snapshot_and_deletes_everything() {
    let session = Session::logged_in(Azure::default());
    let gallery = session.json("sig create --gallery-name SIG_kubernetes --description images");
    assert_eq!(gallery["provisioningState"], "Succeeded");
    let definition = "--gallery-name SIG_kubernetes --gallery-image-definition kamino-pool-prototype";
    session.done(&format!(
        "sig image-definition create {definition} --publisher VMSS-Prototype-Pattern --offer offer --sku VMSS --hyper-v-generation V1 --os-type Linux --os-state generalized"
    ));
    let shown = session.json(&format!("sig image-definition show {definition}"));
    assert_eq!(shown["hyperVGeneration"], "V1");

    let disk = session.in_group(&format!(
        "vmss show --name {POOL} --instance-id 0 --query storageProfile.osDisk.managedDisk.id --output tsv"
    ));
    let disk = disk.success().stdout.trim().to_owned();
    let snapshot = session
        .json(&format!("snapshot create --name snapshot_pool --source {disk} --copy-start false --tags BuiltFrom=0"));
    assert_eq!((&snapshot["provisioningState"], &snapshot["tags"]), (&json!("Succeeded"), &json!({"BuiltFrom": "0"})));
    assert_eq!(session.json("snapshot show --name snapshot_pool")["creationData"]["sourceResourceId"], disk);
    assert_eq!(session.json("snapshot list --query [].name"), json!(["snapshot_pool"]));

    let version = format!("{definition} --gallery-image-version 2026.11.15");
    let made = session.json(&format!(
        "sig image-version create {version} --replica-count 3 --os-snapshot snapshot_pool --tags BuiltFrom=0 --storage-account-type Standard_ZRS"
    ));
    assert_eq!(
        (&made["provisioningState"], &made["publishingProfile"]["replicaCount"]),
        (&json!("Succeeded"), &json!(3))
    );
    assert_eq!(session.json(&format!("sig image-version list {definition} --query [].name")), json!(["2026.11.15"]));
    let shown = session.json(&format!("sig image-version show {version} --expand ReplicationStatus"));
    assert_eq!(shown["replicationStatus"]["aggregatedState"], "Completed");
    let changed =
        session.json(&format!("sig image-version update {version} --set publishingProfile.excludeFromLatest=true"));
    assert_eq!(changed["publishingProfile"]["excludeFromLatest"], true);

    let refused = session.in_group("sig delete --gallery-name SIG_kubernetes");
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("(CannotDeleteResource)"), "{refused}");
    session.done(&format!("sig image-version delete {version}"));
    session.done(&format!("sig image-definition delete {definition}"));
    session.done("sig delete --gallery-name SIG_kubernetes");
    session.done("snapshot delete --name snapshot_pool");
    assert_eq!(session.json("snapshot list"), json!([]));
    let gone = session.in_group("sig show --gallery-name SIG_kubernetes");
    assert_eq!(gone.code, Some(3), "{gone}");
}
