//! Nodes in flight: the steps of one turn, and its end.

use kiln_fleet_api::{NodeFailure, RequestedAction};

use crate::decision::{Act, Severity};
use crate::observed::DrainState;
use crate::turn::{NOT_READY_LIMIT, Progress, State};
use crate::work::{Start, Work};
use crate::{replace, time};

/// Failures with their reasons in the status; more would make the object large.
const LISTED_FAILURES: usize = 10;

/// Records the nodes that ended and releases what they do not need any more.
pub(crate) fn settle(work: &mut Work<'_>) {
    for name in std::mem::take(&mut work.gone) {
        let message = format!("node `{name}` was deleted during its turn; its place is free");
        work.notice(Severity::Normal, "NodeGone", message, Some(&name));
    }
    for index in 0..work.turns.len() {
        let turn = &work.turns[index];
        let (node, wave) = (turn.node, turn.wave);
        match &turn.state {
            State::Failed(Some(reason)) => {
                let failure = NodeFailure { node: node.name.clone(), reason: reason.clone() };
                let message = format!("node `{}` failed: {reason}", node.name);
                work.notice(Severity::Warning, "NodeFailed", message, Some(&node.name));
                work.status.failed_nodes.push(node.name.clone());
                if work.status.failures.len() < LISTED_FAILURES {
                    work.status.failures.push(failure);
                }
                if let Some(wave) = wave.checked_sub(1).and_then(|index| work.status.waves.get_mut(index)) {
                    wave.failed += 1;
                }
            }
            State::Lost(Some(reason)) => {
                let message = format!("node `{}` did not return to the previous target: {reason}", node.name);
                work.notice(Severity::Warning, "NodeNotReturned", message, Some(&node.name));
            }
            _ => {}
        }
        release(work, index);
        deadlines(work, index);
    }
}

/// Ends the hold of a node that is not in flight.
fn release(work: &mut Work<'_>, index: usize) {
    let turn = &work.turns[index];
    let node = turn.node;
    let is_ours = node.desired.as_ref().is_some_and(|desired| desired.rollout == work.rollout.name);
    let is_left = node.held || is_ours && (node.allow.is_some() || node.reboot.is_some());
    if is_left && !matches!(turn.state, State::Busy(_) | State::Returning(_)) {
        work.acts.push(Act::Release { node: node.name.clone() });
    }
}

/// Wakes the operator when a limit of the node passes.
fn deadlines(work: &mut Work<'_>, index: usize) {
    if work.rollout.is_image() {
        return replace::deadlines(work, index);
    }
    let turn = &work.turns[index];
    let (node, policy) = (turn.node, work.rollout.policy);
    let since = node.desired.as_ref().and_then(|desired| time::parse(&desired.since)).max(node.written);
    let (State::Busy(progress) | State::Returning(progress)) = &turn.state else {
        if matches!(turn.state, State::Updated) && !node.ready {
            work.wake_at(time::add(node.ready_changed(work.now), NOT_READY_LIMIT));
        }
        return;
    };
    let gate = match progress {
        Progress::Gated(closed) => closed.until,
        _ => None,
    };
    let limit = match (progress, &node.drain) {
        (Progress::Asking(_), DrainState::Running { since }) => Some(time::add(*since, policy.drain_timeout)),
        (Progress::Asking(_), _) => None,
        _ => since.map(|since| time::add(since, policy.node_timeout)),
    };
    let broken = (matches!(progress, Progress::Gated(_)) && !node.ready)
        .then(|| time::add(node.ready_changed(work.now), NOT_READY_LIMIT));
    for time in [gate, limit, broken].into_iter().flatten() {
        work.wake_at(time);
    }
}

/// Takes the next step of a node that waits for the operator.
pub(crate) fn consent(work: &mut Work<'_>, index: usize) {
    let turn = &work.turns[index];
    let (node, effect) = (turn.node, turn.effect);
    let (State::Busy(Progress::Asking(action)) | State::Returning(Progress::Asking(action))) = &turn.state else {
        return;
    };
    let action = *action;
    let Some(digest) = node.desired.as_ref().map(|desired| desired.digest.clone()) else { return };
    let name = node.name.clone();
    if action == RequestedAction::Apply {
        if work.start(index, effect, Start::Consent) {
            work.acts.push(Act::Allow { node: name, digest });
        }
        return;
    }
    match (node.held, &node.drain) {
        (false, _) => {
            if work.start(index, effect, Start::Consent) {
                work.acts.push(Act::Drain { node: name });
            }
        }
        // The operator died between the hold and the drain.
        (true, DrainState::None) => work.acts.push(Act::Drain { node: name }),
        (true, DrainState::Done) if node.allow.as_deref() != Some(digest.as_str()) => {
            work.acts.push(Act::Allow { node: name, digest });
        }
        // The document is in force, and its boot is not: otherwise the turn would have consent.
        (true, DrainState::Done) => {
            work.acts.push(Act::Reboot { node: name, boot_id: node.status.boot_id.clone() });
        }
        (true, DrainState::Running { .. } | DrainState::Failed { .. }) => {}
    }
}

/// Takes the next step of all nodes that wait for the operator.
pub(crate) fn consent_all(work: &mut Work<'_>) {
    (0..work.turns.len()).for_each(|index| consent(work, index));
}
