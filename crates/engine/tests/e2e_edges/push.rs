//! Pushes of a document by user data, with simulated kilnd on the nodes: it reads its user data when the annotation changes, and reports as kilnd does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Node as Object;
use kiln_azure::Azure;
use kiln_engine::{
    Error, EventSink, PushOutcome, PushRefusal, PushReport, PushRequest, RefreshRequest, RunEvent, RunEventKind, push,
    refresh,
};
use kiln_fleet_api::RolloutPolicySpec;
use kiln_node_config::NodeConfig;
use kiln_sim_azure::Speed;
use kiln_types::{Factory, Node, NodeName, SecretBytes};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::world::{World, WorldBuilder, node, pool_name};

/// Nodes with this `maxPods` fail their trial.
const BAD: u64 = 13;
/// Only node 1 fails its trial with this `maxPods`.
const BAD_ON_ONE: u64 = 14;
/// Nodes ask for a drain for this `maxPods`, although the documents do not show it.
const DRAINS: u64 = 15;

fn document(generation: u64, max_pods: u64) -> NodeConfig {
    let authority = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "web", "generation": generation},
        "spec": {
            "cluster": {"endpoint": "https://api.example:443", "certificateAuthority": authority},
            "kubelet": {"version": "1.34.4", "configuration": {"maxPods": max_pods}},
        },
    });
    NodeConfig::parse(document.to_string().as_bytes()).unwrap()
}

fn max_pods(config: &NodeConfig) -> u64 {
    let json: Value = serde_json::from_str(&config.to_json()).unwrap();
    json["spec"]["kubelet"]["configuration"]["maxPods"].as_u64().unwrap()
}

fn request(document: NodeConfig) -> PushRequest {
    PushRequest { pool: pool_name(), document, policy: RolloutPolicySpec::default(), dry_run: false }
}

/// A simulated kilnd.
#[derive(Default)]
struct Kilnd {
    committed: Option<NodeConfig>,
    trial: Option<(NodeConfig, u32)>,
    rejected: Vec<String>,
    check: Option<String>,
    outcome: Option<(&'static str, String)>,
    pending: Option<String>,
}

impl Kilnd {
    /// One second of a node.
    fn turn(&mut self, node: &Node, text: &str) {
        if let Some((config, seconds)) = &mut self.trial {
            *seconds += 1;
            if *seconds < 20 {
                return;
            }
            let (config, number) = (config.clone(), config.metadata.generation);
            self.trial = None;
            let pods = max_pods(&config);
            if pods == BAD || (pods == BAD_ON_ONE && node.name == crate::world::node(1)) {
                self.rejected.push(config.hash());
                self.outcome = Some(("Reverted", format!("generation {number} was reverted after 20 s: kubelet")));
            } else {
                self.committed = Some(config);
            }
            return;
        }
        let check = node.annotations.get("kiln.dev/node-config-check").cloned();
        if self.committed.is_some() && check == self.check {
            return;
        }
        self.check = check;
        let Ok(config) = NodeConfig::parse(text.as_bytes()) else { return };
        (self.outcome, self.pending) = (None, None);
        let is_newer = |now: &NodeConfig| now.metadata.generation < config.metadata.generation;
        match &self.committed {
            None => self.committed = Some(config),
            Some(_) if self.rejected.contains(&config.hash()) => {
                let number = config.metadata.generation;
                self.outcome = Some(("Reverted", format!("generation {number} was already rejected")));
            }
            Some(now) if is_newer(now) && max_pods(&config) == DRAINS => self.pending = Some(config.hash()),
            Some(now) if is_newer(now) => self.trial = Some((config, 0)),
            // The document in force, and older ones.
            Some(_) => {}
        }
    }

    /// Annotations and conditions of the Node.
    fn report(&self) -> (Value, Value) {
        let trial = self.trial.as_ref().map(|(config, _)| config);
        let Some(now) = trial.or(self.committed.as_ref()) else { return (json!({}), json!([])) };
        let in_force = format!("generation {} is in force", now.metadata.generation);
        let (status, reason, message) = match (&self.outcome, trial) {
            (Some((reason, why)), _) => ("False", *reason, format!("{why}; {in_force}")),
            (None, Some(_)) => ("Unknown", "OnTrial", format!("{in_force}, on trial")),
            (None, None) if self.pending.is_some() => ("False", "Pending", format!("waiting; {in_force}")),
            (None, None) => ("True", "Committed", in_force),
        };
        let pending = self.pending.as_ref().map(|hash| format!("generation 9 ({hash})"));
        let value = format!("{} {}", now.metadata.generation, now.hash());
        (
            json!({"kiln.dev/node-config": value, "kiln.dev/pending-drain": pending}),
            json!([{"type": "KilnConfigured", "status": status, "reason": reason, "message": message}]),
        )
    }
}

/// The nodes of a world under simulated kilnd.
struct Nodes {
    world: World,
    turns: JoinHandle<()>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.turns.abort();
    }
}

impl Nodes {
    /// Three nodes with generation 1 in user data and in force.
    async fn start() -> Self {
        let builder = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() };
        let world = builder.pool(|pool| pool.user_data = Some(document(1, 110).to_json())).start().await;
        let (azure, cluster) = (world.azure(), world.cluster());
        let api: Api<Object> = Api::all(Client::new(world.server.service(), "default"));
        let turns = tokio::spawn(async move {
            let mut all: BTreeMap<NodeName, Kilnd> = BTreeMap::new();
            loop {
                for node in cluster.nodes_of(&pool_name()).await.unwrap_or_default() {
                    let kilnd = all.entry(node.name.clone()).or_default();
                    kilnd.turn(&node, &user_data_of(&azure, &node).await);
                    let (annotations, conditions) = kilnd.report();
                    let (name, params) = (node.name.as_str(), PatchParams::default());
                    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
                    let _ = api.patch(name, &params, &patch).await;
                    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
                    let _ = api.patch_status(name, &params, &patch).await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        let nodes = Self { world, turns };
        nodes.until("generation 1 is committed", |node| has(node, &document(1, 110))).await;
        nodes
    }

    async fn all(&self) -> Vec<Node> {
        self.world.cluster().nodes_of(&pool_name()).await.unwrap()
    }

    async fn until(&self, what: &str, is_true: impl Fn(&Node) -> bool) {
        for _ in 0..600 {
            if self.all().await.iter().all(&is_true) {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("{what}: {:#?}", self.all().await);
    }

    async fn user_data(&self, number: u32) -> String {
        let id = number.to_string().parse().unwrap();
        let data = self.world.azure().user_data(&pool_name(), &id).await.unwrap();
        String::from_utf8(data.expose().to_vec()).unwrap()
    }

    async fn model(&self) -> String {
        let (data, _) = self.world.azure().pool_user_data(&pool_name()).await.unwrap();
        String::from_utf8(data.expose().to_vec()).unwrap()
    }

    /// The writes to Azure: the number of an instance, or `model`.
    fn writes(&self) -> Vec<String> {
        let requests = self.world.wire.requests().into_iter();
        let writes = requests.filter(|(method, ..)| method == "PUT" || method == "PATCH");
        writes
            .map(|(_, path, _)| match path.split_once("/virtualMachines/") {
                Some((_, instance)) => instance.split('?').next().unwrap_or_default().to_owned(),
                None => "model".to_owned(),
            })
            .collect()
    }

    async fn push(&self, document: NodeConfig) -> Result<PushReport, Error> {
        Box::pin(push(&self.world.quiet(), &request(document))).await
    }
}

async fn user_data_of(azure: &Azure, node: &Node) -> String {
    let Some(id) = kiln_types::ProviderId::from_node(node) else { return String::new() };
    let data = azure.user_data(&pool_name(), &id.instance).await.unwrap_or_default();
    String::from_utf8_lossy(data.expose()).into_owned()
}

fn in_force(node: &Node) -> &str {
    node.annotations.get("kiln.dev/node-config").map(String::as_str).unwrap_or_default()
}

/// Whether a document is in force and committed.
fn has(node: &Node, document: &NodeConfig) -> bool {
    in_force(node) == format!("{} {}", document.metadata.generation, document.hash())
        && node.conditions.get("KilnConfigured").is_some_and(|one| one.reason == "Committed")
}

/// The notes of a push.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl EventSink for Notes {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        if let RunEventKind::Note(text) = event.kind {
            self.0.lock().unwrap().push(text);
        }
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn good_document_reaches_one_instance_after_the_other_and_the_model_at_last() {
    let nodes = Nodes::start().await;
    let new = document(2, 37);
    let before = nodes.writes().len();
    let printed = Arc::new(Notes::default());
    let report = Box::pin(push(&nodes.world.process(printed.clone()), &request(new.clone()))).await.unwrap();
    assert_eq!((report.outcome, report.updated.len()), (PushOutcome::Complete, 3));
    assert_eq!((report.failed.len(), report.left.len(), report.waves.as_slice()), (0, 0, &[1, 1, 1][..]));
    assert_eq!(nodes.writes()[before..], ["0", "1", "2", "model"]);
    assert_eq!(nodes.model().await, new.to_json());
    assert!(nodes.all().await.iter().all(|node| has(node, &new)));
    let printed = printed.0.lock().unwrap().join("\n");
    assert!(printed.contains("wave 1 of 3") && printed.contains("wave 3 of 3"), "{printed}");

    // A repeated push changes nothing.
    let before = nodes.writes().len();
    let again = nodes.push(new.clone()).await.unwrap();
    assert_eq!((again.outcome, again.waves.len()), (PushOutcome::Complete, 0));
    assert_eq!(nodes.writes().len(), before);

    // A new node gets the document from the model.
    nodes.world.sim.scale(crate::world::POOL, 4).unwrap();
    nodes.world.until_ready().await;
    nodes.until("the new node has the document", |node| has(node, &new)).await;
}

#[tokio::test(start_paused = true)]
async fn bad_document_stops_after_one_node_and_its_instance_gets_its_user_data_back() {
    let nodes = Nodes::start().await;
    let (old, before) = (document(1, 110), nodes.writes().len());
    let report = nodes.push(document(2, BAD)).await.unwrap();
    assert_eq!(report.outcome, PushOutcome::Reverted);
    assert_eq!(report.failed.len(), 1);
    assert!(report.failed[0].reason.contains("generation 2 was reverted"), "{:?}", report.failed);
    assert_eq!((report.updated.len(), report.left.len()), (0, 0));
    assert_eq!(nodes.writes()[before..], ["0", "0"], "the model and the other instances are not touched");
    for number in 0..3 {
        assert_eq!(nodes.user_data(number).await, old.to_json());
    }
    assert_eq!(nodes.model().await, old.to_json());
    nodes.until("all nodes have their document", |node| has(node, &old)).await;

    // A corrected document with a higher generation is pushed as usual.
    let report = nodes.push(document(3, 37)).await.unwrap();
    assert_eq!((report.outcome, report.updated.len()), (PushOutcome::Complete, 3));
}

#[tokio::test(start_paused = true)]
async fn updated_nodes_return_newest_first_with_a_higher_generation() {
    let nodes = Nodes::start().await;
    let before = nodes.writes().len();
    let report = nodes.push(document(2, BAD_ON_ONE)).await.unwrap();
    assert_eq!(report.outcome, PushOutcome::Reverted);
    assert_eq!(report.failed[0].node, node(1).to_string());
    assert_eq!((report.updated.len(), report.left.len()), (0, 0), "{report}");
    assert_eq!(nodes.writes()[before..], ["0", "1", "1", "0"]);
    // Node 0 had the document in force, and would ignore generation 1.
    let raised = document(3, 110);
    assert_eq!(nodes.user_data(0).await, raised.to_json());
    assert_eq!(nodes.user_data(1).await, document(1, 110).to_json());
    assert_eq!(nodes.model().await, document(1, 110).to_json());
    let all = nodes.all().await;
    assert!(has(&all[0], &raised) && has(&all[1], &document(1, 110)) && has(&all[2], &document(1, 110)));
}

#[tokio::test(start_paused = true)]
async fn push_that_is_killed_at_any_time_is_continued_and_writes_each_instance_once() {
    for (max_pods, outcome, writes) in [
        (37, PushOutcome::Complete, &["0", "1", "2", "model"][..]),
        (BAD_ON_ONE, PushOutcome::Reverted, &["0", "1", "1", "0"]),
    ] {
        for seconds in [0, 1, 10, 30, 45, 60] {
            let nodes = Nodes::start().await;
            let before = nodes.writes().len();
            let new = document(2, max_pods);
            let killed = nodes.push(new.clone());
            let ended = tokio::time::timeout(Duration::from_secs(seconds), killed).await;
            // Another document is refused while the push is open.
            if ended.is_err() && nodes.writes().len() > before {
                let refused = nodes.push(document(9, 40)).await.unwrap_err();
                assert!(matches!(refused, Error::Push(PushRefusal::Interrupted { generation: 2, .. })), "{refused}");
            }
            let report = match ended {
                Ok(report) => report.unwrap(),
                Err(_) => nodes.push(new.clone()).await.unwrap(),
            };
            assert_eq!(report.outcome, outcome, "killed after {seconds} s");
            assert_eq!(nodes.writes()[before..], *writes, "killed after {seconds} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn push_is_refused_before_anything_is_written() {
    let nodes = Nodes::start().await;
    let before = nodes.writes().len();
    let old = nodes.push(document(1, 37)).await.unwrap_err();
    assert!(matches!(old, Error::Push(PushRefusal::Generation { generation: 1, highest: 1, .. })), "{old}");
    let planned = push(&nodes.world.quiet(), &PushRequest { dry_run: true, ..request(document(2, 37)) }).await.unwrap();
    assert_eq!((planned.outcome, planned.waves.as_slice()), (PushOutcome::Planned, &[1, 1, 1][..]));
    assert_eq!(nodes.writes().len(), before);

    // A change of the model would reach running instances.
    let automatic = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() };
    let automatic = automatic.pool(|pool| pool.upgrade_policy = "Automatic".to_owned()).start().await;
    let refused = push(&automatic.quiet(), &request(document(2, 37))).await.unwrap_err();
    assert!(matches!(refused, Error::Push(PushRefusal::UpgradePolicy(_))), "{refused}");

    // User data of another kind is not overwritten.
    let azure = nodes.world.azure();
    let instance = azure.describe_instance(&pool_name(), &"2".parse().unwrap()).await.unwrap();
    let script = SecretBytes::new("#!/bin/sh\n");
    assert!(azure.set_user_data(&pool_name(), &instance.id, &instance.vm_id, &script).await.unwrap());
    let other = nodes.push(document(2, 37)).await.unwrap_err();
    assert!(matches!(&other, Error::Push(PushRefusal::OtherUserData(owner)) if owner == "instance 2"), "{other}");
    assert_eq!(nodes.user_data(0).await, document(1, 110).to_json());
}

#[tokio::test(start_paused = true)]
async fn node_that_asks_for_a_drain_fails_and_stays_as_it_is() {
    let nodes = Nodes::start().await;
    let report = nodes.push(document(2, DRAINS)).await.unwrap();
    assert_eq!(report.outcome, PushOutcome::Reverted);
    assert!(report.failed[0].reason.contains("needs a drain"), "{:?}", report.failed);
    assert_eq!(nodes.user_data(0).await, document(1, 110).to_json());
    assert!(nodes.all().await.iter().all(|node| !node.cordoned));
}

#[tokio::test(start_paused = true)]
async fn push_and_refresh_do_not_run_at_the_same_time() {
    let nodes = Nodes::start().await;
    let (pushing, refreshing) = (nodes.world.quiet(), nodes.world.quiet());
    let wanted = request(document(2, 37));
    let pushed = push(&pushing, &wanted);
    let refreshed = async {
        sleep(Duration::from_secs(10)).await;
        refresh(&refreshing, &RefreshRequest::default()).await
    };
    let (pushed, refreshed) = tokio::join!(Box::pin(pushed), Box::pin(refreshed));
    assert_eq!(pushed.unwrap().outcome, PushOutcome::Complete);
    assert!(refreshed.unwrap_err().is_busy());
}
