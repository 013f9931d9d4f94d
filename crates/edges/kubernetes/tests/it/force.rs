//! The last resort: pods that a drain left are deleted without grace.

use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags, Left, LeftBecause, PodId, Progress};
use serde_json::json;

use crate::common::pod;
use crate::fake::{Fake, Fault, budget_says_no};

fn node() -> kiln_kubernetes::NodeName {
    "node-1".parse().unwrap()
}

fn left(fake: &Fake, name: &str) -> Left {
    let object = fake.get(&format!("pods/shop/{name}")).unwrap();
    let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
    let pod = PodId { namespace: "shop".to_owned(), name: name.to_owned(), uid };
    Left { pod, because: LeftBecause::NotAsked }
}

async fn force(fake: &Fake, left: &[Left]) -> (Result<Vec<PodId>, DrainError>, Vec<Progress>) {
    let mut news = Vec::new();
    let gone = fake.cluster().force_out(&node(), left, Duration::from_secs(30), &mut |p| news.push(p)).await;
    (gone, news)
}

#[tokio::test(start_paused = true)]
async fn what_a_budget_kept_is_deleted_past_it_and_without_grace() {
    let fake = Fake::new();
    fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {}}));
    fake.put("pods", pod("budget that allows none", "shop", "web", "node-1"));
    fake.fault("eviction", std::iter::repeat_n(budget_says_no(), 100));
    let options = DrainOptions::new(Flags::default(), Duration::from_secs(20));
    let error = fake.cluster().drain(&node(), &options, &mut |_| {}).await.unwrap_err();
    let DrainError::Left { pods, .. } = error else { panic!("{error}") };
    let (gone, news) = force(&fake, &pods).await;
    assert_eq!(gone.unwrap().len(), 1);
    assert!(matches!(news[..], [Progress::Forced(_), Progress::Gone(_)]), "{news:?}");
    let deleted = fake.asked("DELETE");
    assert_eq!(deleted[0].body["gracePeriodSeconds"], 0);
    assert!(deleted[0].body["preconditions"]["uid"].is_string());
}

#[tokio::test(start_paused = true)]
async fn pods_of_daemon_sets_and_mirrors_are_not_touched_whoever_names_them() {
    let fake = Fake::new();
    fake.put("daemonsets", json!({"metadata": {"namespace": "shop", "name": "agents"}}));
    for (class, name) in [("DaemonSet", "agent"), ("mirror", "proxy"), ("DaemonSet that is gone", "orphan")] {
        fake.put("pods", pod(class, "shop", name, "node-1"));
    }
    let named = ["agent", "proxy", "orphan"].map(|name| left(&fake, name));
    let gone = force(&fake, &named).await.0.unwrap();
    assert_eq!(gone.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["orphan"]);
    assert!(fake.get("pods/shop/agent").is_some() && fake.get("pods/shop/proxy").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_since_under_the_same_name_is_not_touched() {
    let fake = Fake::new();
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    let old = left(&fake, "web");
    fake.remove("pods/shop/web");
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    assert_eq!(force(&fake, &[old]).await.0.unwrap(), []);
    assert!(fake.asked("DELETE").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_finalizer_holds_stays_and_is_named_with_it() {
    let fake = Fake::new();
    fake.put("pods", pod("finalizer", "shop", "web", "node-1"));
    let named = [left(&fake, "web")];
    let error = force(&fake, &named).await.0.unwrap_err();
    assert!(error.to_string().contains("example.invalid/keep"), "{error}");
    assert_eq!(fake.asked("DELETE").len(), 1, "it is told once");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_moment_is_asked_again() {
    let fake = Fake::new();
    fake.put("pods", pod("replicated", "shop", "web", "node-1"));
    let named = [left(&fake, "web")];
    fake.fault("DELETE", [Fault::Reset]);
    fake.fault("GET /api/v1/pods", [Fault::Reset]);
    assert_eq!(force(&fake, &named).await.0.unwrap().len(), 1);
}
