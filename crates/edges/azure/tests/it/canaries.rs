//! The scale set of a canary.

use kiln_types::{Canary, CanaryName, DefinitionName, Factory, Tags};
use serde_json::{Value, json};

use crate::script::{Script, azure, on};

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

/// Creates a canary of a pool with this profile and returns the requests.
async fn create(profile: &Value) -> Vec<crate::script::RecordedRequest> {
    let pool = json!({
        "name": "pool", "location": "westus2", "sku": {"name": "Standard_D2s_v3", "capacity": 3},
        "properties": {"provisioningState": "Succeeded", "virtualMachineProfile": profile},
    });
    let script = Script::new([
        on("GET", "/virtualMachineScaleSets/pool").answers(200, &pool),
        on("PUT", "/virtualMachineScaleSets/kiln-canary-r1").answers(201, &json!({"name": "x", "properties": {}})),
    ]);
    azure(&script).create_canary(&canary()).await.unwrap();
    script.assert_finished();
    script.requests()
}

#[tokio::test(start_paused = true)]
async fn canary_has_the_user_data_of_its_pool() {
    let requests = create(&json!({"userData": "a2luZDogTm9kZUNvbmZpZw=="})).await;
    assert!(requests[0].query.contains("%24expand=userData"), "Azure omits it otherwise: {}", requests[0].query);
    assert_eq!(requests[1].body["properties"]["virtualMachineProfile"]["userData"], "a2luZDogTm9kZUNvbmZpZw==");
    let without = create(&json!({})).await;
    assert!(without[1].body["properties"]["virtualMachineProfile"].get("userData").is_none());
}
