//! Finds, holds and releases nodes.

use kiln_kubernetes::{
    AUTOSCALER_ANNOTATION, Error, HOLD_ANNOTATION, HoldScope, LOAD_BALANCER_LABEL, NodeName, Owner, ProviderId,
};
use serde_json::{Value, json};

use crate::fake::{Fake, Fault};

fn name() -> NodeName {
    "node-1".parse().unwrap()
}

fn owner(name: &str) -> Owner {
    name.parse().unwrap()
}

fn id(pool: &str, instance: u32) -> String {
    format!(
        "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/{pool}/virtualMachines/{instance}"
    )
}

fn with_node(node: Value) -> Fake {
    let fake = Fake::new();
    fake.put("nodes", node);
    fake
}

fn plain() -> Value {
    json!({"metadata": {"name": "node-1", "annotations": {"other": "kept"}, "labels": {"pool": "kept"}}, "spec": {}})
}

#[tokio::test(start_paused = true)]
async fn node_is_found_by_provider_id_case_insensitively() {
    let fake = Fake::new();
    for number in 0..3 {
        let provider = id("k8s-pool-1", number).to_ascii_uppercase().replace("AZURE", "azure");
        fake.put("nodes", json!({"metadata": {"name": format!("node-{number}")}, "spec": {"providerID": provider}}));
    }
    fake.put("nodes", json!({"metadata": {"name": "elsewhere"}, "spec": {"providerID": id("other", 1)}}));
    fake.put("nodes", json!({"metadata": {"name": "without"}, "spec": {}}));
    let cluster = fake.cluster();
    let wanted: ProviderId = id("k8s-pool-1", 1).parse().unwrap();
    assert_eq!(cluster.find_node(&wanted).await.unwrap().unwrap().name, name());
    let missing: ProviderId = id("k8s-pool-1", 9).parse().unwrap();
    assert_eq!(cluster.find_node(&missing).await.unwrap(), None);
    let names: Vec<_> = cluster
        .nodes_of(&"K8s-Pool-1".parse().unwrap())
        .await
        .unwrap()
        .into_iter()
        .map(|n| n.name.to_string())
        .collect();
    assert_eq!(names, ["node-0", "node-1", "node-2"]);
}

#[tokio::test(start_paused = true)]
async fn expired_node_list_is_restarted() {
    let fake = Fake::new();
    fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {"providerID": id("pool", 1)}}));
    let page = json!({"metadata": {"continue": "token"}, "items": [fake.get("nodes/node-1")]});
    let forgotten =
        json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    fake.fault("GET /api/v1/nodes", [Fault::Respond(200, page), Fault::Respond(410, forgotten)]);
    assert_eq!(fake.cluster().nodes_of(&"pool".parse().unwrap()).await.unwrap().len(), 1);
    assert_eq!(fake.requests("continue=token").len(), 1);
    assert_eq!(fake.requests("GET").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn nodes_with_the_same_provider_id_are_named() {
    let fake = Fake::new();
    for name in ["old", "new"] {
        fake.put("nodes", json!({"metadata": {"name": name}, "spec": {"providerID": id("pool", 1)}}));
    }
    let error = fake.cluster().find_node(&id("pool", 1).parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().starts_with("the nodes `new`, `old` all have the provider id"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn cordon_owner_and_previous_state_are_written_in_one_patch_and_restored() {
    let fake = with_node(plain());
    let before = fake.get("nodes/node-1").unwrap();
    let cluster = fake.cluster();
    cluster.hold(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap();
    assert_eq!(fake.requests("PATCH").len(), 1);
    let held = fake.get("nodes/node-1").unwrap();
    assert_eq!(held["spec"]["unschedulable"], true);
    assert_eq!(held["metadata"]["annotations"][AUTOSCALER_ANNOTATION], "true");
    assert_eq!(held["metadata"]["annotations"]["other"], "kept");
    assert_eq!(held["metadata"]["labels"][LOAD_BALANCER_LABEL], "true");
    cluster.release(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap();
    let mut after = fake.get("nodes/node-1").unwrap();
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn node_that_changes_during_a_hold_is_read_again() {
    let fake = with_node(plain());
    let mut done = false;
    // Between the read and the write another actor cordons the node.
    fake.after(move |objects, request| {
        if request.method == "GET" && !std::mem::replace(&mut done, true) {
            let node = objects.get_mut("nodes/node-1").unwrap();
            node["spec"]["unschedulable"] = json!(true);
            node["metadata"]["resourceVersion"] = json!("1000");
        }
    });
    let cluster = fake.cluster();
    cluster.hold(&name(), &owner("run-1"), HoldScope::CORDON).await.unwrap();
    assert_eq!(fake.requests("PATCH").len(), 2);
    cluster.release(&name(), &owner("run-1"), HoldScope::CORDON).await.unwrap();
    assert_eq!(fake.get("nodes/node-1").unwrap()["spec"]["unschedulable"], true, "it was cordoned before it was held");
}

/// Changes the node after each of the next `times` reads.
fn change_after_reads(fake: &Fake, mut times: u32) {
    fake.after(move |objects, request| {
        if request.method == "GET" && times > 0 {
            times -= 1;
            objects.get_mut("nodes/node-1").unwrap()["metadata"]["resourceVersion"] = json!(format!("9{times}"));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn node_with_frequent_writes_can_still_be_held() {
    let fake = with_node(plain());
    change_after_reads(&fake, 50);
    assert!(fake.cluster().hold(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap().cordoned);
    assert_eq!(fake.requests("PATCH").len(), 51);
}

#[tokio::test(start_paused = true)]
async fn hold_gives_up_when_conflicts_never_end() {
    let fake = with_node(plain());
    change_after_reads(&fake, u32::MAX);
    let error = fake.cluster().hold(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap_err();
    let Error::Contended { attempts, .. } = error else { panic!("{error}") };
    assert!((100..1000).contains(&attempts), "{attempts} attempts");
    assert_eq!(fake.get("nodes/node-1").unwrap()["spec"]["unschedulable"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn hold_with_a_lost_response_is_recognized_as_our_own() {
    let fake = with_node(plain());
    fake.fault("PATCH", [Fault::LoseResponse]);
    let cluster = fake.cluster();
    cluster.hold(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap();
    fake.fault("PATCH", [Fault::LoseResponse]);
    cluster.release(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap();
    let after = fake.get("nodes/node-1").unwrap();
    assert!(after["spec"]["unschedulable"].is_null() && after["metadata"]["annotations"][HOLD_ANNOTATION].is_null());
}

#[tokio::test(start_paused = true)]
async fn node_held_by_another_run_is_neither_held_nor_released() {
    let fake = with_node(plain());
    let cluster = fake.cluster();
    cluster.hold(&name(), &owner("run-1"), HoldScope::CORDON).await.unwrap();
    let error = cluster.hold(&name(), &owner("run-2"), HoldScope::CORDON).await.unwrap_err();
    assert_eq!(error.to_string(), "node `node-1` is held by `run-1`; only `run-1` can release it");
    assert!(cluster.release(&name(), &owner("run-2"), HoldScope::ALL).await.is_err());
    assert_eq!(fake.get("nodes/node-1").unwrap()["spec"]["unschedulable"], true);
}

#[tokio::test(start_paused = true)]
async fn missing_node_counts_as_released() {
    let fake = with_node(plain());
    fake.remove("nodes/node-1");
    fake.cluster().release(&name(), &owner("run-1"), HoldScope::ALL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_hold_annotation_is_reported_and_not_overwritten() {
    let mut node = plain();
    node["metadata"]["annotations"][HOLD_ANNOTATION] = json!("run-1");
    let fake = with_node(node);
    let error = fake.cluster().hold(&name(), &owner("run-1"), HoldScope::CORDON).await.unwrap_err();
    assert!(matches!(&error, Error::BadAnnotation { text, .. } if text == "run-1"), "{error}");
    assert!(fake.requests("PATCH").is_empty());
}
