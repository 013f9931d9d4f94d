//! Nodes and their leases.

use serde_json::{Value, json};

use crate::ground::{Ground, MERGE};

crate::both!(
    a_node_is_not_ready_until_it_says_so,
    a_cordon_is_a_taint_too,
    a_provider_id_is_set_once,
    the_status_of_a_node_is_written_apart,
    a_wrong_taint_is_refused,
);

fn keys(node: &Value) -> Vec<&str> {
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    taints.iter().map(|taint| taint["key"].as_str().unwrap()).collect()
}

async fn a_node_is_not_ready_until_it_says_so(g: Ground) {
    let name = Ground::unique("node");
    let made = g.post("/api/v1/nodes", json!({"metadata": {"name": name}})).await.ok();
    assert_eq!(keys(&made), ["node.kubernetes.io/not-ready"]);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    g.patch(&format!("/api/v1/nodes/{name}/status"), MERGE, ready).await.ok();
    g.until(&format!("/api/v1/nodes/{name}"), |said| keys(&said.body).is_empty()).await;
}

async fn a_cordon_is_a_taint_too(g: Ground) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    g.patch(&path, MERGE, json!({"spec": {"unschedulable": true}})).await.ok();
    g.until(&path, |said| keys(&said.body).contains(&"node.kubernetes.io/unschedulable")).await;
    let list = g.get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").await.ok();
    assert!(
        list["items"].as_array().unwrap().iter().any(|node| path.ends_with(node["metadata"]["name"].as_str().unwrap()))
    );
    g.patch(&path, MERGE, json!({"spec": {"unschedulable": null}})).await.ok();
    g.until(&path, |said| !keys(&said.body).contains(&"node.kubernetes.io/unschedulable")).await;
}

async fn a_provider_id_is_set_once(g: Ground) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    g.patch(&path, MERGE, json!({"spec": {"providerID": "azure:///a"}})).await.ok();
    let said = g.patch(&path, MERGE, json!({"spec": {"providerID": "azure:///b"}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert_eq!(g.get(&path).await.ok()["spec"]["providerID"], "azure:///a");
}

async fn the_status_of_a_node_is_written_apart(g: Ground) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    let change =
        json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}, "spec": {"unschedulable": true}});
    let both = g.patch(&path, MERGE, change).await.ok();
    assert_eq!((&both["spec"]["unschedulable"], both["status"].get("phase")), (&json!(true), None));
    let back =
        json!({"metadata": {"labels": {"a": null}}, "status": {"phase": "Running"}, "spec": {"unschedulable": null}});
    let status = g.patch(&format!("{path}/status"), MERGE, back).await.ok();
    assert_eq!((&status["spec"]["unschedulable"], &status["status"]["phase"]), (&json!(true), &json!("Running")));
}

async fn a_wrong_taint_is_refused(g: Ground) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    let said = g.patch(&path, MERGE, json!({"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert_eq!(said.body["details"]["causes"][0]["reason"], "FieldValueNotSupported");
    let twice = json!({"key": "a", "effect": "NoSchedule"});
    let said = g.patch(&path, MERGE, json!({"spec": {"taints": [twice, twice]}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
}
