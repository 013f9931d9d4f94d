//! The PUT of an instance: what it says, and what it must keep.

use kiln_azure::Error;
use kiln_types::{Factory, FactoryError, Protection};
use serde_json::{Value, json};

use crate::script::{Script, Step, azure, on};

const VM: &str = "/virtualMachineScaleSets/pool/virtualMachines/0";

fn instance(protected: bool) -> Value {
    json!({
        "instanceId": "0", "location": "westus2", "etag": "\"1\"", "tags": {"owner": "me"},
        "properties": {
            "vmId": "v", "latestModelApplied": true, "provisioningState": "Succeeded",
            "hardwareProfile": {"vmSize": "Standard_D2s_v3"},
            "osProfile": {"computerName": "pool000000"},
            "storageProfile": {
                "imageReference": {"id": "/subscriptions/s/image"},
                "osDisk": {"managedDisk": {"id": "/subscriptions/s/disk"}}
            },
            "networkProfile": {"networkInterfaces": [{"id": "/subscriptions/s/nic"}]},
            "protectionPolicy": {"protectFromScaleIn": protected, "protectFromScaleSetActions": protected},
            "userData": "Zmlyc3Q="
        }
    })
}

fn reads(value: &Value) -> Step {
    on("GET", VM).answers(200, value)
}

/// The first reading, the put, and what is read after it.
async fn protect(after: &Value) -> (Script, Result<kiln_types::Instance, Error>) {
    let script = Script::new([
        reads(&instance(false)),
        reads(&instance(false)),
        on("PUT", VM).answers(200, &json!({"properties": {"provisioningState": "Succeeded"}})),
        reads(after),
        reads(after),
    ]);
    let azure = azure(&script);
    let pool = "pool".parse().unwrap();
    let read = azure.describe_instance(&pool, &"0".parse().unwrap()).await.unwrap();
    let outcome = azure.set_protection(&pool, &read, Protection::FULL).await;
    (script, outcome)
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_put_by_its_revision_with_the_little_that_a_put_could_drop() {
    let (script, outcome) = protect(&instance(true)).await;
    assert_eq!(outcome.unwrap().protection, Protection::FULL);
    let put = &script.asked()[2];
    assert_eq!(put.if_match.as_deref(), Some("\"1\""));
    assert_eq!(
        put.body,
        json!({
            "location": "westus2", "tags": {"owner": "me"},
            "properties": {
                "protectionPolicy": {"protectFromScaleIn": true, "protectFromScaleSetActions": true},
                "userData": "Zmlyc3Q="
            }
        })
    );
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_put_that_changed_what_it_had_to_keep_is_an_error_that_names_it() {
    for (pointer, value, named) in [
        ("/tags", json!({}), "tags"),
        ("/properties/vmId", json!("other"), "properties.vmId"),
        ("/properties/hardwareProfile/vmSize", json!("x"), "properties.hardwareProfile"),
        ("/properties/osProfile/computerName", json!("x"), "properties.osProfile.computerName"),
        ("/properties/storageProfile/imageReference", json!({"id": "x"}), "properties.storageProfile.imageReference"),
        ("/properties/storageProfile/osDisk/managedDisk/id", json!("x"), "properties.storageProfile.osDisk"),
        ("/properties/networkProfile/networkInterfaces", json!([]), "properties.networkProfile"),
        ("/properties/userData", json!(null), "properties.userData"),
        ("/properties/protectionPolicy", json!({"protectFromScaleIn": true}), "properties.protectionPolicy"),
    ] {
        let mut after = instance(true);
        *after.pointer_mut(pointer).unwrap() = value;
        let error = protect(&after).await.1.unwrap_err();
        assert!(matches!(&error, Error::NotKept { field, .. } if *field == named), "{pointer}: {error}");
        assert!(!error.retryable());
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_ended_well_and_changed_nothing_is_worth_another_try() {
    let mut after = instance(true);
    after["properties"]["protectionPolicy"] = json!(null);
    let error = protect(&after).await.1.unwrap_err();
    let named = matches!(&error, Error::NotApplied { field, .. } if *field == "properties.protectionPolicy");
    assert!(named && error.retryable(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn protection_that_is_so_already_costs_no_request() {
    let script = Script::new([reads(&instance(true))]);
    let azure = azure(&script);
    let pool = "pool".parse().unwrap();
    let read = azure.describe_instance(&pool, &"0".parse().unwrap()).await.unwrap();
    azure.set_protection(&pool, &read, Protection::FULL).await.unwrap();
    script.done();
}
