//! Deletion.

use serde_json::json;

use crate::test_server::{MERGE, TestServer};

crate::both!(
    deletion_returns_a_status_with_details,
    finalizer_delays_a_deletion,
    failed_precondition_rejects_a_deletion,
    collection_is_deleted_by_label,
    namespace_is_deleted_with_its_content,
    terminating_namespace_accepts_no_new_objects,
    dependents_are_deleted_or_orphaned,
    foreground_deletion_waits_for_dependents,
);

async fn deletion_returns_a_status_with_details(g: TestServer) {
    let made = g.config_map("a", "1").await;
    let reply = g.delete(&g.path("configmaps/a"), json!({})).await.ok();
    assert_eq!((&reply["kind"], &reply["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(reply["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    assert_eq!(g.delete(&g.path("configmaps/a"), json!({})).await.error(), (404, "NotFound"));
}

async fn finalizer_delays_a_deletion(g: TestServer) {
    g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["kiln.dev/x"]}})).await.ok();
    let held = g.delete(&g.path("configmaps/a"), json!({})).await.ok();
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let more = json!({"metadata": {"finalizers": ["kiln.dev/x", "kiln.dev/y"]}});
    let reply = g.patch(&g.path("configmaps/a"), MERGE, more).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(reply.message().contains("no new finalizers can be added if the object is being deleted"));
    g.patch(&g.path("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
}

async fn failed_precondition_rejects_a_deletion(g: TestServer) {
    let made = g.config_map("a", "1").await;
    let reply = g.delete(&g.path("configmaps/a"), json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert!(reply.message().contains("UID"), "{}", reply.message());
    let reply = g.delete(&g.path("configmaps/a"), json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}});
    g.delete(&g.path("configmaps/a"), right).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
}

async fn collection_is_deleted_by_label(g: TestServer) {
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
    }
    let gone = g.call("DELETE", &g.path("secrets?labelSelector=app%3Dweb"), "", None).await.ok();
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = g.get(&g.path("secrets")).await.ok();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
}

async fn namespace_is_deleted_with_its_content(g: TestServer) {
    g.config_map("a", "1").await;
    let path = format!("/api/v1/namespaces/{}", g.namespace);
    let space = g.get(&path).await.ok();
    assert_eq!(space["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(space["metadata"]["labels"]["kubernetes.io/metadata.name"], json!(g.namespace));
    let going = g.delete(&path, json!({})).await.ok();
    assert_eq!(going["status"]["phase"], "Terminating");
    g.until_gone(&path).await;
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
}

async fn terminating_namespace_accepts_no_new_objects(g: TestServer) {
    g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["kiln.dev/x"]}})).await.ok();
    let path = format!("/api/v1/namespaces/{}", g.namespace);
    g.delete(&path, json!({})).await.ok();
    let reply = g.post(&g.path("secrets"), json!({"metadata": {"name": "late"}})).await;
    assert_eq!(reply.error(), (403, "Forbidden"));
    assert!(reply.message().contains("because it is being terminated"), "{}", reply.message());
    assert_eq!(reply.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    // The real server empties the namespace asynchronously.
    g.until(&g.path("configmaps/a"), |reply| reply.body["metadata"]["deletionTimestamp"].is_string()).await;
    g.patch(&g.path("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&path).await;
}

async fn owned(g: &TestServer, owner: &serde_json::Value, name: &str, blocks: bool) {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    });
    g.post(&g.path("secrets"), json!({"metadata": {"name": name, "ownerReferences": [reference]}})).await.ok();
}

async fn dependents_are_deleted_or_orphaned(g: TestServer) {
    let one = g.config_map("one", "1").await;
    owned(&g, &one, "of-one", false).await;
    let two = g.config_map("two", "1").await;
    owned(&g, &two, "of-two", false).await;
    g.delete(&g.path("configmaps/two"), json!({"propagationPolicy": "Orphan"})).await.ok();
    g.until_gone(&g.path("configmaps/two")).await;
    let left = g.get(&g.path("secrets/of-two")).await.ok();
    assert!(left["metadata"].get("ownerReferences").is_none(), "{left:#}");
    g.delete(&g.path("configmaps/one"), json!({"propagationPolicy": "Background"})).await.ok();
    g.until_gone(&g.path("secrets/of-one")).await;
    assert_eq!(g.get(&g.path("secrets/of-two")).await.code, 200);
}

async fn foreground_deletion_waits_for_dependents(g: TestServer) {
    let one = g.config_map("one", "1").await;
    owned(&g, &one, "of-one", true).await;
    g.patch(&g.path("secrets/of-one"), MERGE, json!({"metadata": {"finalizers": ["kiln.dev/x"]}})).await.ok();
    g.delete(&g.path("configmaps/one"), json!({"propagationPolicy": "Foreground"})).await.ok();
    let dependent = g.path("secrets/of-one");
    g.until(&dependent, |reply| reply.body["metadata"]["deletionTimestamp"].is_string()).await;
    let owner = g.get(&g.path("configmaps/one")).await.ok();
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    g.patch(&dependent, MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&g.path("configmaps/one")).await;
}
