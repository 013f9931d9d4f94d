//! A document pushed by user data to three nodes: kilnd, the metadata service's clients and the API server are real, the machines and ARM are those of
//! the embedded Azure.

mod support;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use control_plane::ControlPlane;
use jiff::Timestamp;
use kiln_azure::Azure;
use kiln_azure::arm::Jitter;
use kiln_engine::{Context, DiscardEvents, Error, PushOutcome, PushRefusal, PushReport, PushRequest, Stop, push};
use kiln_fleet_api::RolloutPolicySpec;
use kiln_kubernetes::{Cluster, ClusterOptions, PodInspector, WallClock};
use kiln_node_config::NodeConfig;
use kiln_types::Factory as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use watched::{Watched, azure, hash};

/// Longer than any wait of a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

fn now() -> Timestamp {
    Timestamp::from_duration(jiff::SignedDuration::try_from(kilnd::os::clock::wall()).expect("a time")).expect("a time")
}

/// Three nodes of the embedded Azure's pool with generation 1 in force.
struct Pool {
    nodes: Vec<Watched>,
    namespace: String,
}

impl Pool {
    fn start() -> Self {
        let nodes: Vec<Watched> = (0..3).map(|instance| Watched::new("push", instance)).collect();
        let namespace = nodes[0].plane.namespace("push").expect("a namespace");
        let mut pool = Self { nodes, namespace };
        let first = pool.document(1, 110);
        for node in &mut pool.nodes {
            let (_, _, scale_set) = azure().factory();
            let id = format!(
                "azure:///subscriptions/s/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/{scale_set}/virtualMachines/{}",
                azure().resource_group(),
                node.instance
            );
            let patch = json!({"spec": {"providerID": id}}).to_string();
            node.kubectl(&["patch", "node", &node.name, "--type=merge", "-p", &patch]);
            node.set_user_data(&first);
            node.apply(&first);
            node.watch();
        }
        pool.nodes.iter().for_each(|node| node.wait_committed(1));
        pool
    }

    /// A document for all three nodes. They share the kubelet of the first one; the name of each node is its host name.
    fn document(&self, generation: u64, pods: u32) -> Value {
        let mut document = self.nodes[0].document(generation);
        document["spec"]["kubelet"]["configuration"]["maxPods"] = json!(pods);
        document["spec"].as_object_mut().expect("an object").remove("platform");
        // Polls are hours apart: the push has to tell the nodes.
        document["spec"]["update"] = json!({"pollSeconds": 1_000_000});
        document
    }

    async fn context(&self) -> Context<Azure> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let plane: &ControlPlane = self.nodes[0].plane;
        let file = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
        let config =
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a cluster");
        let client = kiln_kubernetes::connect(config).expect("a client");
        let cluster = Cluster::new(client, ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(now) });
        let namespace = self.namespace.parse().expect("a name");
        Context {
            factory: Arc::new(azure().factory().1.clone()),
            inspector: Arc::new(PodInspector::new(&cluster, &namespace, "kiln:test")),
            cluster,
            namespace,
            resource_group: azure().resource_group(),
            clock: Arc::new(now),
            ids: Arc::new(|| format!("r{}", RUNS.fetch_add(1, Ordering::Relaxed)).parse().expect("an id")),
            own_node: None,
            who: "alice@test".to_owned(),
            events: Arc::new(DiscardEvents),
            stop: Stop::never(),
        }
    }

    fn request(document: &Value) -> PushRequest {
        PushRequest {
            pool: azure().factory().2.clone(),
            document: NodeConfig::parse(document.to_string().as_bytes()).expect("a document"),
            policy: RolloutPolicySpec::default(),
            dry_run: false,
        }
    }

    fn push(&self, document: &Value) -> Result<PushReport, Error> {
        let (runtime, ..) = azure().factory();
        runtime.block_on(async { Box::pin(push(&self.context().await, &Self::request(document))).await })
    }

    /// Starts a push and kills it when an instance has the document.
    fn push_until(&self, document: &Value, instance: u32) {
        let (runtime, factory, pool) = azure().factory();
        let id = instance.to_string().parse().expect("an id");
        runtime.block_on(async {
            let (context, request) = (self.context().await, Self::request(document));
            let written = async {
                while factory.user_data(pool, &id).await.expect("read").expose() != text(document).as_bytes() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                ended = Box::pin(push(&context, &request)) => panic!("ended before it was killed: {ended:?}"),
                () = written => {}
                () = tokio::time::sleep(PATIENCE) => panic!("instance {instance} was not written"),
            }
        });
        // The lease of a process that was killed expires after a minute.
        let leases = ["delete", "leases", "--all", "--namespace", &self.namespace];
        self.nodes[0].kubectl(&leases);
    }

    fn user_data(instance: u32) -> String {
        let (runtime, azure, pool) = azure().factory();
        let id = instance.to_string().parse().expect("an id");
        let data = runtime.block_on(azure.user_data(pool, &id)).expect("read");
        String::from_utf8(data.expose().to_vec()).expect("text")
    }

    fn model() -> String {
        let (runtime, azure, pool) = azure().factory();
        let (data, _) = runtime.block_on(azure.pool_user_data(pool)).expect("read");
        String::from_utf8(data.expose().to_vec()).expect("text")
    }

    fn is_in_force(&self, document: &Value) -> Vec<bool> {
        let value = format!("{} {}", document["metadata"]["generation"], hash(document));
        self.nodes.iter().map(|node| node.annotation("kiln.dev/node-config") == value).collect()
    }
}

/// The document as it is in user data.
fn text(document: &Value) -> String {
    NodeConfig::parse(document.to_string().as_bytes()).expect("a document").to_json()
}

#[test]
fn document_is_pushed_in_waves_and_returns_by_itself_and_after_a_kill_it_is_continued() {
    let pool = Pool::start();

    // A push that is killed after its second wave has started, and continued.
    let good = pool.document(2, 37);
    pool.push_until(&good, 1);
    assert_eq!(Pool::user_data(2), text(&pool.document(1, 110)), "the third node comes after the second");
    assert_eq!(Pool::model(), "", "new nodes get the document after the last wave");
    let report = pool.push(&good).expect("a result");
    assert_eq!((report.outcome, report.updated.len()), (PushOutcome::Complete, 3), "{report}");
    assert_eq!(pool.is_in_force(&good), [true, true, true]);
    assert_eq!(Pool::model(), text(&good));
    assert!(pool.nodes.iter().all(|node| node.current("kubelet.json")["maxPods"] == 37));

    // The kubelet does not answer at the port of this document: kilnd reverts it.
    let mut bad = pool.document(3, 38);
    bad["spec"]["kubelet"]["configuration"]["healthzPort"] = json!(1);
    bad["spec"]["health"]["withinSeconds"] = json!(40);
    let report = pool.push(&bad).expect("a result");
    assert_eq!((report.outcome, report.failed.len()), (PushOutcome::Reverted, 1), "{report}");
    assert!(report.failed[0].reason.contains("generation 3 was reverted"), "{report}");
    assert!((0..3).all(|instance| Pool::user_data(instance) == text(&good)), "all instances have their user data");
    assert_eq!(Pool::model(), text(&good));
    pool.nodes.iter().for_each(|node| node.wait_committed(2));
    assert_eq!(pool.is_in_force(&good), [true, true, true]);

    // Nodes ignore a lower generation, so it is refused.
    let refused = pool.push(&pool.document(1, 40)).expect_err("refused");
    assert!(matches!(refused, Error::Push(PushRefusal::Generation { highest: 2, .. })), "{refused}");

    // A change that needs a reboot is refused before anything is written.
    let mut reboots = pool.document(4, 37);
    reboots["spec"]["os"] = json!({"kernelArguments": ["quiet"]});
    let refused = pool.push(&reboots).expect_err("refused");
    assert!(
        matches!(&refused, Error::Push(PushRefusal::NeedsConsent { fields, .. }) if fields.contains("kernelArguments")),
        "{refused}"
    );

    // While the operator assigns documents, user data is ignored.
    support::fleet::install(pool.nodes[0].plane);
    let state = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState", "metadata": {"name": pool.nodes[1].name},
        "spec": {"desired": {"nodeConfig": "web", "digest": hash(&good)}},
    });
    pool.nodes[0].plane.apply(&state).expect("a NodeState");
    let refused = pool.push(&pool.document(5, 40)).expect_err("refused");
    assert!(matches!(&refused, Error::Push(PushRefusal::Assigned(node)) if *node == pool.nodes[1].name), "{refused}");
    pool.nodes[0].kubectl(&["delete", "nodestate", &pool.nodes[1].name]);
    assert!((0..3).all(|instance| Pool::user_data(instance) == text(&good)));
}
