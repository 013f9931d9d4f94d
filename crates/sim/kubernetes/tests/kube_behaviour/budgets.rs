//! Eviction and disruption budgets.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::ground::{Ground, MERGE, Said};

crate::both!(
    a_budget_counts_healthy_pods,
    an_eviction_beyond_the_budget_is_refused_with_its_cause,
    a_budget_of_a_share_counts_what_the_owner_wants,
    an_eviction_names_the_pod_by_its_uid,
    an_ended_or_waiting_pod_needs_no_budget,
    two_budgets_for_one_pod_are_a_mistake,
    an_unready_pod_goes_when_the_others_suffice,
    a_budget_elsewhere_protects_nothing,
    a_budget_says_one_of_two_numbers,
);

async fn evict(g: &Ground, pod: &str, options: Value) -> Said {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": g.namespace},
        "deleteOptions": options,
    });
    g.post(&g.path(&format!("pods/{pod}/eviction")), eviction).await
}

async fn budget(g: &Ground, name: &str, spec: Value) {
    let mut budget = json!({"metadata": {"name": name}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    g.post(&g.group_path("policy", "poddisruptionbudgets"), budget).await.ok();
}

async fn allows(g: &Ground, name: &str, allowed: i64) -> Value {
    let path = g.group_path("policy", &format!("poddisruptionbudgets/{name}"));
    let said = g
        .until(&path, |said| {
            let status = &said.body["status"];
            status["disruptionsAllowed"] == json!(allowed)
                && status["observedGeneration"] == said.body["metadata"]["generation"]
        })
        .await;
    said.body["status"].clone()
}

async fn a_budget_counts_healthy_pods(g: Ground) {
    let node = g.node().await;
    for (name, ready) in [("a", true), ("b", true), ("c", false)] {
        g.pod(name, Some(&node), json!({})).await;
        g.runs(name, ready).await;
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
    g.runs("c", true).await;
    allows(&g, "b", 2).await;
}

async fn an_eviction_beyond_the_budget_is_refused_with_its_cause(g: Ground) {
    let node = g.node().await;
    for name in ["a", "b"] {
        g.pod(name, Some(&node), json!({})).await;
        g.runs(name, true).await;
    }
    budget(&g, "pair", json!({"minAvailable": 1})).await;
    allows(&g, "pair", 1).await;
    let said = evict(&g, "a", json!({"gracePeriodSeconds": 7})).await;
    assert_eq!((said.code, &said.body["status"]), (201, &json!("Success")), "{:#}", said.body);
    let pod = g.get(&g.path("pods/a")).await.ok();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 7);
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "DisruptionTarget" && one["reason"] == "EvictionByEvictionAPI"));
    allows(&g, "pair", 0).await;
    let said = evict(&g, "b", json!({})).await;
    assert_eq!(said.refused(), (429, "TooManyRequests"));
    assert_eq!(said.message(), "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        said.body["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget pair needs 1 healthy pods and has 1 currently"}])
    );
    // The client that we use sees the same.
    let pods: Api<Pod> = Api::namespaced(g.client.clone(), &g.namespace);
    let error = pods.evict("b", &kube::api::EvictParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 429), "{error}");
    assert_eq!(g.get(&g.path("pods/b")).await.ok()["metadata"].get("deletionTimestamp"), None);
    // A second eviction of what is on its way out is no disruption.
    assert_eq!(evict(&g, "a", json!({})).await.code, 201);
}

async fn a_budget_of_a_share_counts_what_the_owner_wants(g: Ground) {
    let node = g.node().await;
    let set = json!({"metadata": {"name": "r"}, "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "nodeName": node, "containers": [{"name": "a", "image": "b"}]}}}});
    g.post(&g.group_path("apps", "replicasets"), set).await.ok();
    let made = g.until(&g.path("pods"), |said| said.body["items"].as_array().unwrap().len() == 5).await.body;
    for pod in made["items"].as_array().unwrap() {
        g.runs(pod["metadata"]["name"].as_str().unwrap(), true).await;
    }
    budget(&g, "share", json!({"maxUnavailable": "50%"})).await;
    let status = allows(&g, "share", 3).await;
    assert_eq!((&status["expectedPods"], &status["desiredHealthy"]), (&json!(5), &json!(2)));
    let path = g.group_path("policy", "poddisruptionbudgets/share");
    g.patch(&path, MERGE, json!({"spec": {"maxUnavailable": 1}})).await.ok();
    allows(&g, "share", 1).await;
    // One that goes is made anew; the new one is not ready.
    let first = made["items"][0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(evict(&g, first, json!({"gracePeriodSeconds": 0})).await.code, 201);
    allows(&g, "share", 0).await;
    g.until(&g.path("pods"), |said| {
        let pods = said.body["items"].as_array().unwrap();
        pods.len() == 5 && !pods.iter().any(|pod| pod["metadata"]["name"] == first)
    })
    .await;
}

async fn an_eviction_names_the_pod_by_its_uid(g: Ground) {
    let node = g.node().await;
    let pod = g.pod("a", Some(&node), json!({})).await;
    g.runs("a", true).await;
    let said = evict(&g, "a", json!({"preconditions": {"uid": "another"}})).await;
    assert_eq!(said.refused(), (409, "Conflict"));
    assert!(said.message().contains("the UID in the precondition (another) does not match the UID in record"));
    let said = evict(&g, "a", json!({"preconditions": {"uid": pod["metadata"]["uid"]}})).await;
    assert_eq!(said.code, 201);
    assert_eq!(evict(&g, "none", json!({})).await.refused(), (404, "NotFound"));
}

async fn an_ended_or_waiting_pod_needs_no_budget(g: Ground) {
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

async fn two_budgets_for_one_pod_are_a_mistake(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.runs("a", true).await;
    for name in ["one", "two"] {
        budget(&g, name, json!({"minAvailable": 0})).await;
        allows(&g, name, 1).await;
    }
    let said = evict(&g, "a", json!({})).await;
    assert_eq!(said.code, 500);
    assert_eq!(
        said.message(),
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

async fn an_unready_pod_goes_when_the_others_suffice(g: Ground) {
    let node = g.node().await;
    for (name, ready) in [("a", true), ("b", false)] {
        g.pod(name, Some(&node), json!({})).await;
        g.runs(name, ready).await;
    }
    budget(&g, "one", json!({"minAvailable": 1})).await;
    allows(&g, "one", 0).await;
    assert_eq!(evict(&g, "a", json!({})).await.code, 429);
    assert_eq!(evict(&g, "b", json!({})).await.code, 201);
}

async fn a_budget_elsewhere_protects_nothing(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({"metadata": {"labels": {"app": "other"}}})).await;
    g.runs("a", true).await;
    budget(&g, "web", json!({"minAvailable": 1})).await;
    allows(&g, "web", 0).await;
    assert_eq!(evict(&g, "a", json!({})).await.code, 201);
}

async fn a_budget_says_one_of_two_numbers(g: Ground) {
    let both = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}});
    let said = g.post(&g.group_path("policy", "poddisruptionbudgets"), both).await;
    assert_eq!(said.refused(), (422, "Invalid"));
    assert!(said.message().contains("minAvailable and maxUnavailable cannot be both set"), "{}", said.message());
}
