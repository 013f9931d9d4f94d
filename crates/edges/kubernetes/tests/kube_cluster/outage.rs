//! Servers that are killed and a wire that is cut, in the middle of a drain and of a watch.

use std::sync::Arc;
use std::time::Duration;

use control_plane::{Component, ControlPlane, Options};
use kiln_kubernetes::drain::{DrainError, DrainOptions, Drained, Flags, Progress};
use kiln_kubernetes::{Cluster, HOLD_ANNOTATION, HoldWhat, NodeName, Owner, ReadyWhen};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::common::pod;
use crate::proxy::{Proxy, Wire};
use crate::real::{Fate, LONG, Real, cluster, config, quiet};

const PODS: usize = 8;
const PARALLEL: std::num::NonZeroUsize = std::num::NonZeroUsize::new(2).unwrap();

fn owner() -> Owner {
    "run-1".parse().unwrap()
}

/// A node with pods, another with one, and a drain of the first that is in its middle when this returns.
struct Middle {
    node: NodeName,
    namespace: String,
    drain: JoinHandle<(Drained, bool)>,
}

async fn middle_of_a_drain(real: &Real, through: Cluster, name: &str) -> Middle {
    real.namespace(name).await;
    let node = real.node(name).await;
    real.node(&format!("{name}-other")).await;
    for number in 0..PODS {
        real.pod(pod("replicated", name, &format!("p{number}"), name), "Running").await;
    }
    real.pod(pod("replicated", name, "elsewhere", &format!("{name}-other")), "Running").await;
    let begun = Arc::new(Notify::new());
    let (told, drained) = (begun.clone(), node.clone());
    let drain = tokio::spawn(async move {
        let options = DrainOptions { parallel: PARALLEL, ..DrainOptions::new(Flags::default(), LONG) };
        let mut away = false;
        let mut progress = |progress: Progress| {
            away |= matches!(progress, Progress::Away(_));
            if matches!(progress, Progress::Asked(_)) {
                told.notify_one();
            }
        };
        let (owner, never) = (owner(), std::future::pending());
        let drained = through.cordon_and_drain(&drained, &owner, &options, never, &mut progress).await.unwrap();
        (drained, away)
    });
    timeout(LONG, begun.notified()).await.unwrap();
    // Nobody plays kubelet yet: pods are ending, none is gone.
    Middle { node, namespace: name.to_owned(), drain }
}

impl Middle {
    /// Lets the pods end, and looks that all is as it should be.
    async fn ends_well(self, real: &Real) {
        let kubelet = real.play_kubelet(&self.namespace);
        let (drained, away) = timeout(LONG, self.drain).await.unwrap().unwrap();
        drop(kubelet);
        assert!(away, "the drain saw the outage");
        let mut gone: Vec<_> = drained.gone.iter().map(|pod| pod.name.clone()).collect();
        gone.sort();
        assert_eq!(gone, (0..PODS).map(|number| format!("p{number}")).collect::<Vec<_>>());
        assert_eq!(real.fate(&self.namespace, "elsewhere").await, Fate::Untouched);
        assert!(real.is_cordoned(&self.node).await);
        real.cluster.release(&self.node, &owner(), HoldWhat::ALL).await.unwrap();
        let node = real.cluster.node(&self.node).await.unwrap();
        assert!(!node.cordoned && !node.annotations.contains_key(HOLD_ANNOTATION));
    }
}

async fn own_plane() -> Arc<ControlPlane> {
    Arc::new(spawn_blocking(|| ControlPlane::start(&Options::bare()).unwrap()).await.unwrap())
}

/// Kills API server and etcd, keeps them away for a while, and starts them again.
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
            back.start_again(server).unwrap();
        }
        back.wait_until_ready().unwrap();
    };
    spawn_blocking(start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_and_a_watch_outlast_the_death_of_api_server_and_etcd() {
    let plane = own_plane().await;
    let real = Real::of(&plane).await;
    let waiting = real.node("waiting").await;
    let watched = real.cluster.clone();
    let ready = tokio::spawn(async move { watched.wait_ready(&waiting, &ReadyWhen::Now, LONG).await });
    let middle = middle_of_a_drain(&real, real.cluster.clone(), "killed").await;
    power_cut(&plane).await;
    middle.ends_well(&real).await;
    assert!(!ready.is_finished(), "nobody said that it is ready");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    real.nodes().patch_status("waiting", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    timeout(LONG, ready).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_outlasts_a_wire_that_is_cut_and_one_that_is_dead() {
    let plane = quiet();
    let real = Real::of(plane).await;
    for (wire, name) in [(Wire::Cut, "cut"), (Wire::Dead, "dead")] {
        let name = control_plane::unique(name);
        let proxy = Proxy::to(plane.address()).await;
        let mut through = config(plane.kubeconfig()).await;
        through.cluster_url = format!("https://{}", proxy.address).parse().unwrap();
        let middle = middle_of_a_drain(&real, cluster(through), &name).await;
        proxy.set(wire);
        sleep(Duration::from_secs(3)).await;
        assert!(!middle.drain.is_finished());
        // A dead wire is noticed by its silence alone, for which the limit of a request is waited.
        if wire == Wire::Dead {
            sleep(Duration::from_secs(20)).await;
        }
        proxy.set(Wire::Whole);
        middle.ends_well(&real).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_called_off_while_the_wire_is_cut_gives_the_node_back_when_it_is_whole() {
    let plane = quiet();
    let real = Real::of(plane).await;
    let name = control_plane::unique("called-off");
    real.namespace(&name).await;
    let node = real.node(&name).await;
    real.pod(pod("finalizer", &name, "stuck", &name), "Running").await;
    let proxy = Proxy::to(plane.address()).await;
    let mut through = config(plane.kubeconfig()).await;
    through.cluster_url = format!("https://{}", proxy.address).parse().unwrap();
    let through = cluster(through);
    let (begun, called_off) = (Notify::new(), Notify::new());
    let (owner, options) = (owner(), DrainOptions::new(Flags::default(), LONG));
    let mut progress = |_| begun.notify_one();
    let drain = through.cordon_and_drain(&node, &owner, &options, called_off.notified(), &mut progress);
    let trouble = async {
        begun.notified().await;
        assert!(real.is_cordoned(&node).await);
        proxy.set(Wire::Cut);
        called_off.notify_one();
        sleep(Duration::from_secs(2)).await;
        assert!(real.is_cordoned(&node).await);
        proxy.set(Wire::Whole);
    };
    let (drained, ()) = Box::pin(timeout(LONG, async { tokio::join!(drain, trouble) })).await.unwrap();
    assert!(matches!(drained, Err(DrainError::Cancelled { .. })), "{drained:?}");
    assert!(!real.is_cordoned(&node).await);
}
