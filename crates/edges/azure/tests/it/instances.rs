//! The PUT of an instance.

use kiln_azure::Error;
use kiln_types::{Factory, FactoryError, Protection, SecretBytes};
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

fn read_returns(value: &Value) -> Step {
    on("GET", VM).answers(200, value)
}

/// Scripts the first reads, the PUT and the reads after it.
async fn protect(reads: &[&Value]) -> (Script, Result<(), Error>) {
    let mut steps = vec![
        read_returns(&instance(false)),
        read_returns(&instance(false)),
        on("PUT", VM).answers(200, &json!({"properties": {"provisioningState": "Succeeded"}})),
    ];
    steps.extend(reads.iter().map(|value| read_returns(value)));
    let script = Script::new(steps);
    let azure = azure(&script);
    let pool = "pool".parse().unwrap();
    let read = azure.describe_instance(&pool, &"0".parse().unwrap()).await.unwrap();
    let outcome = azure.set_protection(&pool, &read, Protection::FULL).await;
    (script, outcome)
}

#[tokio::test(start_paused = true)]
async fn instance_put_has_its_etag_and_the_fields_it_would_drop() {
    let (script, outcome) = protect(&[&instance(true)]).await;
    outcome.unwrap();
    let put = &script.requests()[2];
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
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn unintended_change_is_an_error_that_names_the_field() {
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
        let error = protect(&[&after, &after]).await.1.unwrap_err();
        assert!(matches!(&error, Error::UnintendedChange { field, .. } if *field == named), "{pointer}: {error}");
        assert!(!error.retryable());
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_instance_after_put_is_a_retryable_error() {
    let mut after = instance(true);
    after["properties"]["protectionPolicy"] = json!(null);
    let error = protect(&[&after, &after]).await.1.unwrap_err();
    let named = matches!(&error, Error::Unchanged { field, .. } if *field == "properties.protectionPolicy");
    assert!(named && error.retryable(), "{error}");
}

/// Azure may return the old values for a moment, or the new ones while it still works on the instance.
#[tokio::test(start_paused = true)]
async fn instance_that_is_still_being_changed_is_read_again() {
    let mut changing = instance(true);
    changing["properties"]["provisioningState"] = json!("Updating");
    for first in [instance(false), changing] {
        let (script, outcome) = protect(&[&first, &instance(true)]).await;
        outcome.unwrap();
        script.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_protection_sends_no_write() {
    let script = Script::new([read_returns(&instance(true))]);
    let azure = azure(&script);
    let pool = "pool".parse().unwrap();
    let read = azure.describe_instance(&pool, &"0".parse().unwrap()).await.unwrap();
    azure.set_protection(&pool, &read, Protection::FULL).await.unwrap();
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn user_data_is_written_with_the_revision_that_was_read_and_only_to_the_machine() {
    let mut after = instance(false);
    after["properties"]["userData"] = json!("c2Vjb25k");
    let script = Script::new([
        read_returns(&instance(false)),
        on("PUT", VM).answers(200, &json!({"properties": {"provisioningState": "Succeeded"}})),
        read_returns(&after),
        read_returns(&after),
        read_returns(&after),
    ]);
    let azure = azure(&script);
    let (pool, id, second) = ("pool".parse().unwrap(), "0".parse().unwrap(), SecretBytes::new("second"));
    assert!(azure.set_user_data(&pool, &id, "v", &second).await.unwrap());
    let put = &script.requests()[1];
    assert_eq!(put.if_match.as_deref(), Some("\"1\""));
    assert_eq!(put.body["properties"]["userData"], "c2Vjb25k");
    assert_eq!(put.body["properties"]["protectionPolicy"]["protectFromScaleIn"], false);
    // The same user data and another machine send no write.
    assert!(azure.set_user_data(&pool, &id, "v", &second).await.unwrap());
    assert!(!azure.set_user_data(&pool, &id, "w", &SecretBytes::new("third")).await.unwrap());
    script.assert_finished();
}

/// In the list of a Flexible scale set the zones are `[null]` and the instances have no properties.
#[tokio::test(start_paused = true)]
async fn instances_of_a_flexible_scale_set_are_left_out() {
    let listed = json!({"value": [
        {"name": "set_1", "id": "/x/set_1", "instanceId": "set_1", "location": "westus", "zones": [null]},
    ]});
    let script = Script::new([on("GET", "/virtualMachines").answers(200, &listed)]);
    assert_eq!(azure(&script).instances(&"set".parse().unwrap()).await.unwrap(), []);
}
