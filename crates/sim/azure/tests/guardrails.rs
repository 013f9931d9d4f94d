//! Locks, a policy that requires tags, and sizes with one disk controller.

mod common;

use common::{COMPUTE, Client, DISK, GALLERY, POOL, start};
use http::Method;
use kiln_sim_azure::{Options, WorldSpec};
use serde_json::{Value, json};

const LOCKS: &str = "2016-09-01";

fn client(world: &str) -> Client {
    Client::with_options(WorldSpec::parse("world", world).expect("a world file"), Options::instant(start()))
}

fn pool(client: &Client) -> String {
    client.compute(&format!("virtualMachineScaleSets/{POOL}"))
}

fn locks(client: &Client) -> Vec<Value> {
    let spec = client.sim.spec();
    let group = format!("/subscriptions/{}/resourceGroups/{}", spec.subscription_id, spec.resource_group);
    let got = client.get(&format!("{group}/providers/Microsoft.Authorization/locks"), LOCKS);
    assert_eq!(got.status, 200);
    got.body["value"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn lock_prevents_deletion_or_all_changes() {
    let client = client("locks: [{name: keep, level: CanNotDelete}]");
    assert_eq!(locks(&client)[0]["properties"]["level"], "CanNotDelete");
    let gallery = client.compute("galleries/g");
    assert_eq!(client.put(&gallery, GALLERY, &json!({"location": "westus2"})).status, 201);
    let got = client.delete(&gallery, GALLERY);
    assert_eq!((got.status, got.code()), (409, "ScopeLocked"));
    let message = got.body["error"]["message"].as_str().expect("text");
    assert!(message.contains("cannot perform delete operation because following scope(s) are locked"), "{message}");

    let client = self::client("locks: [{name: freeze, level: ReadOnly}]");
    let got = client.put(&client.compute("galleries/g"), GALLERY, &json!({"location": "westus2"}));
    assert_eq!((got.status, got.code()), (409, "ScopeLocked"));
    let got = client.post(&format!("{}/start", pool(&client)), COMPUTE, None);
    assert_eq!((got.status, got.code()), (409, "ScopeLocked"));
    assert_eq!(client.get(&pool(&client), COMPUTE).status, 200);
}

#[tokio::test]
async fn lock_of_one_resource_does_not_affect_others() {
    let client = client("locks: [{name: keep, level: CanNotDelete, path: Microsoft.Compute/galleries/g}]");
    assert!(
        locks(&client)[0]["id"]
            .as_str()
            .expect("an id")
            .ends_with("/galleries/g/providers/Microsoft.Authorization/locks/keep")
    );
    for name in ["g", "g2"] {
        client.put(&client.compute(&format!("galleries/{name}")), GALLERY, &json!({"location": "westus2"}));
    }
    assert_eq!(client.delete(&client.compute("galleries/g"), GALLERY).code(), "ScopeLocked");
    assert_eq!(client.delete(&client.compute("galleries/g2"), GALLERY).status, 202);
}

#[tokio::test]
async fn policy_requires_tags_of_new_resources() {
    let client = client("requiredTags: [costCenter]");
    let got = client.put(&client.compute("galleries/g"), GALLERY, &json!({"location": "westus2"}));
    assert_eq!((got.status, got.code()), (403, "RequestDisallowedByPolicy"));
    let tagged = json!({"location": "westus2", "tags": {"COSTCENTER": "42"}});
    assert_eq!(client.put(&client.compute("galleries/g"), GALLERY, &tagged).status, 201);
    let got =
        client.send(&Method::PATCH, &common::with_version(&pool(&client), COMPUTE), Some(&json!({"tags": {"a": "b"}})));
    assert_eq!(got.status, 200, "an existing resource is not checked again");
}

/// A definition with these features and one version of it.
fn image(client: &Client, features: &Value) -> String {
    let definition = client.compute("galleries/g/images/d");
    client.put(&client.compute("galleries/g"), GALLERY, &json!({"location": "westus2"}));
    let body = json!({"location": "westus2", "properties": {
        "osType": "Linux", "osState": "Generalized", "features": features,
        "identifier": {"publisher": "p", "offer": "o", "sku": "s"},
    }});
    assert_eq!(client.put(&definition, GALLERY, &body).status, 201);
    let instance = client.get(&format!("{}/virtualMachines/0", pool(client)), COMPUTE).body;
    let disk = &instance["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"];
    let snapshot = client.compute("snapshots/s");
    let body = json!({"location": "westus2", "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": disk}}});
    assert_eq!(client.put(&snapshot, DISK, &body).status, 202);
    let body =
        json!({"location": "westus2", "properties": {"storageProfile": {"osDiskImage": {"source": {"id": snapshot}}}}});
    assert_eq!(client.put(&format!("{definition}/versions/1.0.0"), GALLERY, &body).status, 201);
    definition
}

#[tokio::test]
async fn size_with_nvme_only_needs_an_image_that_supports_it() {
    let world = format!("pools: [{{name: {POOL}, capacity: 1, size: Standard_D8s_v6}}]");
    let model = |image: String| {
        json!({"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {
            "id": image, "publisher": null, "offer": null, "sku": null, "version": null,
        }}}}})
    };
    let patch = |client: &Client, image: String| {
        client.send(&Method::PATCH, &common::with_version(&pool(client), COMPUTE), Some(&model(image)))
    };
    let old = client(&world);
    let definition = image(&old, &json!([]));
    let got = patch(&old, definition);
    assert_eq!((got.status, got.code()), (400, "InvalidParameter"));
    assert_eq!(got.body["error"]["target"], "vmSize");

    let new = client(&world);
    let definition = image(&new, &json!([{"name": "DiskControllerTypes", "value": "SCSI, NVMe"}]));
    assert_eq!(patch(&new, definition.clone()).status, 200);
    let disks = new.get(&new.compute("disks"), DISK).body;
    assert_eq!(disks["value"][0]["properties"]["supportedCapabilities"]["diskControllerTypes"], "SCSI, NVMe");
}
