//! Pods.

use serde_json::json;

use crate::ground::{Ground, MERGE, STRATEGIC};

crate::both!(
    a_pod_gets_its_defaults,
    a_pod_without_containers_is_invalid,
    a_bound_pod_ends_with_grace,
    an_unbound_pod_goes_at_once,
    an_ended_pod_goes_at_once,
    a_pod_with_a_finalizer_outlives_its_kubelet,
    a_pod_is_bound_once,
    the_status_of_a_pod_is_written_apart,
    a_pod_may_get_tolerations_and_lose_none,
);

async fn a_pod_gets_its_defaults(g: Ground) {
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

async fn a_pod_without_containers_is_invalid(g: Ground) {
    let said = g.post(&g.path("pods"), json!({"metadata": {"name": "a"}, "spec": {"containers": []}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert_eq!(said.message(), "Pod \"a\" is invalid: spec.containers: Required value");
    assert_eq!(
        said.body["details"],
        json!({"name": "a", "kind": "Pod", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        ]})
    );
}

async fn a_bound_pod_ends_with_grace(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    let ending = g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(ending["kind"], "Pod");
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    let end = ending["metadata"]["deletionTimestamp"].clone();
    // Longer is not granted, shorter is.
    let again = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(
        (&again["metadata"]["deletionTimestamp"], &again["metadata"]["deletionGracePeriodSeconds"]),
        (&end, &json!(30))
    );
    let sooner = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200, "only its kubelet ends it");
    g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn an_unbound_pod_goes_at_once(g: Ground) {
    g.pod("a", None, json!({})).await;
    let gone = g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(gone["kind"], "Pod");
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn an_ended_pod_goes_at_once(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.patch(&g.path("pods/a/status"), MERGE, json!({"status": {"phase": "Succeeded"}})).await.ok();
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn a_pod_with_a_finalizer_outlives_its_kubelet(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({"metadata": {"finalizers": ["kiln.dev/x"]}})).await;
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    let ended = g.delete(&g.path("pods/a"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(ended["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200);
    g.patch(&g.path("pods/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
}

async fn a_pod_is_bound_once(g: Ground) {
    let node = g.node().await;
    g.pod("a", None, json!({})).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
    let said = g.post(&g.path("pods/a/binding"), binding.clone()).await;
    assert_eq!((said.code, &said.body["status"]), (201, &json!("Success")));
    let pod = g.get(&g.path("pods/a")).await.ok();
    assert_eq!(pod["spec"]["nodeName"], json!(node));
    let scheduled = &pod["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));
    let said = g.post(&g.path("pods/a/binding"), binding).await;
    assert_eq!(said.refused(), (409, "Conflict"));
    assert!(said.message().contains(&format!("is already assigned to node \"{node}\"")), "{}", said.message());
}

async fn the_status_of_a_pod_is_written_apart(g: Ground) {
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

async fn a_pod_may_get_tolerations_and_lose_none(g: Ground) {
    let pod = g.pod("a", None, json!({})).await;
    let mut tolerations = pod["spec"]["tolerations"].as_array().unwrap().clone();
    tolerations.push(json!({"key": "x", "operator": "Exists"}));
    let patched = g.patch(&g.path("pods/a"), STRATEGIC, json!({"spec": {"tolerations": tolerations}})).await.ok();
    assert_eq!(patched["spec"]["tolerations"].as_array().unwrap().len(), 3);
    let said = g.patch(&g.path("pods/a"), STRATEGIC, json!({"spec": {"tolerations": []}})).await;
    assert_eq!(said.refused(), (422, "Invalid"));
}
