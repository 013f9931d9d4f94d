//! Force: pods that a drain left are deleted without grace period.

use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags, PodId, Progress, RemainReason, RemainingPod};
use serde_json::json;

use crate::common::pod;
use crate::fake::{Fake, Fault, budget_exhausted};

fn node() -> kiln_kubernetes::NodeName {
    "node-1".parse().unwrap()
}

fn remaining(fake: &Fake, name: &str) -> RemainingPod {
    let object = fake.get(&format!("pods/shop/{name}")).unwrap();
    let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
    let pod = PodId { namespace: "shop".to_owned(), name: name.to_owned(), uid };
    RemainingPod { pod, reason: RemainReason::NotAttempted }
}

async fn force(fake: &Fake, pods: &[RemainingPod]) -> (Result<Vec<PodId>, DrainError>, Vec<Progress>) {
    let mut progress = Vec::new();
    let gone = fake.cluster().force_out(&node(), pods, Duration::from_secs(30), &mut |p| progress.push(p)).await;
    (gone, progress)
}

#[tokio::test(start_paused = true)]
async fn pod_with_an_exhausted_budget_is_deleted_without_grace_period() {
    let fake = Fake::new();
    fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {}}));
    fake.put("pods", pod("exhausted budget", "shop", "web", "node-1"));
    fake.fault("eviction", std::iter::repeat_n(budget_exhausted(), 100));
    let options = DrainOptions::new(Flags::default(), Duration::from_secs(20));
    let error = fake.cluster().drain(&node(), &options, &mut |_| {}).await.unwrap_err();
    let DrainError::Remaining { pods, .. } = error else { panic!("{error}") };
    let (gone, progress) = force(&fake, &pods).await;
    assert_eq!(gone.unwrap().len(), 1);
    assert!(matches!(progress[..], [Progress::Forced(_), Progress::Gone(_)]), "{progress:?}");
    let deleted = fake.requests("DELETE");
    assert_eq!(deleted[0].body["gracePeriodSeconds"], 0);
    assert!(deleted[0].body["preconditions"]["uid"].is_string());
}

#[tokio::test(start_paused = true)]
async fn daemon_set_pods_and_mirror_pods_are_never_deleted() {
    let fake = Fake::new();
    fake.put("daemonsets", json!({"metadata": {"namespace": "shop", "name": "agents"}}));
    for (class, name) in [("DaemonSet", "agent"), ("mirror", "proxy"), ("deleted DaemonSet", "orphan")] {
        fake.put("pods", pod(class, "shop", name, "node-1"));
    }
    let named = ["agent", "proxy", "orphan"].map(|name| remaining(&fake, name));
    let gone = force(&fake, &named).await.0.unwrap();
    assert_eq!(gone.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["orphan"]);
    assert!(fake.get("pods/shop/agent").is_some() && fake.get("pods/shop/proxy").is_some());
}

#[tokio::test(start_paused = true)]
async fn new_pod_of_the_same_name_is_not_deleted() {
    let fake = Fake::new();
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    let old = remaining(&fake, "web");
    fake.remove("pods/shop/web");
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    assert_eq!(force(&fake, &[old]).await.0.unwrap(), []);
    assert!(fake.requests("DELETE").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pod_with_a_finalizer_stays_and_is_named() {
    let fake = Fake::new();
    fake.put("pods", pod("finalizer", "shop", "web", "node-1"));
    let named = [remaining(&fake, "web")];
    let error = force(&fake, &named).await.0.unwrap_err();
    assert!(error.to_string().contains("example.invalid/keep"), "{error}");
    assert_eq!(fake.requests("DELETE").len(), 1, "it is deleted once");
}

#[tokio::test(start_paused = true)]
async fn short_outage_is_retried() {
    let fake = Fake::new();
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    let named = [remaining(&fake, "web")];
    fake.fault("DELETE", [Fault::Reset]);
    fake.fault("GET /api/v1/pods", [Fault::Reset]);
    assert_eq!(force(&fake, &named).await.0.unwrap().len(), 1);
}
