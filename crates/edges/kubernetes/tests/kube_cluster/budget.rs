//! A Deployment with a real budget: real controllers compute it, and the test acts as scheduler and kubelet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use control_plane::unique;
use k8s_openapi::api::core::v1::Pod;
use kiln_kubernetes::drain::{DrainOptions, Flags, Progress};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::real::{LONG, RealCluster};

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Binds each unbound pod to the node that `choose` returns, and makes bound pods ready.
async fn schedule(pods: &Api<Pod>, choose: impl Fn() -> String) {
    let Ok(list) = pods.list(&ListParams::default()).await else { return };
    for pod in list.items {
        let name = pod.metadata.name.clone().unwrap();
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some();
        if !bound && pod.metadata.deletion_timestamp.is_none() {
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": choose()}});
            let _: Result<serde_json::Value, _> =
                pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        } else if bound && !is_ready(&pod) {
            let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_budget_is_never_violated_while_pods_leave_one_by_one() {
    let real = RealCluster::connect(control_plane::shared()).await;
    let namespace = unique("budget");
    real.namespace(&namespace).await;
    let (from, to) = (real.node(&unique("from")).await, real.node(&unique("to")).await);
    let labels = json!({"app": "web"});
    real.create(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "example.invalid/c"}],
        }}},
    }))
    .await;
    real.create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": namespace, "name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}},
    }))
    .await;
    let pods = real.pods(&namespace);
    let ready =
        async || pods.list(&ListParams::default()).await.unwrap().items.iter().filter(|pod| is_ready(pod)).count();
    let filled = async {
        while ready().await < 3 {
            schedule(&pods, || from.to_string()).await;
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(LONG, filled).await.unwrap();

    let fewest = Arc::new(AtomicUsize::new(usize::MAX));
    let (lowest, watched, node) = (fewest.clone(), pods.clone(), to.to_string());
    let scheduler = tokio::spawn(async move {
        loop {
            if let Ok(list) = watched.list(&ListParams::default()).await {
                lowest.fetch_min(list.items.iter().filter(|pod| is_ready(pod)).count(), Ordering::SeqCst);
            }
            schedule(&watched, || node.clone()).await;
            sleep(Duration::from_millis(100)).await;
        }
    });
    let kubelet = real.play_kubelet(&namespace);
    let mut waited = 0;
    let options = DrainOptions::new(Flags::default(), LONG);
    let (owner, never) = ("run-1".parse().unwrap(), std::future::pending());
    let progress = &mut |progress| waited += usize::from(matches!(progress, Progress::Budget(..)));
    let drained = real.cluster.cordon_and_drain(&from, &owner, &options, never, progress).await.unwrap();
    drop(kubelet);
    scheduler.abort();
    assert_eq!(drained.evicted.len(), 3);
    assert!(waited > 0, "three evictions at once would violate the budget");
    assert!(
        fewest.load(Ordering::SeqCst) >= 2,
        "{} pods were ready at the worst moment",
        fewest.load(Ordering::SeqCst)
    );
}
