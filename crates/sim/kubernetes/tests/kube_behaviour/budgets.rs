//! Eviction and disruption budgets.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::test_server::{MERGE, Reply, TestServer};

crate::both!(
    budget_counts_healthy_pods,
    eviction_beyond_the_budget_is_rejected_with_its_cause,
    percentage_budget_is_based_on_desired_replicas,
    eviction_checks_the_uid_precondition,
    ended_and_pending_pods_need_no_budget,
    eviction_with_two_budgets_is_an_error,
    unready_pod_is_evicted_when_enough_others_are_healthy,
    budget_protects_only_matching_pods,
    budget_with_both_limits_is_invalid,
);

async fn evict(g: &TestServer, pod: &str, options: Value) -> Reply {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": g.namespace},
        "deleteOptions": options,
    });
    g.post(&g.path(&format!("pods/{pod}/eviction")), eviction).await
}

async fn budget(g: &TestServer, name: &str, spec: Value) {
    let mut budget = json!({"metadata": {"name": name}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    g.post(&g.group_path("policy", "poddisruptionbudgets"), budget).await.ok();
}

async fn allows(g: &TestServer, name: &str, allowed: i64) -> Value {
    let path = g.group_path("policy", &format!("poddisruptionbudgets/{name}"));
    let reply = g
        .until(&path, |reply| {
            let status = &reply.body["status"];
            status["disruptionsAllowed"] == json!(allowed)
                && status["observedGeneration"] == reply.body["metadata"]["generation"]
        })
        .await;
    reply.body["status"].clone()
}

async fn budget_counts_healthy_pods(g: TestServer) {
    let node = g.node().await;
    for (name, ready) in [("a", true), ("b", true), ("c", false)] {
        g.pod(name, Some(&node), json!({})).await;
        g.set_running(name, ready).await;
    }
    budget(&g, "b", json!({"minAvailable": 1})).await;
    let status = allows(&g, "b", 1).await;
    assert_eq!(
        (&status["currentHealthy"], &status["desiredHealthy"], &status["expectedPods"]),
        (&json!(2), &json!(1), &json!(3))
    );
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("True"), &json!("SufficientPods"))
    );
    g.set_running("c", true).await;
    allows(&g, "b", 2).await;
}

async fn eviction_beyond_the_budget_is_rejected_with_its_cause(g: TestServer) {
    let node = g.node().await;
    for name in ["a", "b"] {
        g.pod(name, Some(&node), json!({})).await;
        g.set_running(name, true).await;
    }
    budget(&g, "pair", json!({"minAvailable": 1})).await;
    allows(&g, "pair", 1).await;
    let reply = evict(&g, "a", json!({"gracePeriodSeconds": 7})).await;
    assert_eq!((reply.code, &reply.body["status"]), (201, &json!("Success")), "{:#}", reply.body);
    let pod = g.get(&g.path("pods/a")).await.ok();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 7);
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "DisruptionTarget" && one["reason"] == "EvictionByEvictionAPI"));
    allows(&g, "pair", 0).await;
    let reply = evict(&g, "b", json!({})).await;
    assert_eq!(reply.error(), (429, "TooManyRequests"));
    assert_eq!(reply.message(), "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        reply.body["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget pair needs 1 healthy pods and has 1 currently"}])
    );
    // kube's client sees the same.
    let pods: Api<Pod> = Api::namespaced(g.client.clone(), &g.namespace);
    let error = pods.evict("b", &kube::api::EvictParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 429), "{error}");
    assert_eq!(g.get(&g.path("pods/b")).await.ok()["metadata"].get("deletionTimestamp"), None);
    // A second eviction of a terminating pod is not a disruption.
    assert_eq!(evict(&g, "a", json!({})).await.code, 201);
}

async fn percentage_budget_is_based_on_desired_replicas(g: TestServer) {
    let node = g.node().await;
    let set = json!({"metadata": {"name": "r"}, "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "nodeName": node, "containers": [{"name": "a", "image": "b"}]}}}});
    g.post(&g.group_path("apps", "replicasets"), set).await.ok();
    let made = g.until(&g.path("pods"), |reply| reply.body["items"].as_array().unwrap().len() == 5).await.body;
    for pod in made["items"].as_array().unwrap() {
        g.set_running(pod["metadata"]["name"].as_str().unwrap(), true).await;
    }
    budget(&g, "share", json!({"maxUnavailable": "50%"})).await;
    let status = allows(&g, "share", 3).await;
    assert_eq!((&status["expectedPods"], &status["desiredHealthy"]), (&json!(5), &json!(2)));
    let path = g.group_path("policy", "poddisruptionbudgets/share");
    g.patch(&path, MERGE, json!({"spec": {"maxUnavailable": 1}})).await.ok();
    allows(&g, "share", 1).await;
    // An evicted pod is recreated; the new one is not ready.
    let first = made["items"][0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(evict(&g, first, json!({"gracePeriodSeconds": 0})).await.code, 201);
    allows(&g, "share", 0).await;
    g.until(&g.path("pods"), |reply| {
        let pods = reply.body["items"].as_array().unwrap();
        pods.len() == 5 && !pods.iter().any(|pod| pod["metadata"]["name"] == first)
    })
    .await;
}

async fn eviction_checks_the_uid_precondition(g: TestServer) {
    let node = g.node().await;
    let pod = g.pod("a", Some(&node), json!({})).await;
    g.set_running("a", true).await;
    let reply = evict(&g, "a", json!({"preconditions": {"uid": "another"}})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert!(reply.message().contains("the UID in the precondition (another) does not match the UID in record"));
    let reply = evict(&g, "a", json!({"preconditions": {"uid": pod["metadata"]["uid"]}})).await;
    assert_eq!(reply.code, 201);
    assert_eq!(evict(&g, "none", json!({})).await.error(), (404, "NotFound"));
}

async fn ended_and_pending_pods_need_no_budget(g: TestServer) {
    let node = g.node().await;
    for name in ["ended", "waiting"] {
        g.pod(name, Some(&node), json!({})).await;
    }
    budget(&g, "all", json!({"minAvailable": 9})).await;
    allows(&g, "all", 0).await;
    g.patch(&g.path("pods/ended/status"), MERGE, json!({"status": {"phase": "Failed"}})).await.ok();
    assert_eq!(evict(&g, "ended", json!({})).await.code, 201);
    assert_eq!(g.get(&g.path("pods/ended")).await.code, 404);
    assert_eq!(evict(&g, "waiting", json!({})).await.code, 201);
}

async fn eviction_with_two_budgets_is_an_error(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.set_running("a", true).await;
    for name in ["one", "two"] {
        budget(&g, name, json!({"minAvailable": 0})).await;
        allows(&g, name, 1).await;
    }
    let reply = evict(&g, "a", json!({})).await;
    assert_eq!(reply.code, 500);
    assert_eq!(
        reply.message(),
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

async fn unready_pod_is_evicted_when_enough_others_are_healthy(g: TestServer) {
    let node = g.node().await;
    for (name, ready) in [("a", true), ("b", false)] {
        g.pod(name, Some(&node), json!({})).await;
        g.set_running(name, ready).await;
    }
    budget(&g, "one", json!({"minAvailable": 1})).await;
    allows(&g, "one", 0).await;
    assert_eq!(evict(&g, "a", json!({})).await.code, 429);
    assert_eq!(evict(&g, "b", json!({})).await.code, 201);
}

async fn budget_protects_only_matching_pods(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({"metadata": {"labels": {"app": "other"}}})).await;
    g.set_running("a", true).await;
    budget(&g, "web", json!({"minAvailable": 1})).await;
    allows(&g, "web", 0).await;
    assert_eq!(evict(&g, "a", json!({})).await.code, 201);
}

async fn budget_with_both_limits_is_invalid(g: TestServer) {
    let both = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}});
    let reply = g.post(&g.group_path("policy", "poddisruptionbudgets"), both).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(reply.message().contains("minAvailable and maxUnavailable cannot be both set"), "{}", reply.message());
}
