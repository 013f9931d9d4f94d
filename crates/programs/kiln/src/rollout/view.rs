//! What a Rollout means for a person, as values.

use kiln_fleet_api::{
    NodeFailure, NodeState, OnFailure, Rollout, RolloutPhase, RolloutSpec, RolloutStatus, Target, WaitingFor,
    WaveStatus,
};
use kube::ResourceExt as _;
use serde::Serialize;

use crate::fleet::objects::{list, owner, status};

/// One rollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub(super) name: String,
    pub(super) pools: Vec<String>,
    pub(super) target: Target,
    pub(super) phase: RolloutPhase,
    pub(super) paused: bool,
    pub(super) aborted: bool,
    pub(super) plan: String,
    pub(super) waves: Vec<WaveStatus>,
    pub(super) total: i64,
    pub(super) updated: i64,
    pub(super) failed: i64,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) failures: Vec<NodeFailure>,
    pub(super) waiting_for: Option<WaitingFor>,
    pub(super) started_at: Option<String>,
    pub(super) ended_at: Option<String>,
    pub(super) eta: Option<String>,
    pub(super) answers: Answers,
}

/// A node that has started and not ended.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InFlight {
    pub(super) node: String,
    pub(super) phase: String,
    pub(super) effect: String,
    pub(super) message: String,
}

/// The four questions that a person has about a change.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answers {
    pub(super) waiting_for: String,
    pub(super) stop: String,
    pub(super) go_back: String,
    pub(super) owner: String,
}

/// Describes a rollout. `nodes` are the states of its nodes in flight that could be read.
pub(super) fn view(rollout: &Rollout, nodes: &[NodeState]) -> View {
    let status = status(rollout);
    let name = rollout.name_any();
    let mut target = rollout.spec.target.clone();
    if !status.digest.is_empty() {
        target.digest = Some(status.digest.clone());
    }
    let answers = Answers {
        waiting_for: waiting_for(rollout, &status),
        stop: stop(&name, rollout, status.phase),
        go_back: go_back(&name, &rollout.spec, &status),
        owner: owner(rollout),
    };
    View {
        pools: rollout.spec.pools.clone(),
        target,
        phase: status.phase,
        paused: rollout.spec.paused,
        aborted: rollout.spec.aborted,
        plan: status.plan_text,
        waves: status.waves,
        total: status.total,
        updated: status.updated,
        failed: status.failed,
        in_flight: status.in_flight.iter().map(|node| in_flight(node, nodes)).collect(),
        failures: status.failures,
        waiting_for: status.waiting_for,
        started_at: status.started_at,
        ended_at: status.ended_at,
        eta: status.eta,
        answers,
        name,
    }
}

fn in_flight(name: &str, nodes: &[NodeState]) -> InFlight {
    let found = nodes.iter().find(|node| node.name_any() == name).and_then(|node| node.status.as_ref());
    InFlight {
        node: name.to_owned(),
        phase: found.map_or("-", |status| status.phase.as_str()).to_owned(),
        effect: found.and_then(|status| status.effect).map_or_else(|| "-".to_owned(), |effect| effect.to_string()),
        message: found.map(|status| status.message.clone()).unwrap_or_default(),
    }
}

fn waiting_for(rollout: &Rollout, status: &RolloutStatus) -> String {
    if status.phase.is_final() {
        return "nothing, it has ended".to_owned();
    }
    let Some(observed) = status.observed_generation else {
        return "the operator, which has not read it yet; `kubectl get pods -A -l app.kubernetes.io/name=kiln-operator` \
                shows whether one runs"
            .to_owned();
    };
    let unread = if rollout.metadata.generation.is_some_and(|generation| generation > observed) {
        "; the operator has not read the last change of the rollout yet"
    } else {
        ""
    };
    let sentence = match &status.waiting_for {
        Some(waiting) => sentence(waiting),
        None => match status.in_flight.len() {
            0 => "nothing, it is working".to_owned(),
            1 => "1 node in flight".to_owned(),
            count => format!("{count} nodes in flight"),
        },
    };
    format!("{sentence}{unread}")
}

/// The sentence, with the end and the objects that it does not name itself.
fn sentence(waiting: &WaitingFor) -> String {
    let mut text = waiting.message.trim_end_matches('.').to_owned();
    let others: Vec<&String> = waiting.objects.iter().filter(|object| !text.contains(object.as_str())).collect();
    if !others.is_empty() {
        text = format!("{text} ({})", list(&others));
    }
    match &waiting.until {
        Some(until) if !text.contains(until.as_str()) => format!("{text}, until {until}"),
        _ => text,
    }
}

fn stop(name: &str, rollout: &Rollout, phase: RolloutPhase) -> String {
    if phase.is_final() {
        return "it has ended".to_owned();
    }
    if rollout.spec.aborted {
        return "it is aborted and ends when its nodes in flight are finished".to_owned();
    }
    if rollout.spec.paused {
        return format!("it is paused: `kiln rollout resume {name}` continues it, `kiln rollout abort {name}` ends it");
    }
    format!(
        "`kiln rollout pause {name}` finishes the nodes in flight and starts no others; `kiln rollout abort {name}` ends it"
    )
}

fn go_back(name: &str, spec: &RolloutSpec, status: &RolloutStatus) -> String {
    let mut previous: Vec<&str> = status.previous.values().map(Target::name).collect();
    previous.sort_unstable();
    previous.dedup();
    let to = if previous.is_empty() { "the previous target".to_owned() } else { list(&previous) };
    match status.phase {
        RolloutPhase::RolledBack => format!("it is back on {to}"),
        RolloutPhase::RollingBack => format!("it is returning to {to}"),
        RolloutPhase::Pending if previous.is_empty() => "not known until it is planned".to_owned(),
        _ if previous.is_empty() => "its pools had no target before; create a rollout with another document".to_owned(),
        phase if phase.is_final() || spec.aborted => format!("`kiln rollout undo {name}` returns to {to}"),
        _ if spec.on_failure == OnFailure::RollBack => {
            format!("by itself to {to} if too many nodes fail; at any time with `kiln rollout undo {name}`")
        }
        _ => format!("not by itself (`onFailure: Halt`); `kiln rollout undo {name}` returns to {to}"),
    }
}
