//! The status of the NodeState. Pure: what the node knows goes in, the status comes out.

use kiln_node_config::Effect;
use kiln_node_config::node_state::{
    BootTimes, Condition, Current, Desired, GateStatus, NodeStateStatus, Phase, RequestedAction, Requests as Asked,
};
use kiln_node_plan::State;
use kiln_node_plan::labels::node_may_set;

use super::super::progress::GateResult;
use super::super::requests::Requests;
use super::memory::Memory;
use crate::redact::patterns::redact;

/// The longest message. A NodeState is read by every watch of the operator.
const LONGEST: usize = 1024;

/// Everything that the status depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'f> {
    /// `metadata.generation` of the NodeState.
    pub(super) generation: i64,
    pub(super) desired: Option<&'f Desired>,
    pub(super) memory: &'f Memory,
    pub(super) state: &'f State,
    pub(super) requests: &'f Requests,
    /// The action that the assigned document waits for.
    pub(super) needed: Option<RequestedAction>,
    /// The effect of the assigned document.
    pub(super) effect: Option<Effect>,
    /// Whether the assigned document is about to be applied.
    pub(super) is_waiting: bool,
    /// Why the assigned document cannot be read.
    pub(super) problem: Option<&'f str>,
    /// Why the first generation is not healthy.
    pub(super) overdue: Option<&'f str>,
    pub(super) gates: &'f [(String, GateResult)],
    pub(super) boot_id: &'f str,
    pub(super) image_version: &'f str,
    pub(super) boot: Option<&'f BootTimes>,
}

/// The status, with the transition times of the conditions before.
pub(super) fn status(facts: Facts<'_>, before: &[Condition], now: &str) -> NodeStateStatus {
    let (phase, message) = phase(facts);
    let in_force = facts.state.in_force();
    let current = in_force.map(|generation| Current {
        digest: generation.hash.clone(),
        generation: generation.number,
        source: generation.source.clone(),
        committed: facts.state.trial.is_none(),
    });
    let requests = requests(facts, phase);
    let mut conditions = before.to_vec();
    for condition in self::conditions(facts, phase, &message) {
        Condition::set(&mut conditions, Condition { last_transition_time: now.to_owned(), ..condition });
    }
    let reverted = facts.memory.reverted(facts.state);
    NodeStateStatus {
        observed_generation: Some(facts.generation),
        phase,
        message,
        current,
        effect: facts.effect.filter(|_| matches!(phase, Phase::Pending | Phase::Accepted) && !is_in_force(facts)),
        requests,
        gates: if facts.state.trial.is_some() { gates(facts.gates) } else { Vec::new() },
        reverted: reverted.map(|mut reverted| {
            reverted.reason = clean(&reverted.reason);
            reverted
        }),
        boot_id: facts.boot_id.to_owned(),
        image_version: facts.image_version.to_owned(),
        kilnd: env!("CARGO_PKG_VERSION").to_owned(),
        boot: facts.boot.filter(|boot| **boot != BootTimes::default()).cloned(),
        conditions,
    }
}

fn is_in_force(facts: Facts<'_>) -> bool {
    let digest = facts.desired.map(|desired| &desired.digest);
    digest.is_some() && facts.state.in_force().map(|now| &now.hash) == digest
}

/// Whether the document in force waits for a reboot.
fn waits_for_reboot(facts: Facts<'_>) -> bool {
    let waiting = facts.requests.restart.as_ref();
    waiting.is_some_and(|(pending, _)| facts.state.in_force().is_some_and(|now| now.hash == pending.hash))
}

fn phase(facts: Facts<'_>) -> (Phase, String) {
    let Some(desired) = facts.desired else { return (Phase::Idle, String::new()) };
    let document = format!("NodeConfig `{}`", desired.node_config);
    if let Some(reason) = facts.memory.failure() {
        return (Phase::Reverted, clean(reason));
    }
    if is_in_force(facts) {
        return match (waits_for_reboot(facts), facts.state.trial.is_some(), facts.overdue) {
            (true, ..) => (Phase::Pending, format!("{document} is in force and waits for a reboot")),
            (_, true, Some(why)) => {
                (Phase::OnTrial, clean(&format!("not healthy ({why}), and no earlier generation exists")))
            }
            (_, true, None) => (Phase::OnTrial, format!("{document} is in force, on trial")),
            _ => (Phase::Current, String::new()),
        };
    }
    if let Some(needed) = facts.needed {
        let what = match needed {
            RequestedAction::Apply => "permission: its `spec.update` lets the node do less by itself",
            RequestedAction::Drain => "a drain",
            RequestedAction::Reboot => "a drain and a reboot",
            RequestedAction::Replace => "a new node",
        };
        return (Phase::Pending, format!("{document} waits for {what}"));
    }
    if facts.is_waiting {
        let why = if facts.state.trial.is_some() { "waits for the end of another trial" } else { "is being applied" };
        return (Phase::Accepted, format!("{document} {why}"));
    }
    match (facts.problem, facts.memory.applied.as_ref() == facts.memory.assignment().as_ref()) {
        (Some(problem), _) => (Phase::Idle, clean(problem)),
        (None, true) => (Phase::Idle, "another document was applied on the node".to_owned()),
        (None, false) => (Phase::Idle, format!("{document} was not read yet")),
    }
}

fn requests(facts: Facts<'_>, phase: Phase) -> Asked {
    let foreign = facts.requests.labels.iter().filter(|(key, _)| !node_may_set(key));
    let (labels, taints) =
        (foreign.map(|(key, value)| (key.clone(), value.clone())).collect(), facts.requests.taints.clone());
    // A reboot is also requested for a document that the NodeState did not assign.
    let reboot = facts.requests.restart.as_ref().filter(|_| waits_for_reboot(facts));
    let (action, digest) = match (facts.desired, reboot) {
        (Some(desired), _) if phase == Phase::Pending && !is_in_force(facts) => (facts.needed, desired.digest.clone()),
        (_, Some((pending, _))) => (Some(RequestedAction::Reboot), pending.hash.clone()),
        _ => (None, String::new()),
    };
    Asked { action, digest, labels, taints }
}

fn gates(results: &[(String, GateResult)]) -> Vec<GateStatus> {
    let gate = |(name, result): &(String, GateResult)| {
        let message = match result {
            GateResult::Passed => String::new(),
            GateResult::Failed(why) | GateResult::Unknown(why) => clean(why),
        };
        GateStatus { name: name.clone(), passed: *result == GateResult::Passed, message }
    };
    results.iter().map(gate).collect()
}

/// The conditions without times.
fn conditions(facts: Facts<'_>, phase: Phase, message: &str) -> [Condition; 4] {
    let word = |yes: bool| if yes { "True" } else { "False" };
    let (configured, reason) = match (phase, facts.state.in_force()) {
        (Phase::OnTrial, _) => ("Unknown", "OnTrial"),
        (Phase::Idle, None) => ("False", "NoDocument"),
        (Phase::Idle, _) if facts.desired.is_some() => ("False", "NotRead"),
        (Phase::Idle, _) if facts.state.trial.is_some() => ("Unknown", "OnTrial"),
        (Phase::Current | Phase::Idle, _) => ("True", "Committed"),
        (Phase::Accepted | Phase::Pending | Phase::Reverted, _) => ("False", phase.as_str()),
    };
    let condition = |type_: &str, status: &str, reason: &str, message: &str| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: String::new(),
        observed_generation: Some(facts.generation),
    };
    let of_phase = |type_: &str, is_true: bool| {
        let (reason, message) = if is_true { (type_, message) } else { (phase.as_str(), "") };
        condition(type_, word(is_true), reason, message)
    };
    [
        condition("Configured", configured, reason, message),
        of_phase("OnTrial", facts.state.trial.is_some()),
        of_phase("Pending", phase == Phase::Pending),
        of_phase("Reverted", phase == Phase::Reverted),
    ]
}

/// A message in one line, without what looks like a secret.
fn clean(text: &str) -> String {
    redact(text).replace('\n', " ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests;
