//! Waiting for a change of a pool's nodes, against the embedded API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, WallClock};
use kiln_sim_kubernetes::Server;
use kiln_types::PoolName;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

fn id(pool: &str, instance: u32) -> String {
    let group = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute";
    format!("{group}/virtualMachineScaleSets/{pool}/virtualMachines/{instance}")
}

fn cluster() -> (Cluster, Api<Node>) {
    let server = Server::new(1, Arc::new(|| "2026-11-15T12:00:00Z".parse().unwrap()));
    let client = Client::new(server.service(), "default");
    let clock = WallClock::new(|| "2026-11-15T12:00:00Z".parse().unwrap());
    (Cluster::new(client.clone(), ClusterOptions { jitter: Jitter::none(), clock }), Api::all(client))
}

async fn create(api: &Api<Node>, name: &str, pool: &str, instance: u32) {
    let node = json!({"metadata": {"name": name}, "spec": {"providerID": id(pool, instance)}});
    api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}

async fn patch(api: &Api<Node>, name: &str, change: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

/// How long the wait takes if `act` happens after ten seconds.
async fn waits<F: Future<Output = ()> + Send + 'static>(act: impl FnOnce(Api<Node>) -> F) -> Duration {
    let (cluster, api) = cluster();
    let pool: PoolName = "pool".parse().unwrap();
    create(&api, "node-1", "pool", 1).await;
    create(&api, "other-1", "other", 1).await;
    let seen = cluster.nodes_of(&pool).await.unwrap();
    let acting = act(api);
    let other = tokio::spawn(async move {
        sleep(Duration::from_secs(10)).await;
        acting.await;
    });
    let began = Instant::now();
    cluster.wait_for_node_change(&pool, &seen, Duration::from_secs(30)).await.unwrap();
    other.await.unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn wait_ends_when_a_node_of_the_pool_changes() {
    let at_once = Duration::from_secs(10)..Duration::from_secs(12);
    let cordoned = waits(async |api| patch(&api, "node-1", json!({"spec": {"unschedulable": true}})).await).await;
    assert!(at_once.contains(&cordoned), "{cordoned:?}");
    let joined = waits(async |api| create(&api, "node-2", "POOL", 2).await).await;
    assert!(at_once.contains(&joined), "{joined:?}");
    let left = waits(async |api| drop(api.delete("node-1", &DeleteParams::default()).await.unwrap())).await;
    assert!(at_once.contains(&left), "{left:?}");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let ready = waits(async move |api| {
        api.patch_status("node-1", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    });
    let ready = ready.await;
    assert!(at_once.contains(&ready), "{ready:?}");
}

#[tokio::test(start_paused = true)]
async fn wait_ignores_other_pools_and_other_changes() {
    let annotated = waits(async |api| patch(&api, "node-1", json!({"metadata": {"annotations": {"a": "b"}}})).await);
    assert_eq!(annotated.await, Duration::from_secs(30));
    let elsewhere = waits(async |api| patch(&api, "other-1", json!({"spec": {"unschedulable": true}})).await);
    assert_eq!(elsewhere.await, Duration::from_secs(30));
}
