//! Deleting.

use serde_json::json;

use crate::ground::{Ground, MERGE};

crate::both!(
    a_deletion_tells_what_went,
    a_finalizer_holds_a_deletion,
    a_precondition_that_does_not_hold_stops_a_deletion,
    a_collection_goes_by_its_labels,
    what_a_namespace_holds_goes_with_it,
    nothing_new_comes_into_a_namespace_that_goes,
    what_an_owner_had_goes_with_it_or_is_let_go,
    an_owner_waits_for_its_dependents_when_asked_to,
);

async fn a_deletion_tells_what_went(g: Ground) {
    let made = g.config_map("a", "1").await;
    let said = g.delete(&g.path("configmaps/a"), json!({})).await.ok();
    assert_eq!((&said["kind"], &said["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(said["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    assert_eq!(g.delete(&g.path("configmaps/a"), json!({})).await.refused(), (404, "NotFound"));
}

async fn a_finalizer_holds_a_deletion(g: Ground) {
    g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["kiln.dev/x"]}})).await.ok();
    let held = g.delete(&g.path("configmaps/a"), json!({})).await.ok();
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let more = json!({"metadata": {"finalizers": ["kiln.dev/x", "kiln.dev/y"]}});
    let said = g.patch(&g.path("configmaps/a"), MERGE, more).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert!(said.message().contains("no new finalizers can be added if the object is being deleted"));
    g.patch(&g.path("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
}

async fn a_precondition_that_does_not_hold_stops_a_deletion(g: Ground) {
    let made = g.config_map("a", "1").await;
    let said = g.delete(&g.path("configmaps/a"), json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(said.refused(), (409, "Conflict"));
    assert!(said.message().contains("UID"), "{}", said.message());
    let said = g.delete(&g.path("configmaps/a"), json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(said.refused(), (409, "Conflict"));
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}});
    g.delete(&g.path("configmaps/a"), right).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
}

async fn a_collection_goes_by_its_labels(g: Ground) {
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
    }
    let gone = g.call("DELETE", &g.path("secrets?labelSelector=app%3Dweb"), "", None).await.ok();
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = g.get(&g.path("secrets")).await.ok();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
}

async fn what_a_namespace_holds_goes_with_it(g: Ground) {
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

async fn nothing_new_comes_into_a_namespace_that_goes(g: Ground) {
    g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["kiln.dev/x"]}})).await.ok();
    let path = format!("/api/v1/namespaces/{}", g.namespace);
    g.delete(&path, json!({})).await.ok();
    let said = g.post(&g.path("secrets"), json!({"metadata": {"name": "late"}})).await;
    assert_eq!(said.refused(), (403, "Forbidden"));
    assert!(said.message().contains("because it is being terminated"), "{}", said.message());
    assert_eq!(said.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    // The real server empties it in its own time.
    g.until(&g.path("configmaps/a"), |said| said.body["metadata"]["deletionTimestamp"].is_string()).await;
    g.patch(&g.path("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&path).await;
}

async fn owned(g: &Ground, owner: &serde_json::Value, name: &str, blocks: bool) {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    });
    g.post(&g.path("secrets"), json!({"metadata": {"name": name, "ownerReferences": [reference]}})).await.ok();
}

async fn what_an_owner_had_goes_with_it_or_is_let_go(g: Ground) {
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

async fn an_owner_waits_for_its_dependents_when_asked_to(g: Ground) {
    let one = g.config_map("one", "1").await;
    owned(&g, &one, "of-one", true).await;
    g.patch(&g.path("secrets/of-one"), MERGE, json!({"metadata": {"finalizers": ["kiln.dev/x"]}})).await.ok();
    g.delete(&g.path("configmaps/one"), json!({"propagationPolicy": "Foreground"})).await.ok();
    let dependent = g.path("secrets/of-one");
    g.until(&dependent, |said| said.body["metadata"]["deletionTimestamp"].is_string()).await;
    let owner = g.get(&g.path("configmaps/one")).await.ok();
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    g.patch(&dependent, MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&g.path("configmaps/one")).await;
}
