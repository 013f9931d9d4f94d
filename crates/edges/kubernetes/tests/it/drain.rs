//! The driver: what it does about budgets, a busy server, outages, time and cancellation.

use std::num::NonZeroUsize;
use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Drained, Flags, LeftBecause, Progress};
use kiln_kubernetes::{HOLD_ANNOTATION, HoldWhat, NodeName, Owner};
use serde_json::{Value, json};

use crate::common::pod;
use crate::fake::{Fake, Fault, budget_says_no};

fn node() -> NodeName {
    "node-1".parse().unwrap()
}

fn owner() -> Owner {
    "run-1".parse().unwrap()
}

fn options(seconds: u64) -> DrainOptions {
    DrainOptions::new(Flags::default(), Duration::from_secs(seconds))
}

/// A cluster with one node and so many replicated pods on it.
fn cluster_of(pods: usize) -> Fake {
    let fake = Fake::new();
    fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {}}));
    for number in 0..pods {
        fake.put("pods", pod("replicated", "shop", &format!("p{number}"), "node-1"));
    }
    fake
}

async fn drain(fake: &Fake, options: &DrainOptions) -> (Result<Drained, DrainError>, Vec<Progress>) {
    let mut news = Vec::new();
    let drained = fake.cluster().drain(&node(), options, &mut |progress| news.push(progress)).await;
    (drained, news)
}

fn count(news: &[Progress], wanted: impl Fn(&Progress) -> bool) -> usize {
    news.iter().filter(|progress| wanted(progress)).count()
}

#[tokio::test(start_paused = true)]
async fn evictions_go_out_in_parallel_and_no_more_than_allowed_at_once() {
    let fake = cluster_of(25);
    let bound = DrainOptions { parallel: NonZeroUsize::new(4).unwrap(), ..options(60) };
    let (drained, news) = drain(&fake, &bound).await;
    assert_eq!(drained.unwrap().gone.len(), 25);
    assert_eq!(fake.most_in_flight(), 4);
    assert_eq!(count(&news, |p| matches!(p, Progress::Asked(_))), 25);
    assert_eq!(count(&news, |p| matches!(p, Progress::Gone(_))), 25);
}

#[tokio::test(start_paused = true)]
async fn each_eviction_names_the_uid_and_the_asked_grace() {
    let fake = cluster_of(1);
    let (drained, _) = drain(&fake, &DrainOptions { grace: Some(7), ..options(60) }).await;
    drained.unwrap();
    let asked = &fake.asked("POST /api/v1/namespaces/shop/pods/p0/eviction")[0];
    assert_eq!(asked.body["apiVersion"], "policy/v1");
    assert_eq!(asked.body["deleteOptions"]["gracePeriodSeconds"], 7);
    assert_eq!(asked.body["deleteOptions"]["preconditions"]["uid"], "uid-2");
}

#[tokio::test(start_paused = true)]
async fn without_eviction_pods_are_deleted_by_uid() {
    let fake = cluster_of(2);
    let flags = Flags { disable_eviction: true, ..Flags::default() };
    let (drained, _) = drain(&fake, &DrainOptions { flags, grace: Some(3), ..options(60) }).await;
    assert_eq!(drained.unwrap().gone.len(), 2);
    assert!(fake.asked("/eviction").is_empty());
    let asked = &fake.asked("DELETE ")[0];
    assert_eq!(asked.body["gracePeriodSeconds"], 3);
    assert!(asked.body["preconditions"]["uid"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_allows_one_after_the_other_is_waited_for() {
    let fake = cluster_of(2);
    fake.fault("p1/eviction", [budget_says_no(), budget_says_no()]);
    let (drained, news) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().gone.len(), 2);
    assert_eq!(
        count(&news, |p| matches!(p, Progress::Budget(pod, words) if pod.name == "p1" && words.contains("needs 3"))),
        2
    );
    let asked = fake.asked("p1/eviction");
    assert!(asked[1].after(&asked[0]) >= Duration::from_secs(5), "a budget is not asked in a tight loop");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_not_taken_for_a_budget_and_its_wish_is_kept() {
    let fake = cluster_of(1);
    let busy = json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "too many", "details": {"retryAfterSeconds": 9}});
    fake.fault(
        "p0/eviction",
        [Fault::Answer(429, busy), Fault::Answer(429, json!("Too many requests, please try again later."))],
    );
    let (drained, news) = drain(&fake, &options(60)).await;
    drained.unwrap();
    assert_eq!(count(&news, |p| matches!(p, Progress::Throttled(_))), 2);
    assert_eq!(count(&news, |p| matches!(p, Progress::Budget(..))), 0);
    let asked = fake.asked("p0/eviction");
    assert!(asked[1].after(&asked[0]) >= Duration::from_secs(9));
    assert!(asked[2].after(&asked[1]) < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn two_budgets_are_said_at_once_and_the_other_pods_still_leave() {
    let fake = cluster_of(3);
    let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    fake.fault(
        "p1/eviction",
        [Fault::Answer(500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": words}))],
    );
    let (drained, _) = drain(&fake, &options(600)).await;
    let error = drained.unwrap_err();
    assert!(!error.retryable(), "no waiting helps");
    let text = error.to_string();
    assert!(text.contains("pod shop/p1: it cannot be evicted: 500 This pod has more than one"), "{text}");
    let DrainError::Left { pods, after, .. } = error else { panic!("{text}") };
    assert_eq!(pods.len(), 1);
    assert!(after < Duration::from_secs(30), "the deadline is not waited for");
    assert!(fake.get("pods/shop/p0").is_none() && fake.get("pods/shop/p2").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_made_anew_elsewhere_is_not_touched() {
    let fake = cluster_of(1);
    // Between the list and the eviction somebody replaces the pod by one of the same name on another node.
    fake.after(|objects, asked| {
        if asked.path.contains("spec.nodeName") {
            let pod = objects.get_mut("pods/shop/p0").unwrap();
            pod["metadata"]["uid"] = json!("another");
            pod["spec"]["nodeName"] = json!("node-2");
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().gone.len(), 1);
    assert!(fake.get("pods/shop/p0").unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_late_leaves_too() {
    let fake = cluster_of(1);
    let mut lists = 0;
    fake.after(move |objects, asked| {
        lists += usize::from(asked.path.contains("spec.nodeName"));
        // After the first list that shows nothing.
        if lists > 0 && !objects.contains_key("pods/shop/p0") && !objects.contains_key("seen") {
            let mut late = pod("replicated", "shop", "late", "node-1");
            late["metadata"]["uid"] = json!("late");
            objects.insert("pods/shop/late".to_owned(), late);
            objects.insert("seen".to_owned(), Value::Null);
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    let gone: Vec<_> = drained.unwrap().gone.into_iter().map(|pod| pod.name).collect();
    assert_eq!(gone, ["p0", "late"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_leave_fails_the_drain_and_is_named() {
    let fake = cluster_of(1);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let (drained, _) = drain(&fake, &options(20)).await;
    let error = drained.unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        "node `node-1` is not drained after 20 s: pod shop/stuck: it was told to end and its finalizers hold it: example.invalid/keep"
    );
    assert!(error.retryable());
}

#[tokio::test(start_paused = true)]
async fn a_blocked_drain_touches_nothing_and_names_every_pod() {
    let fake = cluster_of(1);
    fake.put("pods", pod("unmanaged", "shop", "lonely", "node-1"));
    fake.put("pods", pod("replicated, emptyDir", "shop", "data", "node-1"));
    let (drained, _) = drain(&fake, &options(20)).await;
    let text = drained.unwrap_err().to_string();
    assert!(text.starts_with("node `node-1` is not drained, nothing was evicted: "), "{text}");
    assert!(text.contains("pod shop/lonely: nothing would create it again (`--force` removes it)"), "{text}");
    assert!(text.contains("pod shop/data: it keeps data in an emptyDir"), "{text}");
    assert!(fake.asked("/eviction").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_late_and_may_not_be_touched_stops_the_drain_and_is_named() {
    let fake = cluster_of(1);
    fake.after(|objects, asked| {
        if asked.path.contains("/eviction") {
            let mut late = pod("unmanaged", "shop", "late", "node-1");
            late["metadata"]["uid"] = json!("late");
            objects.insert("pods/shop/late".to_owned(), late);
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    let text = drained.unwrap_err().to_string();
    assert!(
        text.starts_with("node `node-1` is not drained, a pod came meanwhile: pod shop/late: nothing would"),
        "{text}"
    );
    assert!(fake.asked("late/eviction").is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_after_the_deadline() {
    // One of these falls between the time from which the budget may be asked again and the list that would do so.
    for milliseconds in (5_000..5_100).step_by(5) {
        let fake = cluster_of(1);
        fake.fault("/eviction", std::iter::repeat_n(budget_says_no(), 1000));
        let within = Duration::from_millis(milliseconds);
        let (drained, _) = drain(&fake, &DrainOptions { within, ..options(0) }).await;
        assert!(matches!(drained, Err(DrainError::Left { .. })));
        assert!(fake.asked("/eviction").last().unwrap().at < within, "{within:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_the_server_accepted_and_forgot_is_asked_again() {
    let fake = cluster_of(1);
    fake.fault("/eviction", [Fault::Answer(201, json!({"kind": "Status", "status": "Success", "code": 201}))]);
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().gone.len(), 1);
    assert_eq!(fake.asked("/eviction").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_in_the_middle_is_outlasted_and_every_pod_leaves() {
    let fake = cluster_of(5);
    fake.fault("p1/eviction", [Fault::Reset, Fault::LoseAnswer]);
    fake.fault("p2/eviction", [Fault::Silence]);
    fake.fault(
        "p3/eviction",
        [Fault::Answer(503, json!("apiserver not ready")), Fault::Answer(500, json!("etcdserver: request timed out"))],
    );
    let list = "GET /api/v1/pods";
    // A starting server has not read its roles yet and refuses everybody.
    let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"});
    fake.fault(
        list,
        [Fault::Reset, Fault::Silence, Fault::Answer(503, json!("starting")), Fault::Answer(403, forbidden)],
    );
    let (drained, news) = drain(&fake, &options(300)).await;
    assert_eq!(drained.unwrap().gone.len(), 5);
    assert!(count(&news, |p| matches!(p, Progress::Away(_))) >= 4, "{news:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_not_waited_for() {
    for (request, words) in [
        ("/eviction", "evict pod `shop/p0`: 403 forbidden"),
        ("GET /api/v1/pods", "list the pods of node `node-1`: 403 forbidden"),
    ] {
        let fake = cluster_of(1);
        let forbidden =
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden"});
        fake.fault(request, std::iter::repeat_n(Fault::Answer(403, forbidden), 1000));
        let (drained, _) = drain(&fake, &options(600)).await;
        assert_eq!(drained.unwrap_err().to_string(), words);
        assert_eq!(fake.asked(request).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_fails_the_drain_at_its_deadline_with_the_pods_that_are_left() {
    let fake = cluster_of(1);
    fake.fault("/eviction", std::iter::repeat_n(Fault::Reset, 1000));
    let (drained, _) = drain(&fake, &options(60)).await;
    let DrainError::Left { pods, .. } = drained.unwrap_err() else { panic!() };
    assert!(matches!(&pods[0].because, LeftBecause::Away(words) if words.contains("no answer from the API server")));
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
async fn a_drained_node_stays_cordoned_until_it_is_released() {
    let fake = cluster_of(2);
    cordon_and_drain(&fake, &options(60), std::future::pending()).await.unwrap();
    assert!(cordoned(&fake));
    fake.cluster().release(&node(), &owner(), HoldWhat::ALL).await.unwrap();
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn a_failed_drain_leaves_the_cordon_as_it_was() {
    for before in [false, true] {
        let fake = cluster_of(0);
        fake.put("nodes", json!({"metadata": {"name": "node-1"}, "spec": {"unschedulable": before}}));
        fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
        let failed = cordon_and_drain(&fake, &options(20), std::future::pending()).await;
        assert!(matches!(failed, Err(DrainError::Left { .. })));
        assert_eq!(cordoned(&fake), before);
        assert!(fake.get("nodes/node-1").unwrap()["metadata"]["annotations"][HOLD_ANNOTATION].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_drain_leaves_the_cordon_as_it_was() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let cancelled = cordon_and_drain(&fake, &options(600), tokio::time::sleep(Duration::from_secs(5))).await;
    assert_eq!(cancelled.unwrap_err().to_string(), "the drain of node `node-1` was called off");
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn a_drain_called_off_does_not_release_what_the_run_held_before() {
    let fake = cluster_of(0);
    fake.cluster().hold(&node(), &owner(), HoldWhat::ALL).await.unwrap();
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    cordon_and_drain(&fake, &options(600), tokio::time::sleep(Duration::from_secs(5))).await.unwrap_err();
    assert!(cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_drain_leaves_a_record_by_which_the_node_is_given_back() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    let drain = options(600);
    let dropped =
        tokio::time::timeout(Duration::from_secs(5), cordon_and_drain(&fake, &drain, std::future::pending())).await;
    assert!(dropped.is_err() && cordoned(&fake));
    fake.cluster().release(&node(), &owner(), HoldWhat::CORDON).await.unwrap();
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_fails_while_the_server_is_away_gives_the_node_back_when_it_returns() {
    let fake = cluster_of(0);
    fake.put("pods", pod("finalizer", "shop", "stuck", "node-1"));
    fake.fault("PATCH /api/v1/nodes", [Fault::LoseAnswer, Fault::Reset]);
    fake.fault("GET /api/v1/pods?", []);
    let failed = cordon_and_drain(&fake, &options(10), std::future::pending()).await;
    assert!(matches!(failed, Err(DrainError::Left { .. })));
    fake.fault("PATCH /api/v1/nodes", std::iter::repeat_n(Fault::Reset, 5));
    let again = cordon_and_drain(&fake, &options(10), std::future::pending()).await;
    assert!(matches!(again, Err(DrainError::Left { .. })));
    assert!(!cordoned(&fake));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_namespace_that_is_being_deleted_are_waited_for() {
    let fake = cluster_of(1);
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}]}});
    fake.fault("/eviction", std::iter::repeat_n(Fault::Answer(403, refusal), 100));
    let mut lists = 0;
    // The namespace's end reaches the pod after a while, and takes it later.
    fake.after(move |objects, asked| {
        lists += usize::from(asked.path.contains("spec.nodeName"));
        if let Some(pod) = objects.get_mut("pods/shop/p0").filter(|_| lists > 3) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        if lists > 8 {
            objects.remove("pods/shop/p0");
        }
    });
    let (drained, _) = drain(&fake, &options(60)).await;
    assert_eq!(drained.unwrap().gone.len(), 1);
    assert!(fake.asked("/eviction").len() < 8, "it is not asked again once it is ending");
}
