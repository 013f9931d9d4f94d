//! Creating and changing objects.

use serde_json::json;

use crate::test_server::TestServer;

crate::both!(
    server_sets_its_own_metadata,
    duplicate_name_is_rejected,
    stale_update_conflicts,
    unchanged_update_keeps_the_resource_version,
    lease_update_needs_a_resource_version,
    generate_name_creates_unique_names,
    invalid_names_and_labels_name_their_field,
    object_needs_an_existing_namespace,
    object_must_match_its_path,
    unknown_fields_are_rejected_dropped_or_warned_about,
    dry_run_changes_nothing,
    secret_string_data_is_encoded,
    event_is_served_by_both_groups,
    unknown_resources_and_missing_objects_are_distinguished,
    new_objects_have_all_fields_that_the_server_always_writes,
);

async fn server_sets_its_own_metadata(g: TestServer) {
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

async fn duplicate_name_is_rejected(g: TestServer) {
    g.config_map("a", "1").await;
    let reply = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.error(), (409, "AlreadyExists"));
    assert_eq!(reply.message(), "configmaps \"a\" already exists");
    assert_eq!(reply.body["details"], json!({"name": "a", "kind": "configmaps"}));
}

async fn stale_update_conflicts(g: TestServer) {
    let first = g.config_map("a", "1").await;
    let mut second = first.clone();
    second["data"]["value"] = json!("2");
    let second = g.put(&g.path("configmaps/a"), second).await.ok();
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let mut stale = first;
    stale["data"]["value"] = json!("3");
    let reply = g.put(&g.path("configmaps/a"), stale.clone()).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert_eq!(
        reply.message(),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    stale["metadata"]["resourceVersion"] = json!("");
    assert_eq!(g.put(&g.path("configmaps/a"), stale).await.ok()["data"]["value"], "3");
}

async fn unchanged_update_keeps_the_resource_version(g: TestServer) {
    let made = g.config_map("a", "1").await;
    let again = g.put(&g.path("configmaps/a"), made.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

async fn lease_update_needs_a_resource_version(g: TestServer) {
    let path = g.group_path("coordination.k8s.io", "leases");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
        "renewTime": "2026-01-02T03:04:05.000006Z"}});
    let made = g.post(&path, lease.clone()).await.ok();
    assert_eq!(made["spec"]["renewTime"], "2026-01-02T03:04:05.000006Z");
    let reply = g.put(&format!("{path}/l"), lease).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(reply.message().contains("metadata.resourceVersion: Invalid value"), "{}", reply.message());
    let mut next = made;
    next["spec"]["holderIdentity"] = json!("you");
    assert_eq!(g.put(&format!("{path}/l"), next).await.ok()["spec"]["holderIdentity"], "you");
}

async fn generate_name_creates_unique_names(g: TestServer) {
    let mut names = Vec::new();
    for _ in 0..3 {
        let made = g.post(&g.path("configmaps"), json!({"metadata": {"generateName": "x-"}})).await.ok();
        names.push(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.starts_with("x-") && name.len() == 7), "{names:?}");
    let reply = g.post(&g.path("configmaps"), json!({"metadata": {}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(reply.message().contains("name or generateName is required"), "{}", reply.message());
}

async fn invalid_names_and_labels_name_their_field(g: TestServer) {
    let reply = g.post(&g.path("configmaps"), json!({"metadata": {"name": "Not_A_Name"}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(reply.body["details"]["causes"][0]["field"], "metadata.name");
    assert_eq!(reply.body["details"]["causes"][0]["reason"], "FieldValueInvalid");
    let reply = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "labels": {"k": "no no"}}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(reply.body["details"]["causes"][0]["field"], "metadata.labels");
}

async fn object_needs_an_existing_namespace(g: TestServer) {
    let reply = g.post("/api/v1/namespaces/no-such-space/configmaps", json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.error(), (404, "NotFound"));
    assert_eq!(reply.message(), "namespaces \"no-such-space\" not found");
}

async fn object_must_match_its_path(g: TestServer) {
    let reply = g.post(&g.path("configmaps"), json!({"metadata": {"name": "a", "namespace": "other"}})).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert_eq!(
        reply.message(),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    g.config_map("a", "1").await;
    let reply = g.put(&g.path("configmaps/a"), json!({"metadata": {"name": "b"}})).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert_eq!(reply.message(), "the name of the object (b) does not match the name on the URL (a)");
    let reply =
        g.post(&g.path("configmaps"), json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}})).await;
    assert_eq!(reply.error().0, 400);
}

async fn unknown_fields_are_rejected_dropped_or_warned_about(g: TestServer) {
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"nodename": "x", "containers": [{"name": "a", "image": "b", "imagee": "c"}]}});
    let reply = g.post(&g.path("pods?fieldValidation=Strict"), pod("a")).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    for path in ["unknown field \"spec.containers[0].imagee\"", "unknown field \"spec.nodename\""] {
        assert!(reply.message().contains(path), "{}", reply.message());
    }
    let reply = g.post(&g.path("pods"), pod("b")).await;
    assert!(reply.warnings.iter().any(|warning| warning.contains("spec.nodename")), "{:?}", reply.warnings);
    assert!(reply.ok()["spec"].get("nodename").is_none());
    let reply = g.post(&g.path("pods?fieldValidation=Ignore"), pod("c")).await;
    assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
}

async fn dry_run_changes_nothing(g: TestServer) {
    let reply = g.post(&g.path("configmaps?dryRun=All"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.code, 201);
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 404);
    g.config_map("a", "1").await;
    g.call("DELETE", &g.path("configmaps/a?dryRun=All"), "", None).await.ok();
    assert_eq!(g.get(&g.path("configmaps/a")).await.code, 200);
}

async fn secret_string_data_is_encoded(g: TestServer) {
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "value"}});
    let made = g.post(&g.path("secrets"), secret).await.ok();
    assert_eq!(made["data"]["k"], "dmFsdWU=");
    assert_eq!(made["type"], "Opaque");
    assert!(made.get("stringData").is_none());
}

async fn event_is_served_by_both_groups(g: TestServer) {
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

async fn unknown_resources_and_missing_objects_are_distinguished(g: TestServer) {
    let reply = g.get(&g.path("configmaps/none")).await;
    assert_eq!(reply.error(), (404, "NotFound"));
    assert_eq!(reply.message(), "configmaps \"none\" not found");
    let reply = g.get(&g.group_path("policy", "poddisruptionbudgets/none")).await;
    assert_eq!(reply.message(), "poddisruptionbudgets.policy \"none\" not found");
    assert_eq!(reply.body["details"]["group"], "policy");
    assert_eq!(g.get(&g.path("nothings")).await.code, 404);
    assert_eq!(g.post(&g.path("configmaps/a/b"), json!({})).await.code, 404);
}

/// The fields of a new object, without metadata.
async fn content(g: &TestServer, path: &str, object: serde_json::Value) -> serde_json::Value {
    let mut made = g.post(path, object).await.ok();
    let fields = made.as_object_mut().unwrap();
    for field in ["metadata", "kind", "apiVersion"] {
        fields.remove(field);
    }
    made
}

async fn new_objects_have_all_fields_that_the_server_always_writes(g: TestServer) {
    let node = json!({"metadata": {"name": TestServer::unique("node")}});
    let info = json!({
        "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
        "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
        "architecture": "",
    });
    assert_eq!(
        content(&g, "/api/v1/nodes", node).await["status"],
        json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": info})
    );
    let named = || json!({"metadata": {"name": "a"}});
    let lease = content(&g, &g.group_path("coordination.k8s.io", "leases"), named()).await;
    assert_eq!(lease, json!({"spec": {}}));
    let budget = content(&g, &g.group_path("policy", "poddisruptionbudgets"), named()).await;
    let status = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    assert_eq!(budget, json!({"spec": {}, "status": status}));
    assert_eq!(content(&g, &g.path("secrets"), named()).await, json!({"type": "Opaque"}));
    assert_eq!(content(&g, &g.path("configmaps"), named()).await, json!({}));
    let mut event = named();
    event["involvedObject"] = json!({"namespace": g.namespace});
    let mut made = content(&g, &g.path("events"), event).await;
    made.as_object_mut().unwrap().remove("involvedObject");
    assert_eq!(
        made,
        json!({
            "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
            "reportingInstance": "",
        })
    );
    let mut service = named();
    service["spec"] = json!({"clusterIP": "None", "ports": [{"port": 80}]});
    let made = content(&g, &g.path("services"), service).await;
    assert_eq!(made["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(
        (&made["spec"]["internalTrafficPolicy"], &made["status"]),
        (&json!("Cluster"), &json!({"loadBalancer": {}}))
    );
}
