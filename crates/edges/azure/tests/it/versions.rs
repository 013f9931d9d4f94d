//! Excluding and including an image version.

use kiln_types::{DefinitionName, Factory, OperationHandle};
use serde_json::{Value, json};

use crate::script::{ARM, Script, azure, on};

const VERSION: &str = "/galleries/SIG_g/images/kamino-pool-prototype/versions/2026.11.15";

fn definition() -> DefinitionName {
    DefinitionName { gallery: "SIG_g".parse().unwrap(), definition: "kamino-pool-prototype".into() }
}

fn region(name: &str) -> Value {
    json!({"name": name, "regionalReplicaCount": 3, "storageAccountType": "Standard_ZRS"})
}

/// A version whose source is a snapshot that was deleted.
fn version(regions: &[Value]) -> Value {
    json!({"name": "2026.11.15", "id": "/v", "location": "westus2", "properties": {
        "provisioningState": "Succeeded",
        "publishingProfile": {"excludeFromLatest": true, "targetRegions": regions},
        "storageProfile": {"osDiskImage": {"source": {"id": "/snapshots/deleted"}}},
    }})
}

/// Includes the version. The second answer is the version after the operation.
fn including(before: &Value, after: &Value) -> Script {
    let operation = format!("{ARM}/operations/1");
    Script::new([
        on("GET", VERSION).answers(200, before),
        on("PATCH", VERSION).answers(200, before).header("azure-asyncoperation", operation),
        on("GET", "/operations/1").answers(200, &json!({"status": "Succeeded"})),
        on("GET", VERSION).answers(200, after),
    ])
}

#[tokio::test(start_paused = true)]
async fn included_version_keeps_its_regions() {
    let before = version(&[region("West US 2"), region("East US")]);
    let script = including(&before, &version(&[region("eastus"), region("West US 2")]));
    let azure = azure(&script);
    let handle = azure.set_excluded(&definition(), &"2026.11.15".parse().unwrap(), false).await.unwrap();
    // Another process continues with the text of the handle.
    let handle = OperationHandle::new(handle.as_str());
    azure.settle(&handle).await.unwrap();
    script.assert_finished();
    let patch = script.requests().into_iter().find(|request| request.method == "PATCH").unwrap();
    let profile = json!({"excludeFromLatest": false, "targetRegions": [region("West US 2"), region("East US")]});
    assert_eq!(patch.body, json!({"properties": {"publishingProfile": profile, "storageProfile": {}}}));
}

#[tokio::test(start_paused = true)]
async fn included_version_that_lost_a_region_is_an_error() {
    let before = version(&[region("West US 2"), region("East US")]);
    for settles in [true, false] {
        let script = including(&before, &version(&[region("West US 2")]));
        let azure = azure(&script);
        let handle = azure.set_excluded(&definition(), &"2026.11.15".parse().unwrap(), false).await.unwrap();
        let error =
            if settles { azure.settle(&handle).await.unwrap_err() } else { azure.observe(&handle).await.unwrap_err() };
        assert!(
            error.to_string().contains("the update also changed `properties.publishingProfile.targetRegions`"),
            "{error}"
        );
    }
}
