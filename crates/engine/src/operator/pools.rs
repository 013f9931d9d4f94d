//! Pools: a NodeState for every node, the document of new nodes, and the status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kiln_fleet_api::{Condition, Desired, NodeState, Pool, PoolStatus, condition};
use serde_json::{Value, json};

use super::documents::Documents;
use super::index::{Index, is_frozen, is_owned, state_of};
use super::observe::{is_cordoned, is_open, is_ready, pool_target};
use super::stores::Snapshots;

/// Whether nodes of the pool differ from its target although no rollout is under way.
const DRIFTED: &str = "Drifted";
const PAUSED: &str = "Paused";
/// Names in a message.
const LISTED: usize = 10;

/// A write to the NodeState of a node.
#[derive(Debug, PartialEq)]
pub(super) enum StateWrite {
    Create(Box<NodeState>),
    Patch(Value),
}

/// The write that a node of a pool needs: its NodeState exists, belongs to this Node, and has a document.
///
/// A new node gets the last complete target of its pool, and never the target of a rollout that is under way.
pub(super) fn plan_state(
    node: &Node,
    pool: &Pool,
    view: &Snapshots,
    documents: &Documents,
    now: Timestamp,
) -> Option<StateWrite> {
    let (name, uid) = (node.metadata.name.clone()?, node.metadata.uid.clone()?);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.clone(),
        uid,
        ..OwnerReference::default()
    };
    let desired = initial(pool, view, documents, now);
    match view.states.get(&name) {
        None => {
            let mut state = NodeState::default();
            state.metadata.name = Some(name);
            state.metadata.owner_references = Some(vec![owner]);
            state.spec.desired = desired;
            Some(StateWrite::Create(Box::new(state)))
        }
        // The garbage collector deletes it, too; whichever is first.
        Some(state) if !is_owned(state, node) => Some(StateWrite::Patch(json!({
            "metadata": {"ownerReferences": [owner], "annotations": null},
            "spec": {"desired": desired, "allow": null, "reboot": null},
        }))),
        Some(state) if state.spec.desired.is_none() => Some(StateWrite::Patch(json!({"spec": {"desired": desired?}}))),
        Some(_) => None,
    }
}

/// The document of a new node.
fn initial(pool: &Pool, view: &Snapshots, documents: &Documents, now: Timestamp) -> Option<Desired> {
    if is_frozen(&view.freezes, pool.metadata.name.as_deref()?, now) {
        return None;
    }
    let target = pool_target(pool, documents)?;
    let is_rejected = pool.status.as_ref().is_some_and(|status| status.rejected.contains(&target.digest));
    (!is_rejected).then(|| Desired {
        node_config: target.node_config,
        digest: target.digest,
        rollout: String::new(),
        wave: 0,
        since: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

/// The status of a pool.
pub(super) fn pool_status(
    name: &str,
    pool: &Pool,
    view: &Snapshots,
    index: &Index,
    documents: &Documents,
    now: Timestamp,
) -> PoolStatus {
    let mut status = pool.status.clone().unwrap_or_default();
    let nodes: Vec<&Node> =
        index.nodes_of(name).iter().filter_map(|node| view.nodes.get(node)).map(|node| &**node).collect();
    let target = pool_target(pool, documents);
    let is_current = |node: &Node| {
        let current = state_of(&view.states, node).and_then(|state| state.status.as_ref()?.current.as_ref());
        let digest = target.as_ref().map(|target| &target.digest);
        current.is_some_and(|current| current.committed && Some(&current.digest) == digest)
    };
    let other: Vec<&str> =
        nodes.iter().filter(|node| !is_current(node)).filter_map(|node| node.metadata.name.as_deref()).collect();
    status.observed_generation = pool.metadata.generation;
    status.nodes = count(nodes.len());
    status.up_to_date = count(nodes.len() - other.len());
    status.unavailable = count(nodes.iter().filter(|node| !is_ready(node) || is_cordoned(node)).count());

    let rollout =
        view.rollouts.values().find(|rollout| is_open(rollout) && rollout.spec.pools.iter().any(|pool| pool == name));
    let rollout = rollout.and_then(|rollout| rollout.metadata.name.as_deref());
    let drifted = match (&target, rollout) {
        (None, _) => (false, "NoTarget", "no Rollout has completed, and `spec.nodeConfig` is not set".to_owned()),
        (Some(_), Some(rollout)) => (false, "RolloutOpen", format!("Rollout `{rollout}` is open")),
        (Some(_), None) if other.is_empty() => (false, "UpToDate", "all nodes have the target".to_owned()),
        (Some(target), None) => {
            let message = format!(
                "{} nodes do not have NodeConfig `{}`: {}; create a Rollout with it",
                other.len(),
                target.node_config,
                list(&other)
            );
            (true, "NodesDiffer", message)
        }
    };
    let ready = readiness(name, pool, index, documents);
    let paused = if pool.spec.paused {
        (true, "Paused", "no Rollout starts a node; set `spec.paused` to false to continue".to_owned())
    } else {
        (false, "Active", "rollouts start nodes".to_owned())
    };
    for (type_, (is_true, reason, message)) in [(condition::READY, ready), (DRIFTED, drifted), (PAUSED, paused)] {
        set_condition(&mut status.conditions, type_, is_true, reason, message, pool.metadata.generation, now);
    }
    status
}

/// Whether the pool is valid.
fn readiness(name: &str, pool: &Pool, index: &Index, documents: &Documents) -> (bool, &'static str, String) {
    if let Some((node, other)) = index.overlaps(name).first() {
        let message = format!(
            "{} of its nodes also belong to Pool `{other}`, such as `{node}`, and count only there; change `nodeSelector` of one of them",
            index.overlaps(name).len()
        );
        return (false, "Overlap", message);
    }
    let document = pool.spec.node_config.as_ref().map(|config| (config, documents.get(config)));
    match document {
        Some((config, None)) => {
            (false, "NoNodeConfig", format!("NodeConfig `{config}` does not exist; create it or change `nodeConfig`"))
        }
        Some((config, Some(Err(error)))) => {
            (false, "InvalidNodeConfig", format!("NodeConfig `{config}` is invalid: {error}"))
        }
        _ => (true, "Selected", format!("{} nodes", index.nodes_of(name).len())),
    }
}

/// Sets a condition; its time changes only with its status.
pub(super) fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    is_true: bool,
    reason: &str,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) {
    let new = Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        observed_generation: generation,
    };
    Condition::set(conditions, new);
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The first names of a list, and how many more there are.
fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(LISTED);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
