//! Pods.

use serde_json::json;

use crate::test_server::{MERGE, STRATEGIC, TestServer};

crate::both!(
    pod_gets_defaults,
    pod_without_containers_is_invalid,
    bound_pod_terminates_with_a_grace_period,
    unbound_pod_is_deleted_at_once,
    ended_pod_is_deleted_at_once,
    pod_with_a_finalizer_remains_after_its_grace_period,
    pod_is_bound_once,
    pod_status_is_a_subresource,
    tolerations_may_be_added_but_not_removed,
);

async fn pod_gets_defaults(g: TestServer) {
    let pod = g.pod("a", None, json!({})).await;
    let spec = &pod["spec"];
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("priority", json!(0)),
        ("securityContext", json!({})),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    let container = &spec["containers"][0];
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(container["resources"], json!({}));
    assert_eq!(
        spec["tolerations"],
        json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ])
    );
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
}

async fn pod_without_containers_is_invalid(g: TestServer) {
    let reply = g.post(&g.path("pods"), json!({"metadata": {"name": "a"}, "spec": {"containers": []}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(reply.message(), "Pod \"a\" is invalid: spec.containers: Required value");
    assert_eq!(
        reply.body["details"],
        json!({"name": "a", "kind": "Pod", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        ]})
    );
}

async fn bound_pod_terminates_with_a_grace_period(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    let ending = g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(ending["kind"], "Pod");
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    let end = ending["metadata"]["deletionTimestamp"].clone();
    // The grace period can only be shortened.
    let again = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(
        (&again["metadata"]["deletionTimestamp"], &again["metadata"]["deletionGracePeriodSeconds"]),
        (&end, &json!(30))
    );
    let sooner = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200, "only its kubelet removes it");
    g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn unbound_pod_is_deleted_at_once(g: TestServer) {
    g.pod("a", None, json!({})).await;
    let gone = g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(gone["kind"], "Pod");
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn ended_pod_is_deleted_at_once(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.patch(&g.path("pods/a/status"), MERGE, json!({"status": {"phase": "Succeeded"}})).await.ok();
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn pod_with_a_finalizer_remains_after_its_grace_period(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({"metadata": {"finalizers": ["kiln.dev/x"]}})).await;
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    let ended = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(ended["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200);
    g.patch(&g.path("pods/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn pod_is_bound_once(g: TestServer) {
    let node = g.node().await;
    g.pod("a", None, json!({})).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
    let reply = g.post(&g.path("pods/a/binding"), binding.clone()).await;
    assert_eq!((reply.code, &reply.body["status"]), (201, &json!("Success")));
    let pod = g.get(&g.path("pods/a")).await.ok();
    assert_eq!(pod["spec"]["nodeName"], json!(node));
    let scheduled = &pod["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));
    let reply = g.post(&g.path("pods/a/binding"), binding).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert!(reply.message().contains(&format!("is already assigned to node \"{node}\"")), "{}", reply.message());
}

async fn pod_status_is_a_subresource(g: TestServer) {
    let pod = g.pod("a", None, json!({})).await;
    let mut changed = pod.clone();
    changed["status"]["phase"] = json!("Running");
    changed["metadata"]["labels"]["more"] = json!("x");
    let put = g.put(&g.path("pods/a"), changed.clone()).await.ok();
    assert_eq!((&put["status"]["phase"], &put["metadata"]["labels"]["more"]), (&json!("Pending"), &json!("x")));
    let mut status = put.clone();
    status["status"]["phase"] = json!("Running");
    status["spec"]["containers"][0]["image"] = json!("other:1");
    let put = g.put(&g.path("pods/a/status"), status).await.ok();
    assert_eq!(put["status"]["phase"], "Running");
    assert_eq!(put["spec"]["containers"][0]["image"], "pause:3.9");
}

async fn tolerations_may_be_added_but_not_removed(g: TestServer) {
    let pod = g.pod("a", None, json!({})).await;
    let mut tolerations = pod["spec"]["tolerations"].as_array().unwrap().clone();
    tolerations.push(json!({"key": "x", "operator": "Exists"}));
    let patched = g.patch(&g.path("pods/a"), STRATEGIC, json!({"spec": {"tolerations": tolerations}})).await.ok();
    assert_eq!(patched["spec"]["tolerations"].as_array().unwrap().len(), 3);
    let reply = g.patch(&g.path("pods/a"), STRATEGIC, json!({"spec": {"tolerations": []}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
}
