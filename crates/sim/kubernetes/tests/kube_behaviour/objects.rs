//! Making and changing objects.

use serde_json::json;

use crate::ground::Ground;

crate::both!(
    a_new_object_gets_what_only_the_server_gives,
    a_second_object_of_the_same_name_is_refused,
    a_stale_update_is_a_conflict,
    an_update_that_changes_nothing_writes_nothing,
    a_lease_is_updated_by_its_version_only,
    a_name_is_made_of_generate_name,
    bad_names_and_labels_are_named_by_their_field,
    an_object_needs_its_namespace,
    the_object_has_to_be_what_its_path_says,
    unknown_fields_are_refused_dropped_or_told_of,
    a_dry_run_changes_nothing,
    secrets_take_text_and_give_base64,
    one_event_has_two_views,
    an_unknown_resource_and_an_unknown_object_are_told_apart,
);

async fn a_new_object_gets_what_only_the_server_gives(g: Ground) {
    let mut object = json!({"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}});
    object["data"] = json!({"k": "v"});
    let made = g.post(&g.path("configmaps"), object).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(made["metadata"]["namespace"], json!(g.namespace));
    assert_ne!(made["metadata"]["uid"], "mine");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(!made["metadata"]["creationTimestamp"].as_str().unwrap().starts_with("2001"));
    let read = g.get(&g.path("configmaps/a")).await.ok();
    assert_eq!(read["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(read["data"], json!({"k": "v"}));
}

async fn a_second_object_of_the_same_name_is_refused(g: Ground) {
    g.config_map("a", "1").await;
    let said = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(said.refused(), (409, "AlreadyExists"));
    assert_eq!(said.message(), "configmaps \"a\" already exists");
    assert_eq!(said.body["details"], json!({"name": "a", "kind": "configmaps"}));
}

async fn a_stale_update_is_a_conflict(g: Ground) {
    let first = g.config_map("a", "1").await;
    let mut second = first.clone();
    second["data"]["value"] = json!("2");
    let second = g.put(&g.path("configmaps/a"), second).await.ok();
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let mut stale = first;
    stale["data"]["value"] = json!("3");
    let said = g.put(&g.path("configmaps/a"), stale.clone()).await;
    assert_eq!(said.refused(), (409, "Conflict"));
    assert_eq!(
        said.message(),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    stale["metadata"]["resourceVersion"] = json!("");
    assert_eq!(g.put(&g.path("configmaps/a"), stale).await.ok()["data"]["value"], "3");
}

async fn an_update_that_changes_nothing_writes_nothing(g: Ground) {
    let made = g.config_map("a", "1").await;
    let again = g.put(&g.path("configmaps/a"), made.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

async fn a_lease_is_updated_by_its_version_only(g: Ground) {
    let path = g.group_path("coordination.k8s.io", "leases");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
        "renewTime": "2026-01-02T03:04:05.000006Z"}});
    let made = g.post(&path, lease.clone()).await.ok();
    assert_eq!(made["spec"]["renewTime"], "2026-01-02T03:04:05.000006Z");
    let said = g.put(&format!("{path}/l"), lease).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert!(said.message().contains("metadata.resourceVersion: Invalid value"), "{}", said.message());
    let mut next = made;
    next["spec"]["holderIdentity"] = json!("you");
    assert_eq!(g.put(&format!("{path}/l"), next).await.ok()["spec"]["holderIdentity"], "you");
}

async fn a_name_is_made_of_generate_name(g: Ground) {
    let mut names = Vec::new();
    for _ in 0..3 {
        let made = g.post(&g.path("configmaps"), json!({"metadata": {"generateName": "x-"}})).await.ok();
        names.push(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.starts_with("x-") && name.len() == 7), "{names:?}");
    let said = g.post(&g.path("configmaps"), json!({"metadata": {}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert!(said.message().contains("name or generateName is required"), "{}", said.message());
}

async fn bad_names_and_labels_are_named_by_their_field(g: Ground) {
    let said = g.post(&g.path("configmaps"), json!({"metadata": {"name": "Not_A_Name"}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert_eq!(said.body["details"]["causes"][0]["field"], "metadata.name");
    assert_eq!(said.body["details"]["causes"][0]["reason"], "FieldValueInvalid");
    let said = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "labels": {"k": "no no"}}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert_eq!(said.body["details"]["causes"][0]["field"], "metadata.labels");
}

async fn an_object_needs_its_namespace(g: Ground) {
    let said = g.post("/api/v1/namespaces/no-such-space/configmaps", json!({"metadata": {"name": "a"}})).await;
    assert_eq!(said.refused(), (404, "NotFound"));
    assert_eq!(said.message(), "namespaces \"no-such-space\" not found");
}

async fn the_object_has_to_be_what_its_path_says(g: Ground) {
    let said = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "namespace": "other"}})).await;
    assert_eq!(said.refused(), (400, "BadRequest"));
    assert_eq!(said.message(), "the namespace of the provided object does not match the namespace sent on the request");
    g.config_map("a", "1").await;
    let said = g.put(&g.path("configmaps/a"), json!({"metadata": {"name": "b"}})).await;
    assert_eq!(said.refused(), (400, "BadRequest"));
    assert_eq!(said.message(), "the name of the object (b) does not match the name on the URL (a)");
    let said =
        g.post(&g.path("configmaps"), json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}})).await;
    assert_eq!(said.refused().0, 400);
}

async fn unknown_fields_are_refused_dropped_or_told_of(g: Ground) {
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"nodename": "x", "containers": [{"name": "a", "image": "b", "imagee": "c"}]}});
    let said = g.post(&g.path("pods?fieldValidation=Strict"), pod("a")).await;
    assert_eq!(said.refused(), (400, "BadRequest"));
    for path in ["unknown field \"spec.containers[0].imagee\"", "unknown field \"spec.nodename\""] {
        assert!(said.message().contains(path), "{}", said.message());
    }
    let said = g.post(&g.path("pods"), pod("b")).await;
    assert!(said.warnings.iter().any(|warning| warning.contains("spec.nodename")), "{:?}", said.warnings);
    assert!(said.ok()["spec"].get("nodename").is_none());
    let said = g.post(&g.path("pods?fieldValidation=Ignore"), pod("c")).await;
    assert!(said.warnings.is_empty(), "{:?}", said.warnings);
}

async fn a_dry_run_changes_nothing(g: Ground) {
    let said = g.post(&g.path("configmaps?dryRun=All"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(said.code, 201);
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
    g.config_map("a", "1").await;
    g.call("DELETE", &g.path("configmaps/a?dryRun=All"), "", None).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 200);
}

async fn secrets_take_text_and_give_base64(g: Ground) {
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "value"}});
    let made = g.post(&g.path("secrets"), secret).await.ok();
    assert_eq!(made["data"]["k"], "dmFsdWU=");
    assert_eq!(made["type"], "Opaque");
    assert!(made.get("stringData").is_none());
}

async fn one_event_has_two_views(g: Ground) {
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": g.namespace}, "note": "text",
        "reason": "Because", "type": "Normal", "action": "Acting", "reportingController": "kiln.dev/test",
        "reportingInstance": "here", "eventTime": "2026-01-02T03:04:05.000006Z",
    });
    g.post(&g.group_path("events.k8s.io", "events"), event).await.ok();
    let core = g.get(&g.path("events/e")).await.ok();
    assert_eq!(core["involvedObject"]["name"], "p");
    assert_eq!(core["message"], "text");
    assert_eq!(core["reportingComponent"], "kiln.dev/test");
    let listed = g.get(&g.path("events?fieldSelector=involvedObject.name=p,reason=Because")).await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let new = g.get(&g.group_path("events.k8s.io", "events/e")).await.ok();
    assert_eq!((&new["apiVersion"], &new["note"]), (&json!("events.k8s.io/v1"), &json!("text")));
}

async fn an_unknown_resource_and_an_unknown_object_are_told_apart(g: Ground) {
    let said = g.get(&g.path("configmaps/none")).await;
    assert_eq!(said.refused(), (404, "NotFound"));
    assert_eq!(said.message(), "configmaps \"none\" not found");
    let said = g.get(&g.group_path("policy", "poddisruptionbudgets/none")).await;
    assert_eq!(said.message(), "poddisruptionbudgets.policy \"none\" not found");
    assert_eq!(said.body["details"]["group"], "policy");
    assert_eq!(g.get(&g.path("nothings")).await.code, 404);
    assert_eq!(g.post(&g.path("configmaps/a/b"), json!({})).await.code, 404);
}
