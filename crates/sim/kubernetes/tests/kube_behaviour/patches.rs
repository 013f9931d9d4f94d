//! Patches.

use serde_json::json;

use crate::test_server::{JSON_PATCH, MERGE, STRATEGIC, TestServer};

crate::both!(
    merge_patch_removes_nulls,
    patch_with_a_stale_version_conflicts,
    json_patch_is_atomic,
    containers_are_merged_by_name_and_only_images_may_change,
    conditions_are_merged_by_type,
    taints_are_replaced_as_a_list,
    finalizers_are_merged_as_a_set,
    directives_order_and_replace,
    unknown_patch_type_is_rejected,
    patch_of_a_missing_object_is_not_found,
);

async fn merge_patch_removes_nulls(g: TestServer) {
    let object = json!({"metadata": {"name": "a", "annotations": {"x": "1", "y": "2"}}, "data": {"k": "v", "l": "w"}});
    g.post(&g.path("configmaps"), object).await.ok();
    let patch = json!({"metadata": {"annotations": {"x": null, "z": "3"}}, "data": {"k": null}});
    let patched = g.patch(&g.path("configmaps/a"), MERGE, patch).await.ok();
    assert_eq!(patched["metadata"]["annotations"], json!({"y": "2", "z": "3"}));
    assert_eq!(patched["data"], json!({"l": "w"}));
    let none = json!({"metadata": {"annotations": {"y": null, "z": null}}});
    let patched = g.patch(&g.path("configmaps/a"), MERGE, none).await.ok();
    assert!(patched["metadata"].get("annotations").is_none(), "{patched:#}");
}

async fn patch_with_a_stale_version_conflicts(g: TestServer) {
    let first = g.config_map("a", "1").await;
    g.patch(&g.path("configmaps/a"), MERGE, json!({"data": {"value": "2"}})).await.ok();
    let version = first["metadata"]["resourceVersion"].clone();
    let stale = json!({"metadata": {"resourceVersion": version}, "data": {"value": "3"}});
    assert_eq!(g.patch(&g.path("configmaps/a"), MERGE, stale).await.error(), (409, "Conflict"));
    assert_eq!(g.get(&g.path("configmaps/a")).await.ok()["data"]["value"], "2");
}

async fn json_patch_is_atomic(g: TestServer) {
    g.config_map("a", "1").await;
    let patch = json!([
        {"op": "add", "path": "/data/more", "value": "x"},
        {"op": "test", "path": "/data/value", "value": "other"},
    ]);
    assert_eq!(g.patch(&g.path("configmaps/a"), JSON_PATCH, patch).await.error(), (422, "Invalid"));
    assert_eq!(g.get(&g.path("configmaps/a")).await.ok()["data"], json!({"value": "1"}));
    let patch = json!([
        {"op": "test", "path": "/data/value", "value": "1"},
        {"op": "replace", "path": "/data/value", "value": "2"},
        {"op": "add", "path": "/metadata/labels", "value": {"k": "v"}},
    ]);
    let patched = g.patch(&g.path("configmaps/a"), JSON_PATCH, patch).await.ok();
    assert_eq!((&patched["data"]["value"], &patched["metadata"]["labels"]["k"]), (&json!("2"), &json!("v")));
}

async fn containers_are_merged_by_name_and_only_images_may_change(g: TestServer) {
    let containers = json!({"spec": {"containers": [
        {"name": "a", "image": "x:1", "env": [{"name": "K", "value": "1"}]}, {"name": "b", "image": "y:1"},
    ]}});
    g.pod("p", None, containers).await;
    let patch = json!({"spec": {"containers": [{"name": "b", "image": "y:2"}]}});
    let patched = g.patch(&g.path("pods/p"), STRATEGIC, patch).await.ok();
    let images: Vec<_> =
        patched["spec"]["containers"].as_array().unwrap().iter().map(|one| one["image"].clone()).collect();
    assert_eq!(images, ["x:1", "y:2"]);
    let patch = json!({"spec": {"containers": [{"name": "a", "env": [{"name": "L", "value": "2"}]}]}});
    let reply = g.patch(&g.path("pods/p"), STRATEGIC, patch).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(reply.body["details"]["causes"][0]["field"], "spec");
    assert!(reply.message().contains("pod updates may not change fields other than"), "{}", reply.message());
}

async fn conditions_are_merged_by_type(g: TestServer) {
    let node = g.node().await;
    let path = format!("/api/v1/nodes/{node}/status");
    let more = json!({"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}});
    g.patch(&path, STRATEGIC, more).await.ok();
    let change = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let patched = g.patch(&path, STRATEGIC, change).await.ok();
    let find = |kind: &str| {
        let list = patched["status"]["conditions"].as_array().unwrap();
        list.iter().find(|condition| condition["type"] == kind).unwrap().clone()
    };
    assert_eq!((&find("Ready")["status"], &find("Ready")["reason"]), (&json!("False"), &json!("KubeletReady")));
    assert_eq!(find("DiskPressure")["status"], "False");
}

async fn taints_are_replaced_as_a_list(g: TestServer) {
    let node = g.node().await;
    let at = format!("/api/v1/nodes/{node}");
    for key in ["one", "two"] {
        let patch = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
        let patched = g.patch(&at, STRATEGIC, patch).await.ok();
        let own: Vec<_> = patched["spec"]["taints"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|taint| !taint["key"].as_str().unwrap().contains("kubernetes.io"))
            .map(|taint| taint["key"].clone())
            .collect();
        assert_eq!(own, [key]);
    }
}

async fn finalizers_are_merged_as_a_set(g: TestServer) {
    g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["kiln.dev/a"]}})).await.ok();
    let add = json!({"metadata": {"finalizers": ["kiln.dev/b", "kiln.dev/a"]}});
    let patched = g.patch(&g.path("configmaps/a"), STRATEGIC, add).await.ok();
    let mut all: Vec<_> =
        patched["metadata"]["finalizers"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, ["kiln.dev/a", "kiln.dev/b"]);
    let drop = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["kiln.dev/a", "kiln.dev/b"]}});
    let patched = g.patch(&g.path("configmaps/a"), STRATEGIC, drop).await.ok();
    assert!(patched["metadata"].get("finalizers").is_none(), "{patched:#}");
}

async fn directives_order_and_replace(g: TestServer) {
    let node = g.node().await;
    let path = format!("/api/v1/nodes/{node}/status");
    let three = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "h"},
    ]}});
    g.patch(&path, STRATEGIC, three).await.ok();
    let change = json!({"status": {
        "$setElementOrder/addresses": [{"type": "ExternalIP"}, {"type": "Hostname"}, {"type": "InternalIP"}],
        "addresses": [{"type": "ExternalIP", "address": "1.2.3.4"}],
    }});
    let patched = g.patch(&path, STRATEGIC, change).await.ok();
    let kinds: Vec<_> =
        patched["status"]["addresses"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(kinds, ["ExternalIP", "Hostname", "InternalIP"]);
    let change = json!({"status": {"addresses": [{"$patch": "delete", "type": "Hostname"}]}});
    let patched = g.patch(&path, STRATEGIC, change).await.ok();
    assert_eq!(patched["status"]["addresses"].as_array().unwrap().len(), 2);
    let change = json!({"status": {"addresses": [{"$patch": "replace"}, {"type": "Hostname", "address": "new"}]}});
    let patched = g.patch(&path, STRATEGIC, change).await.ok();
    assert_eq!(patched["status"]["addresses"], json!([{"type": "Hostname", "address": "new"}]));
    let change = json!({"metadata": {"labels": {"$patch": "replace", "only": "this"}}});
    let path = format!("/api/v1/nodes/{node}");
    let patched = g.patch(&path, STRATEGIC, change.clone()).await.ok();
    assert!(patched["metadata"].get("labels").is_none(), "nothing to replace: {patched:#}");
    g.patch(&path, STRATEGIC, json!({"metadata": {"labels": {"old": "one"}}})).await.ok();
    let patched = g.patch(&path, STRATEGIC, change).await.ok();
    assert_eq!(patched["metadata"]["labels"], json!({"only": "this"}));
}

async fn unknown_patch_type_is_rejected(g: TestServer) {
    g.config_map("a", "1").await;
    let reply = g.patch(&g.path("configmaps/a"), "application/json", json!({})).await;
    assert_eq!(reply.error(), (415, "UnsupportedMediaType"));
}

async fn patch_of_a_missing_object_is_not_found(g: TestServer) {
    let reply = g.patch(&g.path("configmaps/none"), MERGE, json!({"data": {}})).await;
    assert_eq!(reply.error(), (404, "NotFound"));
    let node = g.node().await;
    let reply = g.patch(&format!("/api/v1/nodes/{node}"), MERGE, json!({"metadata": {"name": "other"}})).await;
    assert_eq!(reply.error().0, 400);
}
