//! A real pod with a PodDisruptionBudget that does not allow its eviction.

use serde_json::json;

use super::fleet::Fleet;

/// The name of the Deployment.
const WEB: &str = "web";

/// The name of the budget.
pub(crate) const BUDGET: &str = "keep-web";

/// Starts a pod on a node by the scheduler, and waits until its budget counts it.
#[track_caller]
pub(crate) fn start_blocking_pod(fleet: &mut Fleet, node: &str) {
    let labels = json!({"app": WEB});
    let pod = json!({
        "nodeSelector": {"kubernetes.io/hostname": node}, "hostNetwork": true, "automountServiceAccountToken": false,
        // Not 0: the API server would delete the pod before the kubelet has ended its processes, and a reboot would wait for them.
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "wait", "image": "docker.io/library/pause:test", "imagePullPolicy": "Never"}],
    });
    let spec = json!({
        "replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod},
    });
    let metadata = json!({"name": WEB, "namespace": "default"});
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": labels}});
    for object in [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET, "namespace": "default"}, "spec": budget,
        }),
    ] {
        fleet.plane.apply(&object).unwrap_or_else(|error| panic!("{error}"));
    }
    fleet.wait("the budget counts the pod", |fleet| {
        let status = fleet.plane.get(&["poddisruptionbudget", BUDGET]).ok()?["status"].clone();
        (status["currentHealthy"] == 1 && status["disruptionsAllowed"] == 0).then_some(())
    });
}

/// Deletes the budget, so that the pod may be evicted.
#[track_caller]
pub(crate) fn delete_budget(fleet: &Fleet) {
    fleet.plane.run_kubectl(&["delete", "poddisruptionbudget", BUDGET]).expect("deleted");
}

/// Deletes what is left.
#[track_caller]
pub(crate) fn delete_pod(fleet: &Fleet) {
    fleet.plane.run_kubectl(&["delete", "deployment,poddisruptionbudget", "--all", "--wait=false"]).expect("deleted");
}
