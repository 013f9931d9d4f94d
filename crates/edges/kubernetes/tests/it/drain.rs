//! The drain driver: budgets, throttling, outages, deadlines and cancellation.

use std::num::NonZeroUsize;
use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Drained, Flags, Progress, RemainReason};
use kiln_kubernetes::{HOLD_ANNOTATION, HoldScope, NodeName, Owner};
use serde_json::{Value, json};

use crate::common::pod;
use crate::fake::{Fake, Fault, budget_exhausted};

fn node() -> NodeName {
    "node-1".parse().unwrap()
}

fn owner() -> Owner {
    "run-1".parse().unwrap()
}

fn options(seconds: u64) -> DrainOptions {
    DrainOptions::new(Flags::default(), Duration::from_secs(seconds))
}

/// A cluster with one node and this many replicated pods on it.
fn cluster_of(pods: usize) -> Fake {
    let fake = Fake::new();
    fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {}}));
    for number in 0..pods {
        fake.put("pods", pod("replicated", "shop", &format!("p{number}"), "node-1"));
    }
    fake
}

async fn drain(fake: &Fake, options: &DrainOptions) -> (Result<Drained, DrainError>, Vec<Progress>) {
    let mut progress = Vec::new();
    let drained = fake.cluster().drain(&node(), options, &mut |event| progress.push(event)).await;
    (drained, progress)
}

fn count(progress: &[Progress], wanted: impl Fn(&Progress) -> bool) -> usize {
    progress.iter().filter(|event| wanted(event)).count()
}

#[tokio::test(start_paused = true)]
async fn evictions_run_in_parallel_up_to_the_limit() {
    let fake = cluster_of(25);
    let bound = DrainOptions { parallel: NonZeroUsize::new(4).unwrap(), ..options(60) };
    let (drained, progress) = drain(&fake, &bound).await;
    assert_eq!(drained.unwrap().evicted.len(), 25);
    assert_eq!(fake.most_in_flight(), 4);
    assert_eq!(count(&progress, |p| matches!(p, Progress::Terminating(_))), 25);
    assert_eq!(count(&progress, |p| matches!(p, Progress::Gone(_))), 25);
}

#[tokio::test(start_paused = true)]
async fn evictions_carry_the_uid_and_the_requested_grace_period() {
    let fake = cluster_of(1);
    let (drained, _) = drain(&fake, &DrainOptions { grace: Some(7), ..options(60) }).await;
    drained.unwrap();
    let request = &fake.requests("POST /api/v1/namespaces/shop/pods/p0/eviction")[0];
    assert_eq!(request.body["apiVersion"], "policy/v1");
    assert_eq!(request.body["deleteOptions"]["gracePeriodSeconds"], 7);
    assert_eq!(request.body["deleteOptions"]["preconditions"]["uid"], "uid-2");
}

#[tokio::test(start_paused = true)]
async fn grace_period_is_each_pods_own_unless_it_is_given() {
    for (grace, sent) in [(None, json!(null)), (Some(0), json!(0)), (Some(7), json!(7))] {
        let fake = cluster_of(1);
        drain(&fake, &DrainOptions::with_grace(Flags::default(), grace)).await.0.unwrap();
        let request = &fake.requests("POST /api/v1/namespaces/shop/pods/p0/eviction")[0];
        assert_eq!(request.body["deleteOptions"]["gracePeriodSeconds"], sent);
    }
}

#[tokio::test(start_paused = true)]
async fn drain_waits_three_times_the_longest_grace_period_of_the_pods() {
    let limit = async |grace: Option<u32>, own: u64| {
        let fake = cluster_of(1);
        let mut pod = fake.get("pods/shop/p0").unwrap();
        pod["spec"]["terminationGracePeriodSeconds"] = json!(own);
        pod["metadata"]["finalizers"] = json!(["example.invalid/keep"]);
        fake.put("pods", pod);
        match drain(&fake, &DrainOptions::with_grace(Flags::default(), grace)).await.0 {
            Err(DrainError::Remaining { after, .. }) => after.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(limit(None, 3600).await, 3 * 3600);
    assert_eq!(limit(None, 30).await, 15 * 60);
    assert_eq!(limit(Some(300), 3600).await, 900);
    assert_eq!(limit(Some(0), 3600).await, 60);
}

#[tokio::test(start_paused = true)]
async fn with_eviction_disabled_pods_are_deleted_by_uid() {
    let fake = cluster_of(2);
    let flags = Flags { disable_eviction: true, ..Flags::default() };
    let (drained, _) = drain(&fake, &DrainOptions { flags, grace: Some(3), ..options(60) }).await;
    assert_eq!(drained.unwrap().evicted.len(), 2);
    assert!(fake.requests("/eviction").is_empty());
    let request = &fake.requests("DELETE ")[0];
    assert_eq!(request.body["gracePeriodSeconds"], 3);
    assert!(request.body["preconditions"]["uid"].is_string());
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_is_retried_until_it_allows_the_eviction() {
    let fake = cluster_of(2);
    fake.fault("p1/eviction", [budget_exhausted(), budget_exhausted()]);
    let (drained, progress) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().evicted.len(), 2);
    assert_eq!(
        count(
            &progress,
            |p| matches!(p, Progress::Budget(pod, words) if pod.name == "p1" && words.contains("needs 3"))
        ),
        2
    );
    let request = fake.requests("p1/eviction");
    assert!(request[1].after(&request[0]) >= Duration::from_secs(5), "evictions are not retried in a tight loop");
}

#[tokio::test(start_paused = true)]
async fn throttling_is_not_mistaken_for_a_budget_and_retry_after_is_honoured() {
    let fake = cluster_of(1);
    let busy = json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "too many", "details": {"retryAfterSeconds": 9}});
    fake.fault(
        "p0/eviction",
        [Fault::Respond(429, busy), Fault::Respond(429, json!("Too many requests, please try again later."))],
    );
    let (drained, progress) = drain(&fake, &options(60)).await;
    drained.unwrap();
    assert_eq!(count(&progress, |p| matches!(p, Progress::Throttled(_))), 2);
    assert_eq!(count(&progress, |p| matches!(p, Progress::Budget(..))), 0);
    let request = fake.requests("p0/eviction");
    assert!(request[1].after(&request[0]) >= Duration::from_secs(9));
    assert!(request[2].after(&request[1]) < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn multiple_budgets_fail_at_once_and_the_other_pods_still_leave() {
    let fake = cluster_of(3);
    let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    fake.fault(
        "p1/eviction",
        [Fault::Respond(500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": words}))],
    );
    let (drained, _) = drain(&fake, &options(600)).await;
    let error = drained.unwrap_err();
    assert!(!error.is_retryable(), "a retry does not help");
    let text = error.to_string();
    assert!(text.contains("pod shop/p1: it cannot be evicted: 500 This pod has more than one"), "{text}");
    let DrainError::Remaining { pods, after, .. } = error else { panic!("{text}") };
    assert_eq!(pods.len(), 1);
    assert!(after < Duration::from_secs(30), "the drain fails before its deadline");
    assert!(fake.get("pods/shop/p0").is_none() && fake.get("pods/shop/p2").is_none());
}

#[tokio::test(start_paused = true)]
async fn recreated_pod_of_the_same_name_is_not_touched() {
    let fake = cluster_of(1);
    // Between the list and the eviction the pod is replaced by one of the same name on another node.
    fake.after(|objects, request| {
        if request.path.contains("spec.nodeName") {
            let pod = objects.get_mut("pods/shop/p0").unwrap();
            pod["metadata"]["uid"] = json!("another");
            pod["spec"]["nodeName"] = json!("node-2");
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().evicted.len(), 1);
    assert!(fake.get("pods/shop/p0").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn late_bound_pod_leaves_too() {
    let fake = cluster_of(1);
    let mut lists = 0;
    fake.after(move |objects, request| {
        lists += usize::from(request.path.contains("spec.nodeName"));
        // After the first empty list.
        if lists > 0 && !objects.contains_key("pods/shop/p0") && !objects.contains_key("seen") {
            let mut late = pod("replicated", "shop", "late", "node-1");
            late["metadata"]["uid"] = json!("late");
            objects.insert("pods/shop/late".to_owned(), late);
            objects.insert("seen".to_owned(), Value::Null);
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    let gone: Vec<_> = drained.unwrap().evicted.into_iter().map(|pod| pod.name).collect();
    assert_eq!(gone, ["p0", "late"]);
}

#[tokio::test(start_paused = true)]
async fn pod_that_does_not_leave_fails_the_drain_and_is_named() {
    let fake = cluster_of(1);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let (drained, _) = drain(&fake, &options(20)).await;
    let error = drained.unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        "node `node-1` is not drained after 20 s: pod shop/stuck: it is terminating and waits for its finalizers: example.invalid/keep"
    );
    assert!(error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn blocked_drain_changes_nothing_and_names_every_pod() {
    let fake = cluster_of(1);
    fake.put("pods", pod("unmanaged", "shop", "lonely", "node-1"));
    fake.put("pods", pod("replicated, emptyDir", "shop", "data", "node-1"));
    let (drained, _) = drain(&fake, &options(20)).await;
    let text = drained.unwrap_err().to_string();
    assert!(text.starts_with("node `node-1` is not drained, nothing was evicted: "), "{text}");
    assert!(text.contains("pod shop/lonely: no controller would recreate it (`--force` evicts it)"), "{text}");
    assert!(text.contains("pod shop/data: it has data in an emptyDir"), "{text}");
    assert!(fake.requests("/eviction").is_empty());
}

#[tokio::test(start_paused = true)]
async fn late_blocking_pod_stops_the_drain_and_is_named() {
    let fake = cluster_of(1);
    fake.after(|objects, request| {
        if request.path.contains("/eviction") {
            let mut late = pod("unmanaged", "shop", "late", "node-1");
            late["metadata"]["uid"] = json!("late");
            objects.insert("pods/shop/late".to_owned(), late);
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    let text = drained.unwrap_err().to_string();
    assert!(
        text.starts_with(
            "node `node-1` is not drained, a blocking pod appeared while draining: pod shop/late: no controller"
        ),
        "{text}"
    );
    assert!(fake.requests("late/eviction").is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_eviction_is_sent_after_the_deadline() {
    // One of these deadlines falls between the time of the next attempt and the list that would make it.
    for milliseconds in (5_000..5_100).step_by(5) {
        let fake = cluster_of(1);
        fake.fault("/eviction", std::iter::repeat_n(budget_exhausted(), 1000));
        let within = Duration::from_millis(milliseconds);
        let (drained, _) = drain(&fake, &DrainOptions { within, ..options(0) }).await;
        assert!(matches!(drained, Err(DrainError::Remaining { .. })));
        assert!(fake.requests("/eviction").last().unwrap().at < within, "{within:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn eviction_that_the_server_lost_is_retried() {
    let fake = cluster_of(1);
    fake.fault("/eviction", [Fault::Respond(201, json!({"kind": "Status", "status": "Success", "code": 201}))]);
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().evicted.len(), 1);
    assert_eq!(fake.requests("/eviction").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn drain_survives_an_outage_and_every_pod_leaves() {
    let fake = cluster_of(5);
    fake.fault("p1/eviction", [Fault::Reset, Fault::LoseResponse]);
    fake.fault("p2/eviction", [Fault::Hang]);
    fake.fault(
        "p3/eviction",
        [
            Fault::Respond(503, json!("apiserver not ready")),
            Fault::Respond(500, json!("etcdserver: request timed out")),
        ],
    );
    let list = "GET /api/v1/pods";
    // A starting server has not loaded its roles yet and rejects every request.
    let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"});
    fake.fault(
        list,
        [Fault::Reset, Fault::Hang, Fault::Respond(503, json!("starting")), Fault::Respond(403, forbidden)],
    );
    let (drained, progress) = drain(&fake, &options(300)).await;
    assert_eq!(drained.unwrap().evicted.len(), 5);
    assert!(count(&progress, |p| matches!(p, Progress::Unavailable(_))) >= 4, "{progress:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_permission_fails_the_drain_at_once() {
    for (request, words) in [
        ("/eviction", "evict pod `shop/p0`: 403 forbidden"),
        ("GET /api/v1/pods", "list the pods of node `node-1`: 403 forbidden"),
    ] {
        let fake = cluster_of(1);
        let forbidden =
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden"});
        fake.fault(request, std::iter::repeat_n(Fault::Respond(403, forbidden), 1000));
        let (drained, _) = drain(&fake, &options(600)).await;
        assert_eq!(drained.unwrap_err().to_string(), words);
        assert_eq!(fake.requests(request).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_server_fails_the_drain_at_its_deadline_with_the_remaining_pods() {
    let fake = cluster_of(1);
    fake.fault("/eviction", std::iter::repeat_n(Fault::Reset, 1000));
    let (drained, _) = drain(&fake, &options(60)).await;
    let DrainError::Remaining { pods, .. } = drained.unwrap_err() else { panic!() };
    assert!(
        matches!(&pods[0].reason, RemainReason::Unavailable(words) if words.contains("no response from the API server"))
    );
}

async fn cordon_and_drain(
    fake: &Fake,
    options: &DrainOptions,
    cancel: impl Future<Output = ()>,
) -> Result<Drained, DrainError> {
    fake.cluster().cordon_and_drain(&node(), &owner(), options, cancel, &mut |_| {}).await
}

fn cordoned(fake: &Fake) -> bool {
    fake.get("nodes/node-1").unwrap()["spec"]["unschedulable"] == true
}

#[tokio::test(start_paused = true)]
async fn drained_node_stays_cordoned_until_it_is_released() {
    let fake = cluster_of(2);
    cordon_and_drain(&fake, &options(60), std::future::pending()).await.unwrap();
    assert!(cordoned(&fake));
    fake.cluster().release(&node(), &owner(), HoldScope::ALL).await.unwrap();
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn failed_drain_restores_the_cordon() {
    for before in [false, true] {
        let fake = cluster_of(0);
        fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {"unschedulable": before}}));
        fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
        let failed = cordon_and_drain(&fake, &options(20), std::future::pending()).await;
        assert!(matches!(failed, Err(DrainError::Remaining { .. })));
        assert_eq!(cordoned(&fake), before);
        assert!(fake.get("nodes/node-1").unwrap()["metadata"]["annotations"][HOLD_ANNOTATION].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_drain_restores_the_cordon() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let cancelled = cordon_and_drain(&fake, &options(600), tokio::time::sleep(Duration::from_secs(5))).await;
    assert_eq!(cancelled.unwrap_err().to_string(), "the drain of node `node-1` was cancelled");
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn cancelled_drain_does_not_release_an_earlier_hold() {
    let fake = cluster_of(0);
    fake.cluster().hold(&node(), &owner(), HoldScope::ALL).await.unwrap();
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    cordon_and_drain(&fake, &options(600), tokio::time::sleep(Duration::from_secs(5))).await.unwrap_err();
    assert!(cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn dropped_drain_leaves_a_hold_that_can_be_released() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let drain = options(600);
    let dropped =
        tokio::time::timeout(Duration::from_secs(5), cordon_and_drain(&fake, &drain, std::future::pending())).await;
    assert!(dropped.is_err() && cordoned(&fake));
    fake.cluster().release(&node(), &owner(), HoldScope::CORDON).await.unwrap();
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn drain_that_fails_during_an_outage_releases_the_node_afterwards() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    fake.fault("PATCH /api/v1/nodes", [Fault::LoseResponse, Fault::Reset]);
    fake.fault("GET /api/v1/pods?", []);
    let failed = cordon_and_drain(&fake, &options(10), std::future::pending()).await;
    assert!(matches!(failed, Err(DrainError::Remaining { .. })));
    fake.fault("PATCH /api/v1/nodes", std::iter::repeat_n(Fault::Reset, 5));
    let again = cordon_and_drain(&fake, &options(10), std::future::pending()).await;
    assert!(matches!(again, Err(DrainError::Remaining { .. })));
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_terminating_namespace_are_waited_for() {
    let fake = cluster_of(1);
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}]}});
    fake.fault("/eviction", std::iter::repeat_n(Fault::Respond(403, refusal), 100));
    let mut lists = 0;
    // The namespace controller deletes the pod after a while; it is gone later.
    fake.after(move |objects, request| {
        lists += usize::from(request.path.contains("spec.nodeName"));
        if let Some(pod) = objects.get_mut("pods/shop/p0").filter(|_| lists > 3) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        if lists > 8 {
            objects.remove("pods/shop/p0");
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().evicted.len(), 1);
    assert!(fake.requests("/eviction").len() < 8, "no eviction is sent once the pod is terminating");
}
