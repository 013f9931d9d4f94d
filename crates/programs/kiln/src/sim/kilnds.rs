//! Simulated kilnds: each follows the NodeState of its node and writes its status. `kiln sim serve` and `kiln demo --fleet` run them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{
    Current, Effect, NodeConfig as NodeConfigObject, NodeState, NodeStateStatus, Phase, RequestedAction, Requests,
    Reverted,
};
use kiln_node_config::{NodeConfig, changes};
use kiln_sim_azure::Speed;
use kiln_sim_kubernetes::Clock;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;

/// How long a document is on trial before its health gates have passed.
const TRIAL: SignedDuration = SignedDuration::from_secs(40);
/// How long kilnd waits for a gate before it reverts.
const GATE_LIMIT: SignedDuration = SignedDuration::from_secs(120);
/// Interval at speed `instant`. A turn without changes is two lists, which the embedded cluster answers from memory.
const INSTANT_TURN: Duration = Duration::from_millis(100);

/// The durations of the simulated kilnds, on the clock of their cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    turn: Duration,
    trial: SignedDuration,
    gate_limit: SignedDuration,
}

impl Times {
    /// The durations of real nodes.
    pub(crate) const REAL: Self = Self { turn: Duration::from_secs(5), trial: TRIAL, gate_limit: GATE_LIMIT };

    /// Shorter durations for a world whose clock is faster than that of its cluster.
    pub(crate) fn at(speed: Speed) -> Self {
        let scaled = |time: SignedDuration, factor: f64| SignedDuration::from_secs_f64(time.as_secs_f64() / factor);
        match speed {
            Speed::Instant => {
                Self { turn: INSTANT_TURN, trial: SignedDuration::ZERO, gate_limit: SignedDuration::ZERO }
            }
            Speed::Factor(factor) => Self {
                turn: Duration::from_secs(1),
                trial: scaled(TRIAL, factor),
                gate_limit: scaled(GATE_LIMIT, factor),
            },
        }
    }
}

/// The kilnds of all nodes.
pub(crate) struct Kilnds {
    client: Client,
    clock: Clock,
    times: Times,
    /// Digest of the document in the image; empty if it has none.
    initial: String,
    /// Nodes that have had each document.
    touched: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

/// The documents of the cluster by digest.
#[derive(Debug, Default)]
struct Documents {
    /// The names of objects that were parsed; they never change.
    known: BTreeSet<String>,
    by_digest: BTreeMap<String, NodeConfig>,
}

/// The memory of a kilnd.
#[derive(Debug, Clone)]
struct Node {
    current: String,
    /// The document on trial, the one before it, and the begin of the trial.
    trial: Option<(String, Timestamp)>,
    reverted: Option<Reverted>,
}

impl Kilnds {
    /// The kilnds of all NodeStates that exist or will exist.
    pub(crate) fn new(client: Client, clock: Clock, times: Times, initial: String) -> Arc<Self> {
        Arc::new(Self { client, clock, times, initial, touched: Mutex::default() })
    }

    /// Answers for all nodes, without an end.
    pub(crate) async fn run(&self) {
        let api: Api<NodeState> = Api::all(self.client.clone());
        let configs: Api<NodeConfigObject> = Api::all(self.client.clone());
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut documents = Documents::default();
        loop {
            // The kinds may not be served yet.
            let found = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            if !found.is_empty() {
                documents.read(&configs).await;
            }
            for state in found {
                let name = state.name_any();
                let fresh = || Node { current: self.initial.clone(), trial: None, reverted: None };
                let node = nodes.entry(name.clone()).or_insert_with(fresh);
                let status = self.turn(node, &state, &documents, (self.clock)());
                if state.status.as_ref() != Some(&status) {
                    let patch = Patch::Merge(json!({"status": null_absent(&status)}));
                    // A conflict or an outage: the next turn writes it.
                    let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
                }
            }
            sleep(self.times.turn).await;
        }
    }

    /// The number of nodes that have had a document.
    pub(crate) fn touched(&self, digest: &str) -> i64 {
        let touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.get(digest).map_or(0, |nodes| i64::try_from(nodes.len()).unwrap_or(i64::MAX))
    }

    /// One turn of a kilnd: what it does, and what it reports.
    fn turn(&self, node: &mut Node, state: &NodeState, documents: &Documents, now: Timestamp) -> NodeStateStatus {
        let mut status = NodeStateStatus {
            observed_generation: state.metadata.generation,
            boot_id: "b5c1e7a0".to_owned(),
            kilnd: env!("CARGO_PKG_VERSION").to_owned(),
            ..NodeStateStatus::default()
        };
        let Some(desired) = &state.spec.desired else { return report(status, node, Phase::Idle) };
        if node.trial.is_none() && node.current != desired.digest {
            if let Some(reverted) = node.reverted.as_ref().filter(|reverted| reverted.digest == desired.digest) {
                status.message.clone_from(&reverted.reason);
                return report(status, node, Phase::Reverted);
            }
            let effect = documents.effect(&node.current, &desired.digest);
            if effect >= Effect::Drain && state.spec.allow.as_deref() != Some(&desired.digest) {
                status.effect = Some(effect);
                "waits until the node is drained".clone_into(&mut status.message);
                status.requests = Requests {
                    action: Some(RequestedAction::Drain),
                    digest: desired.digest.clone(),
                    ..Requests::default()
                };
                return report(status, node, Phase::Pending);
            }
            let previous = std::mem::replace(&mut node.current, desired.digest.clone());
            node.trial = Some((previous, now));
            self.touched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(desired.digest.clone())
                .or_default()
                .insert(state.name_any());
        }
        match node.trial.clone() {
            Some((previous, begin)) if documents.is_bad(&node.current) => {
                if now.duration_since(begin) < self.times.gate_limit {
                    return report(status, node, Phase::OnTrial);
                }
                let reason = format!("gate `kubelet` failed: not healthy for {} s", GATE_LIMIT.as_secs());
                let digest = std::mem::replace(&mut node.current, previous);
                node.reverted = Some(Reverted { digest, reason: reason.clone() });
                node.trial = None;
                status.message = reason;
                report(status, node, Phase::Reverted)
            }
            Some((_, begin)) if now.duration_since(begin) < self.times.trial => report(status, node, Phase::OnTrial),
            _ => {
                node.trial = None;
                report(status, node, Phase::Current)
            }
        }
    }
}

impl Documents {
    /// Reads the documents that are new. One that is invalid has no effect and is never bad: the operator does not assign it.
    async fn read(&mut self, configs: &Api<NodeConfigObject>) {
        let found = configs.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for object in found {
            if self.known.insert(object.name_any())
                && let Ok(config) = NodeConfig::parse(object.spec.document.as_bytes())
            {
                self.by_digest.insert(config.hash(), config);
            }
        }
    }

    fn effect(&self, from: &str, to: &str) -> Effect {
        match (self.by_digest.get(from), self.by_digest.get(to)) {
            (Some(from), Some(to)) => changes::highest_effect(&changes::between(from, to)),
            _ => Effect::None,
        }
    }

    /// A kubelet that may run no pods does not become healthy.
    fn is_bad(&self, digest: &str) -> bool {
        let config = self.by_digest.get(digest);
        config.is_some_and(|config| config.spec.kubelet.configuration.get("maxPods") == Some(&json!(0)))
    }
}

fn report(mut status: NodeStateStatus, node: &Node, phase: Phase) -> NodeStateStatus {
    status.phase = phase;
    status.reverted.clone_from(&node.reverted);
    let committed = node.trial.is_none();
    let current = || Current { digest: node.current.clone(), generation: 0, source: "nodeState".to_owned(), committed };
    status.current = (!node.current.is_empty()).then(current);
    status
}

/// The status as a merge patch: what it does not have is removed.
fn null_absent(status: &NodeStateStatus) -> serde_json::Value {
    let mut value = serde_json::to_value(status).expect("a status serializes to JSON");
    for field in ["message", "effect", "requests", "reverted"] {
        if value.get(field).is_none() {
            value[field] = serde_json::Value::Null;
        }
    }
    value
}
