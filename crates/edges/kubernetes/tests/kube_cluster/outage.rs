//! Killed servers and broken connections during a drain and a watch.

use std::sync::Arc;
use std::time::Duration;

use control_plane::{Component, ControlPlane, Options};
use kiln_kubernetes::drain::{DrainError, DrainOptions, Drained, Flags, Progress};
use kiln_kubernetes::{Cluster, HOLD_ANNOTATION, HoldScope, NodeName, Owner, ReadyWhen};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::common::pod;
use crate::proxy::{Connections, Proxy};
use crate::real::{LONG, PodState, RealCluster, bare_plane, cluster, config};

const PODS: usize = 8;
const PARALLEL: std::num::NonZeroUsize = std::num::NonZeroUsize::new(2).unwrap();

fn owner() -> Owner {
    "run-1".parse().unwrap()
}

/// A drain in progress of a node with several pods; another node has one pod.
struct DrainInProgress {
    node: NodeName,
    namespace: String,
    drain: JoinHandle<(Drained, bool)>,
}

async fn start_drain(real: &RealCluster, through: Cluster, name: &str) -> DrainInProgress {
    real.namespace(name).await;
    let node = real.node(name).await;
    real.node(&format!("{name}-other")).await;
    for number in 0..PODS {
        real.pod(pod("replicated", name, &format!("p{number}"), name), "Running").await;
    }
    real.pod(pod("replicated", name, "elsewhere", &format!("{name}-other")), "Running").await;
    let started = Arc::new(Notify::new());
    let (notify, drained) = (started.clone(), node.clone());
    let drain = tokio::spawn(async move {
        let options = DrainOptions { parallel: PARALLEL, ..DrainOptions::new(Flags::default(), LONG) };
        let mut outage_seen = false;
        let mut progress = |progress: Progress| {
            outage_seen |= matches!(progress, Progress::Unavailable(_));
            if matches!(progress, Progress::Terminating(_)) {
                notify.notify_one();
            }
        };
        let (owner, never) = (owner(), std::future::pending());
        let drained = through.cordon_and_drain(&drained, &owner, &options, never, &mut progress).await.unwrap();
        (drained, outage_seen)
    });
    timeout(LONG, started.notified()).await.unwrap();
    // There is no kubelet yet: pods are terminating, none is gone.
    DrainInProgress { node, namespace: name.to_owned(), drain }
}

impl DrainInProgress {
    /// Lets the pods end, and checks the result.
    async fn finish(self, real: &RealCluster) {
        let kubelet = real.play_kubelet(&self.namespace);
        let (drained, outage_seen) = timeout(LONG, self.drain).await.unwrap().unwrap();
        drop(kubelet);
        assert!(outage_seen, "the drain saw the outage");
        let mut gone: Vec<_> = drained.evicted.iter().map(|pod| pod.name.clone()).collect();
        gone.sort();
        assert_eq!(gone, (0..PODS).map(|number| format!("p{number}")).collect::<Vec<_>>());
        assert_eq!(real.pod_state(&self.namespace, "elsewhere").await, PodState::Untouched);
        assert!(real.is_cordoned(&self.node).await);
        real.cluster.release(&self.node, &owner(), HoldScope::ALL).await.unwrap();
        let node = real.cluster.node(&self.node).await.unwrap();
        assert!(!node.cordoned && !node.annotations.contains_key(HOLD_ANNOTATION));
    }
}

async fn own_plane() -> Arc<ControlPlane> {
    Arc::new(spawn_blocking(|| ControlPlane::start(&Options::bare()).unwrap()).await.unwrap())
}

/// Kills the API server and etcd, and restarts them a few seconds later.
async fn power_cut(plane: &Arc<ControlPlane>) {
    let cut = plane.clone();
    let kill = move || {
        for server in [Component::ApiServer, Component::Etcd] {
            cut.kill(server).unwrap();
        }
    };
    spawn_blocking(kill).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let back = plane.clone();
    let start = move || {
        for server in [Component::Etcd, Component::ApiServer] {
            back.restart(server).unwrap();
        }
        back.wait_until_ready().unwrap();
    };
    spawn_blocking(start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_and_watch_survive_a_crash_of_api_server_and_etcd() {
    let plane = own_plane().await;
    let real = RealCluster::connect(&plane).await;
    let waiting = real.node("waiting").await;
    let watched = real.cluster.clone();
    let ready = tokio::spawn(async move { watched.wait_ready(&waiting, &ReadyWhen::Now, LONG).await });
    let drain = start_drain(&real, real.cluster.clone(), "killed").await;
    power_cut(&plane).await;
    drain.finish(&real).await;
    assert!(!ready.is_finished(), "the node is not ready yet");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    real.nodes().patch_status("waiting", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    timeout(LONG, ready).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_survives_reset_and_stalled_connections() {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    for (connections, name) in [(Connections::Closed, "cut"), (Connections::Stalled, "dead")] {
        let name = control_plane::unique(name);
        let proxy = Proxy::to(plane.address()).await;
        let mut through = config(plane.kubeconfig()).await;
        through.cluster_url = format!("https://{}", proxy.address).parse().unwrap();
        let drain = start_drain(&real, cluster(through), &name).await;
        proxy.set(connections);
        sleep(Duration::from_secs(3)).await;
        assert!(!drain.drain.is_finished());
        // A stalled connection is noticed only after the request timeout.
        if connections == Connections::Stalled {
            sleep(Duration::from_secs(20)).await;
        }
        proxy.set(Connections::Forwarded);
        drain.finish(&real).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_cancelled_during_an_outage_releases_the_node_afterwards() {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    let name = control_plane::unique("cancelled");
    real.namespace(&name).await;
    let node = real.node(&name).await;
    real.pod(pod("finalizer", &name, "stuck", &name), "Running").await;
    let proxy = Proxy::to(plane.address()).await;
    let mut through = config(plane.kubeconfig()).await;
    through.cluster_url = format!("https://{}", proxy.address).parse().unwrap();
    let through = cluster(through);
    let (started, cancelled) = (Notify::new(), Notify::new());
    let (owner, options) = (owner(), DrainOptions::new(Flags::default(), LONG));
    let mut progress = |_| started.notify_one();
    let drain = through.cordon_and_drain(&node, &owner, &options, cancelled.notified(), &mut progress);
    let outage = async {
        started.notified().await;
        assert!(real.is_cordoned(&node).await);
        proxy.set(Connections::Closed);
        cancelled.notify_one();
        sleep(Duration::from_secs(2)).await;
        assert!(real.is_cordoned(&node).await);
        proxy.set(Connections::Forwarded);
    };
    let (drained, ()) = Box::pin(timeout(LONG, async { tokio::join!(drain, outage) })).await.unwrap();
    assert!(matches!(drained, Err(DrainError::Cancelled { .. })), "{drained:?}");
    assert!(!real.is_cordoned(&node).await);
}
