//! Nodes and their leases.

use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

crate::both!(
    new_node_is_not_ready,
    cordon_adds_a_taint,
    provider_id_is_immutable,
    node_status_is_a_subresource,
    invalid_taint_is_rejected,
    volume_attachment_names_its_node_and_does_not_change,
);

fn keys(node: &Value) -> Vec<&str> {
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    taints.iter().map(|taint| taint["key"].as_str().unwrap()).collect()
}

async fn new_node_is_not_ready(g: TestServer) {
    let name = TestServer::unique("node");
    let made = g.post("/api/v1/nodes", json!({"metadata": {"name": name}})).await.ok();
    assert_eq!(keys(&made), ["node.kubernetes.io/not-ready"]);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    g.patch(&format!("/api/v1/nodes/{name}/status"), MERGE, ready).await.ok();
    g.until(&format!("/api/v1/nodes/{name}"), |reply| keys(&reply.body).is_empty()).await;
}

async fn cordon_adds_a_taint(g: TestServer) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    g.patch(&path, MERGE, json!({"spec": {"unschedulable": true}})).await.ok();
    g.until(&path, |reply| keys(&reply.body).contains(&"node.kubernetes.io/unschedulable")).await;
    let list = g.get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").await.ok();
    assert!(
        list["items"].as_array().unwrap().iter().any(|node| path.ends_with(node["metadata"]["name"].as_str().unwrap()))
    );
    g.patch(&path, MERGE, json!({"spec": {"unschedulable": null}})).await.ok();
    g.until(&path, |reply| !keys(&reply.body).contains(&"node.kubernetes.io/unschedulable")).await;
}

async fn provider_id_is_immutable(g: TestServer) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    g.patch(&path, MERGE, json!({"spec": {"providerID": "azure:///a"}})).await.ok();
    let reply = g.patch(&path, MERGE, json!({"spec": {"providerID": "azure:///b"}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(g.get(&path).await.ok()["spec"]["providerID"], "azure:///a");
}

async fn node_status_is_a_subresource(g: TestServer) {
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

async fn invalid_taint_is_rejected(g: TestServer) {
    let path = format!("/api/v1/nodes/{}", g.node().await);
    let reply = g.patch(&path, MERGE, json!({"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(reply.body["details"]["causes"][0]["reason"], "FieldValueNotSupported");
    let twice = json!({"key": "a", "effect": "NoSchedule"});
    let reply = g.patch(&path, MERGE, json!({"spec": {"taints": [twice, twice]}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
}

async fn volume_attachment_names_its_node_and_does_not_change(g: TestServer) {
    let (name, base) = (TestServer::unique("attachment"), "/apis/storage.k8s.io/v1/volumeattachments");
    let spec = json!({"attacher": "disk.example", "nodeName": "node-1", "source": {"persistentVolumeName": "pvc-1"}});
    let wanted = json!({"metadata": {"name": name}, "spec": spec, "status": {"attached": true}});
    let made = g.post(base, wanted).await.ok();
    assert_eq!((&made["spec"], &made["status"]), (&spec, &json!({"attached": false})), "the attacher reports it");
    let path = format!("{base}/{name}");
    let moved = g.patch(&path, MERGE, json!({"spec": {"nodeName": "node-2"}})).await;
    assert_eq!(moved.error(), (422, "Invalid"));
    let attached = g.patch(&format!("{path}/status"), MERGE, json!({"status": {"attached": true}})).await.ok();
    assert_eq!(attached["status"]["attached"], true);
    let nameless = json!({"metadata": {"name": TestServer::unique("attachment")},
        "spec": {"attacher": "disk.example", "nodeName": "", "source": {"persistentVolumeName": "pvc-1"}}});
    assert_eq!(g.post(base, nameless).await.error(), (422, "Invalid"));
    let list = g.get(base).await.ok();
    assert!(list["items"].as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name.as_str()));
    g.delete(&path, json!({})).await.ok();
    assert_eq!(g.get(&path).await.error().0, 404);
}
