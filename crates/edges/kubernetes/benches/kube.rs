//! Compares drain with `kubectl drain`, and measures lists and watches as the cluster grows, on a real API server. Figures are ratios
//! within one run.

#[path = "../tests/common/mod.rs"]
#[expect(dead_code, reason = "the bench creates pods of one class and does not read the table")]
mod common;

use std::process::Stdio;
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kiln_kubernetes::drain::{DrainOptions, Flags};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, NodeName, ReadyWhen, WallClock, connect};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The kubelet's default maximum.
const PODS: usize = 110;
/// Odd, for a median: the machine is shared.
const TRIES: usize = 5;
const SIZES: [usize; 4] = [500, 1000, 2500, 5000];
const LONG: Duration = Duration::from_mins(5);

#[tokio::main]
async fn main() {
    let plane = ControlPlane::start(&Options::bare()).unwrap_or_else(|error| panic!("{error}"));
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("its cluster");
    let client = connect(config).expect("a client");
    let clock = WallClock::new(|| jiff::Timestamp::UNIX_EPOCH);
    let cluster = Cluster::new(client.clone(), ClusterOptions { jitter: Jitter::none(), clock });
    drains(&plane, &client, &cluster).await;
    growth(&client, &cluster).await;
}

/// Drains equal nodes with kiln and kubectl in turn.
async fn drains(plane: &ControlPlane, client: &Client, cluster: &Cluster) {
    let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let space = serde_json::from_value(json!({"metadata": {"name": "shop"}})).expect("a namespace");
    spaces.create(&PostParams::default(), &space).await.expect("a namespace");
    let kubelet = play_kubelet(client);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..TRIES {
        let node = full_node(client, &format!("kiln-{number}")).await;
        let began = Instant::now();
        let options = DrainOptions::new(Flags::default(), LONG);
        let (owner, never) = ("bench".parse().expect("an owner"), std::future::pending());
        cluster.cordon_and_drain(&node, &owner, &options, never, &mut |_| {}).await.expect("a drained node");
        ours.push(began.elapsed());

        let node = full_node(client, &format!("kubectl-{number}")).await;
        let began = Instant::now();
        let mut kubectl = Command::from(plane.kubectl().expect("kubectl"));
        kubectl.args(["drain", node.as_str(), "--timeout=300s"]).stdin(Stdio::null());
        assert!(kubectl.output().await.expect("kubectl").status.success());
        theirs.push(began.elapsed());
    }
    kubelet.abort();
    let (ours, theirs) = (median(ours), median(theirs));
    println!("drain of {PODS} pods, median of {TRIES}: {:.2} of kubectl's time", ours / theirs);
}

/// Measures how the cost of a list and the delay of a watch grow, relative to the first row; the list per node.
async fn growth(client: &Client, cluster: &Cluster) {
    println!("nodes   list, per node   change noticed");
    let nodes: Api<Node> = Api::all(client.clone());
    // The nodes of the drains exist too; the first row's size includes them.
    let mut existing = nodes.list_metadata(&ListParams::default()).await.expect("a list").items.len();
    let mut first: Option<[f64; 2]> = None;
    for size in SIZES {
        let made = stream::iter(existing..size).map(|number| {
            let nodes = nodes.clone();
            async move { nodes.create(&PostParams::default(), &node(&format!("n-{number}"))).await.expect("a node") }
        });
        made.buffer_unordered(50).for_each(|_| async {}).await;
        existing = size;
        let (mut listed, mut noticed) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            let began = Instant::now();
            assert_eq!(cluster.all_nodes().await.expect("a list").len(), size);
            listed.push(began.elapsed());
            noticed.push(notice(&nodes, cluster).await);
        }
        let count = f64::from(u32::try_from(size).expect("a small number"));
        let row = [median(listed) / count, median(noticed)];
        let base = *first.get_or_insert(row);
        println!("{size:>5}   {:>14.2}   {:>16.2}", row[0] / base[0], row[1] / base[1]);
    }
}

/// The time from a node's `Ready` condition until a waiting caller sees it.
async fn notice(nodes: &Api<Node>, cluster: &Cluster) -> Duration {
    let set_ready = |ready: &'static str| {
        let condition = json!({"type": "Ready", "status": ready, "reason": "Kubelet", "message": ""});
        Patch::Merge(json!({"status": {"conditions": [condition]}}))
    };
    let (name, params) = ("n-499", PatchParams::default());
    nodes.patch_status(name, &params, &set_ready("False")).await.expect("a node");
    let waiting = {
        let (cluster, name): (Cluster, NodeName) = (cluster.clone(), name.parse().expect("a name"));
        tokio::spawn(async move { cluster.wait_ready(&name, &ReadyWhen::Now, LONG).await.map(|_| Instant::now()) })
    };
    // By then the watch is established.
    sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    nodes.patch_status(name, &params, &set_ready("True")).await.expect("a node");
    waiting.await.expect("no panic").expect("a ready node") - began
}

async fn full_node(client: &Client, name: &str) -> NodeName {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node(name)).await.expect("a node");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    for number in 0..PODS {
        let pod = common::pod("replicated", "shop", &format!("{name}-{number}"), name);
        let pod = serde_json::from_value(pod).expect("a pod");
        pods.create(&PostParams::default(), &pod).await.expect("a pod");
    }
    name.parse().expect("a name")
}

/// A node object of the usual size.
fn node(name: &str) -> Node {
    let filler = "x".repeat(8 * 1024);
    serde_json::from_value(json!({"metadata": {"name": name, "annotations": {"example.invalid/filler": filler}}}))
        .expect("a node")
}

/// Removes terminating pods at once, so that only the eviction is measured.
fn play_kubelet(client: &Client) -> JoinHandle<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    tokio::spawn(async move {
        loop {
            let all = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            let ending = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
            stream::iter(ending.filter_map(|pod| pod.metadata.name))
                .map(|name| {
                    let pods = pods.clone();
                    async move { pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop) }
                })
                .buffer_unordered(20)
                .for_each(|_| async {})
                .await;
            sleep(Duration::from_millis(50)).await;
        }
    })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}
