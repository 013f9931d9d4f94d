//! With `operator.perNodeRead` a node reads only its own NodeState. The operator, with the permissions of the chart, creates the roles.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use control_plane::{ControlPlane, Identity, Options};
use jiff::Timestamp;
use kiln_engine::operator::{OperatorOptions, run};
use kiln_engine::{Stop, Stopper};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, WallClock};
use serde_json::Value;

use crate::matrix::{Grant, NODES, create_objects, deviations};
use crate::nodes::{install, until_enforced};
use crate::session::{FLEET, Session, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[expect(clippy::disallowed_methods, reason = "the server's times are real")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// An operator that runs as the service account of the release.
struct Operator {
    log: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Operator {
    async fn start(plane: &ControlPlane) -> Self {
        let account = Identity::user("system:serviceaccount:kiln:fleet-kiln-operator");
        let client = Session::of(plane, &account).await.client;
        let cluster = Cluster::new(client, ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(now) });
        let mut options = OperatorOptions::new("kiln".parse().unwrap(), "pod".parse().unwrap(), Arc::new(now));
        options.per_node_read = true;
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = log.clone();
        options.report =
            Arc::new(move |event| sink.lock().unwrap_or_else(PoisonError::into_inner).push(event.to_string()));
        let (stopper, stop) = Stop::pair();
        let task = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(cluster, options, stop)).unwrap();
        });
        Self { log, stopper, task }
    }

    /// Stops it, and returns its log.
    async fn stop(self) -> String {
        self.stopper.stop();
        tokio::task::spawn_blocking(|| self.task.join().unwrap()).await.unwrap();
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

/// The role and the binding of a node.
fn grants(node: &str) -> [String; 2] {
    ["clusterroles", "clusterrolebindings"].map(|plural| format!("{RBAC}/{plural}/kiln-node:{node}"))
}

/// Waits until a node may list its own NodeState.
async fn until_readable(plane: &ControlPlane, node: &str) -> Value {
    let session = Session::of(plane, &Identity::node(node)).await;
    let own = format!("{FLEET}/nodestates?fieldSelector=metadata.name%3D{node}");
    eventually(&format!("node {node} may read its NodeState"), async || {
        let reply = session.get(&own).await;
        reply.is_success().then_some(reply.body)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn node_reads_and_watches_only_its_own_node_state() {
    // With controllers: the garbage collector removes the roles of nodes that no longer exist.
    let plane = ControlPlane::start(&Options::default()).unwrap();
    install(&plane, &["--set", "operator.perNodeRead=true"]);
    let admin = Session::admin(&plane).await;
    create_objects(&admin).await;
    until_enforced(&plane, "nodestates/a/status", "nodestates/b/status").await;
    let stranger = Session::of(&plane, &Identity::node("a")).await;
    let own = format!("{FLEET}/nodestates?fieldSelector=metadata.name%3Da");
    assert_eq!(stranger.get(&own).await.code, 403, "the chart alone grants no reads");

    let operator = Operator::start(&plane).await;
    for node in NODES {
        let list = until_readable(&plane, node).await;
        let names: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, [node]);
    }
    assert_eq!(deviations(&plane, Grant::PerNode).await, [""; 0]);

    // A role that someone deletes is created again.
    let uid = async |path: &str| admin.get(path).await.body["metadata"]["uid"].clone();
    for path in grants("b") {
        let before = uid(&path).await;
        admin.send("DELETE", &path, "", &Value::Null).await.ok();
        eventually("the object exists again", async || {
            let now = uid(&path).await;
            (now.is_string() && now != before).then_some(())
        })
        .await;
    }
    until_readable(&plane, "b").await;

    // The roles of a node end with its NodeState.
    admin.send("DELETE", &format!("{FLEET}/nodestates/a"), "", &Value::Null).await.ok();
    for path in grants("a") {
        eventually("the role of the node is deleted", async || (admin.get(&path).await.code == 404).then_some(()))
            .await;
    }
    for path in grants("b") {
        admin.get(&path).await.ok();
    }
    let log = operator.stop().await;
    assert!(!log.contains("forbidden"), "{log}");
}
