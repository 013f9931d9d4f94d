//! Requests that must never be sent.

use kiln_azure::Error;
use kiln_types::{Canary, CanaryName, DefinitionName, Factory, OperationHandle, RecipeChange, Revision, Secret, Tags};
use serde_json::{Value, json};

use crate::script::{Script, azure, on};

fn scale_set(tags: &Value) -> Value {
    json!({
        "name": "pool", "location": "westus2", "tags": tags, "etag": "\"1\"",
        "sku": {"name": "Standard_D2s_v3", "tier": "Standard", "capacity": 3},
        "properties": {
            "provisioningState": "Succeeded",
            "virtualMachineProfile": {
                "osProfile": {"computerNamePrefix": "pool", "adminUsername": "azureuser"},
                "storageProfile": {"imageReference": {"id": "/subscriptions/s/x"}, "osDisk": {"createOption": "FromImage"}},
                "networkProfile": {"networkInterfaceConfigurations": []}
            }
        }
    })
}

fn canary() -> Canary {
    Canary {
        name: CanaryName::from_run("r1").unwrap(),
        pool: "pool".parse().unwrap(),
        definition: DefinitionName { gallery: "SIG_g".parse().unwrap(), definition: "kamino-pool-prototype".into() },
        number: "2026.11.15".parse().unwrap(),
        size: None,
        zone: None,
        custom_data: None,
        tags: Tags::new(),
        bootstrap: None,
    }
}

#[tokio::test(start_paused = true)]
async fn existing_scale_sets_are_never_put() {
    let done = || json!({"name": "pool", "tags": {"kiln-run": "r1"}, "properties": {"provisioningState": "Succeeded"}});
    let script = Script::new([
        on("PATCH", "/virtualMachineScaleSets/pool").answers(200, &done()),
        on("GET", "/virtualMachineScaleSets/pool").answers(200, &scale_set(&json!({"owner": "me"}))),
        on("PATCH", "/virtualMachineScaleSets/pool").answers(200, &done()),
        on("PATCH", "/virtualMachineScaleSets/pool").answers(200, &done()),
        on("DELETE", "/virtualMachineScaleSets/pool/extensions/vmssCSE").answers(204, &json!(null)),
        on("GET", "/virtualMachineScaleSets/pool").answers(200, &scale_set(&json!({}))),
        on("PUT", "/virtualMachineScaleSets/kiln-canary-r1").answers(201, &done()),
    ]);
    let azure = azure(&script);
    let (pool, seen) = ("pool".parse().unwrap(), Revision::new("\"1\""));
    // Every verb that writes to a scale set.
    let change = RecipeChange { image: None, custom_data: Some(Secret::new("x")) };
    azure.set_recipe(&pool, &change, &seen).await.unwrap();
    let read = azure.describe_pool(&pool).await.unwrap();
    azure.tag_pool(&read, &Tags::from([("kiln-run".to_owned(), "r1".to_owned())])).await.unwrap();
    azure.add_instances(&read, 2).await.unwrap();
    azure.remove_extension(&pool, "vmssCSE").await.unwrap();
    azure.create_canary(&canary()).await.unwrap();
    script.assert_finished();

    for request in script.requests() {
        if request.method == "PUT" {
            assert_eq!(request.if_none_match.as_deref(), Some("*"), "{}", request.path);
            assert!(request.path.ends_with("/kiln-canary-r1"));
        }
        if request.method == "PATCH" {
            assert_eq!(request.if_match.as_deref(), Some("\"1\""), "{}", request.path);
        }
    }
    assert_eq!(
        script.requests()[2].body,
        json!({"tags": {"owner": "me", "kiln-run": "r1"}}),
        "existing tags are sent too"
    );
    assert_eq!(script.requests()[3].body, json!({"sku": {"capacity": 5}}));
}

#[tokio::test(start_paused = true)]
async fn pool_with_the_name_of_a_canary_is_not_deleted() {
    let script = Script::new([
        on("GET", "/virtualMachineScaleSets/kiln-canary-r1").answers(200, &scale_set(&json!({"owner": "other"})))
    ]);
    let error = azure(&script).delete_canary(&CanaryName::from_run("r1").unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn deleting_a_missing_canary_succeeds() {
    let script = Script::new([
        on("GET", "/virtualMachineScaleSets/kiln-canary-r1")
            .answers(200, &scale_set(&json!({"kiln-canary-of": "pool"}))),
        on("DELETE", "/virtualMachineScaleSets/kiln-canary-r1")
            .answers(202, &json!(null))
            .header("location", "https://arm.example/l"),
        on("GET", "/virtualMachineScaleSets/kiln-canary-r1").fails(404, "ResourceNotFound", "none"),
    ]);
    let azure = azure(&script);
    let name = CanaryName::from_run("r1").unwrap();
    azure.delete_canary(&name).await.unwrap();
    let handle = azure.delete_canary(&name).await.unwrap();
    azure.settle(&handle).await.unwrap();
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_sent_to_other_hosts() {
    let script = Script::default();
    let stored = r#"{"kind":"write","resource":"/subscriptions/s","api":"compute","operation_url":"https://evil.example/steal"}"#;
    let error = azure(&script).observe(&OperationHandle::new(stored)).await.unwrap_err();
    assert!(matches!(error, Error::ForeignUrl { .. }), "{error}");
    assert!(script.requests().is_empty());

    let page = json!({"value": [], "nextLink": "https://evil.example/next"});
    let script = Script::new([on("GET", "/virtualMachineScaleSets").answers(200, &page)]);
    let error = azure(&script).pools().await.unwrap_err();
    assert!(matches!(error, Error::ForeignUrl { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn errors_contain_no_secrets_of_the_request() {
    let script = Script::new([on("PATCH", "/pool").fails(400, "InvalidParameter", "customData is too long")]);
    let change = RecipeChange { image: None, custom_data: Some(Secret::new("hunter2")) };
    let error =
        azure(&script).set_recipe(&"pool".parse().unwrap(), &change, &Revision::new("\"1\"")).await.unwrap_err();
    let shown = format!("{error} {error:?} {change:?}");
    for secret in ["hunter2", "aHVudGVyMg==", "token-1"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
