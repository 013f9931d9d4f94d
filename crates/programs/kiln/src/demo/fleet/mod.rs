//! `kiln demo --fleet`: a good rollout over forty nodes, then a bad one that stops after one node and is reverted.
//!
//! The operator is the real one. Azure, the API server and the kubelets are embedded, and [`Kilnds`] simulates the kilnd of each node. [`follow`]
//! prints what a rollout reports, and [`report`] the result.

mod follow;
mod report;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kiln_engine::Stop;
use kiln_engine::operator::{self, OperatorOptions};
use kiln_fleet_api::{
    NodeConfig, NodeConfigSpec, NodeState, Pool, PoolSpec, Rollout, RolloutPhase, RolloutPolicySpec, RolloutSpec,
    Target,
};
use kiln_kubernetes::Fleet;
use kiln_node_config as document;
use kiln_sim_azure::WorldSpec;
use kiln_types::Node;
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde_json::json;

pub(super) use report::{page, text};

use super::narrator::Pace;
use super::world::{NAMESPACE, World};
use crate::failure::Failure;
use crate::sim::kilnds::{Kilnds, Times};
use follow::follow;

const NODES: u32 = 40;
/// The label that selects the nodes of the pool.
const LABEL: (&str, &str) = ("agentpool", "web");
const POOL: &str = "web";

/// The result of the demo. Its JSON form is the output of `kiln demo --fleet --output json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    nodes: u32,
    good: Ended,
    bad: Ended,
    /// Nodes that have the good document after both rollouts.
    nodes_with_the_good_document: usize,
    cordoned_nodes: usize,
}

/// A rollout that has ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    name: String,
    phase: RolloutPhase,
    updated: i64,
    failed: i64,
    seconds: f64,
    waves: Vec<Wave>,
    failures: Vec<kiln_fleet_api::NodeFailure>,
    /// Nodes that ever had its document.
    touched: i64,
}

/// A wave of a rollout, in seconds since its start.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Wave {
    size: i64,
    done: i64,
    failed: i64,
    from: f64,
    to: f64,
}

pub(super) async fn play(now: Timestamp, pace: Pace) -> Result<Outcome, Failure> {
    let mut spec = WorldSpec::default();
    spec.pools[0].capacity = NODES;
    spec.pools[0].node_labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
    let world = World::start_with(spec, now).await?;
    // Nothing happens on the nodes but evictions, which may take a while.
    world.quiet.store(true, Ordering::Relaxed);
    install(&world).await?;
    let fleet = Fleet::new(&world.cluster);
    let kilnds = Kilnds::new(world.client.clone(), world.clock.clone(), Times::REAL, documents()[0].hash());
    let running = kilnds.clone();
    tokio::spawn(async move { running.run().await });
    let (_stopper, stop) = Stop::pair();
    let options = OperatorOptions::new(
        NAMESPACE.parse().map_err(Failure::failed)?,
        "kiln-operator-demo".parse().map_err(Failure::failed)?,
        world.clock.clone(),
    );
    tokio::spawn(operator::run(world.cluster.clone(), options, stop));
    eprintln!(
        "Pool {POOL} has {NODES} nodes. A simulated kilnd runs on each, and `kiln operator` decides when they change.\n"
    );

    let [_, good, bad] = documents();
    eprintln!("Roll out kubelet {}, for which nodes are drained:", good.spec.kubelet.version);
    let good = roll_out(&world, &fleet, "kubelet-update", &good, pace, &kilnds).await?;
    if good.phase != RolloutPhase::Complete {
        return Err(Failure::failed(format_args!("the good rollout did not complete: {good:?}")));
    }
    eprintln!("\nRoll out a document with which no kubelet becomes healthy:");
    let bad = roll_out(&world, &fleet, "bad-update", &bad, pace, &kilnds).await?;
    if bad.phase != RolloutPhase::RolledBack {
        return Err(Failure::failed(format_args!("the bad rollout was not reverted: {bad:?}")));
    }
    let digest = documents()[1].hash();
    let states = fleet.list::<NodeState>().await.map_err(Failure::failed)?;
    let has_good = |state: &&NodeState| {
        let current = state.status.as_ref().and_then(|status| status.current.as_ref());
        current.is_some_and(|current| current.digest == digest && current.committed)
    };
    let nodes = world.cluster.nodes_of(&world.pool).await.map_err(Failure::failed)?;
    Ok(Outcome {
        nodes: NODES,
        good,
        bad,
        nodes_with_the_good_document: states.iter().filter(has_good).count(),
        cordoned_nodes: nodes.iter().filter(|node: &&Node| node.cordoned).count(),
    })
}

/// The document in the image, a good one, and a bad one.
fn documents() -> [document::NodeConfig; 3] {
    let make = |generation: u64, version: &str, max_pods: u32| {
        let value = json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig",
            "metadata": {"name": POOL, "generation": generation},
            "spec": {
                "cluster": {
                    "endpoint": "https://api.example:443",
                    "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMIIBOg==\n-----END CERTIFICATE-----\n",
                },
                "kubelet": {"version": version, "configuration": {"maxPods": max_pods}},
            },
        });
        document::NodeConfig::parse(value.to_string().as_bytes()).expect("a valid document")
    };
    [make(1, "1.33.6", 110), make(2, "1.33.7", 110), make(3, "1.33.7", 0)]
}

/// Creates the kinds, the NodeConfigs and the pool.
async fn install(world: &World) -> Result<(), Failure> {
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    for definition in kiln_fleet_api::definitions() {
        api.create(&PostParams::default(), &definition).await.map_err(Failure::failed)?;
    }
    let fleet = Fleet::new(&world.cluster);
    for config in documents() {
        let spec = NodeConfigSpec { document: config.to_json() };
        fleet.create(&NodeConfig::new(&name_of(&config), spec), false).await.map_err(Failure::failed)?;
    }
    let node_selector = [(LABEL.0.to_owned(), LABEL.1.to_owned())].into();
    let [first, ..] = documents();
    let spec = PoolSpec { node_selector, node_config: Some(name_of(&first)), ..PoolSpec::default() };
    fleet.create(&Pool::new(POOL, spec), false).await.map_err(Failure::failed)?;
    Ok(())
}

fn name_of(config: &document::NodeConfig) -> String {
    format!("{POOL}-{}", config.metadata.generation)
}

/// Two minutes between waves, and a tenth of the nodes at a time.
fn policy() -> RolloutPolicySpec {
    serde_json::from_value(json!({
        "waves": {"first": {"nodes": 1, "soak": "2m"}, "then": {"factor": 3, "maxPercent": 30, "soak": "2m"}},
        "budgets": [{"maxUnavailable": "10%"}],
        "gates": [{"nodeReadyFor": "30s"}],
    }))
    .expect("a valid policy")
}

async fn roll_out(
    world: &World,
    fleet: &Fleet,
    name: &str,
    config: &document::NodeConfig,
    pace: Pace,
    kilnds: &Arc<Kilnds>,
) -> Result<Ended, Failure> {
    let target = Target::document(name_of(config), Some(config.hash()));
    let spec = RolloutSpec { pools: vec![POOL.to_owned()], target, policy: Some(policy()), ..RolloutSpec::default() };
    fleet.create(&Rollout::new(name, spec), false).await.map_err(Failure::failed)?;
    let mut ended = follow(world, fleet, name, pace).await?;
    ended.touched = kilnds.touched(&config.hash());
    Ok(ended)
}
