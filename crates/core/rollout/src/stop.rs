//! The end without success: a failure limit, a rollback, an abort.

use std::cmp::Reverse;
use std::collections::HashSet;

use kiln_fleet_api::{Effect, OnFailure, RolloutPhase, Verdict};

use crate::decision::Act;
use crate::observed::ResolvedTarget;
use crate::turn::{DRAIN_FAILED, Progress, State};
use crate::wait::nodes;
use crate::work::{Start, Work};
use crate::{advance, replace_stop};

/// Marks the wave under way as failed if a failure limit is reached. Returns the limit as text.
pub(crate) fn reached_limit(work: &mut Work<'_>) -> Option<String> {
    let limits = &work.rollout.policy.failure;
    let failed = work.status.failed_nodes.len();
    let in_first = work.status.waves.first().map_or(0, |wave| wave.failed);
    let percent = limits.percent.filter(|percent| failed * 100 >= *percent as usize * work.turns.len().max(1));
    let reason = if failed >= limits.nodes as usize {
        format!("{} failed; the limit is {}", nodes(failed), limits.nodes)
    } else if in_first >= i64::from(limits.in_first_wave) {
        let in_first = usize::try_from(in_first).unwrap_or_default();
        format!("{} of the first wave failed; the limit is {}", nodes(in_first), limits.in_first_wave)
    } else if let Some(percent) = percent.filter(|_| failed > 0) {
        format!("{failed} of {} nodes failed; the limit is {percent} %", work.turns.len())
    } else {
        return None;
    };
    let first = work.status.failures.first().map(|failure| format!("; node `{}`: {}", failure.node, failure.reason));
    let waves = &mut work.status.waves;
    let current = waves.iter().rposition(|wave| wave.started_at.is_some()).unwrap_or_default();
    if let Some(wave) = waves.get_mut(current) {
        wave.verdict = Verdict::Failed;
    }
    Some(format!("{reason}{}", first.unwrap_or_default()))
}

/// Stops after a failure: nodes in flight that changed are finished, the others are withdrawn, and updated nodes return, if requested.
pub(crate) fn fail(work: &mut Work<'_>) {
    if work.rollout.is_image() {
        return replace_stop::fail(work);
    }
    let returns = work.rollout.spec.on_failure == OnFailure::RollBack;
    if returns {
        work.status.phase = RolloutPhase::RollingBack;
    }
    let rejected = reject(work);
    finish(work, true);
    if returns {
        return_nodes(work);
    }
    let is_left = |index: usize| returns && work.turns[index].is_forward() && !is_kept(work, index);
    let is_open = (0..work.turns.len()).any(|index| work.turns[index].in_flight || is_left(index));
    if is_open || !rejected {
        return;
    }
    let is_lost = work.turns.iter().any(|turn| matches!(turn.state, State::Lost(_)));
    let had_previous = work.observed.pools.iter().all(|pool| previous(work, &pool.name).is_some());
    let has_returned = returns && !is_lost && had_previous;
    if returns && is_lost {
        work.remark = "; not all nodes returned to the previous target";
    } else if returns && !had_previous {
        work.remark = "; a pool has no previous target to return to";
    }
    work.status.phase = if has_returned { RolloutPhase::RolledBack } else { RolloutPhase::Halted };
}

/// Stops because a person asked for it: nodes that are cordoned are finished, and `onFailure` is not carried out.
pub(crate) fn abort(work: &mut Work<'_>) {
    if work.rollout.is_image() {
        replace_stop::finish(work);
    } else {
        finish(work, false);
    }
    if !work.turns.iter().any(|turn| turn.in_flight) {
        work.status.phase = RolloutPhase::Aborted;
    }
}

/// Finishes nodes in flight. Nodes that wait for consent are withdrawn; those that are already held only if the document is known to be bad.
fn finish(work: &mut Work<'_>, is_bad: bool) {
    work.drop_intents();
    let is_withdrawn = |work: &Work<'_>, index: usize| {
        let turn = &work.turns[index];
        let asks = matches!(turn.state, State::Busy(Progress::Asking(_)));
        asks && (is_bad || !turn.node.held) && !has_changed(work, index)
    };
    let (withdrawn, others): (Vec<_>, Vec<_>) = (0..work.turns.len()).partition(|index| is_withdrawn(work, *index));
    for index in withdrawn {
        withdraw(work, index);
    }
    for index in others {
        advance::consent(work, index);
    }
}

/// Whether the node may already have applied the target.
fn has_changed(work: &Work<'_>, index: usize) -> bool {
    let node = work.turns[index].node;
    let Some(desired) = &node.desired else { return false };
    node.allow.as_ref() == Some(&desired.digest)
        || node.status.current.as_ref().is_some_and(|current| current.digest == desired.digest)
}

/// Removes the target from a node that has not applied it.
fn withdraw(work: &mut Work<'_>, index: usize) {
    let node = work.turns[index].node;
    if node.held {
        work.acts.push(Act::Release { node: node.name.clone() });
        return;
    }
    work.drop_hold(index);
    hand_over(work, index);
}

/// Assigns the previous target, or none.
fn hand_over(work: &mut Work<'_>, index: usize) {
    let node = work.turns[index].node;
    if let Some(target) = previous(work, &node.pool) {
        work.assign(index, &target, work.turns[index].wave);
    } else {
        work.acts.push(Act::Unassign { node: node.name.clone() });
        work.turns[index].in_flight = false;
    }
}

/// Returns updated and failed nodes to the previous target, newest first. Intents of earlier decisions come before all others.
fn return_nodes(work: &mut Work<'_>) {
    let mut order: Vec<_> = (work.turns.iter().enumerate())
        .filter(|(index, turn)| {
            matches!(turn.state, State::Updated | State::Failed(_)) && !turn.node.held && !is_kept(work, *index)
        })
        .map(|(index, turn)| {
            let since = turn.node.desired.as_ref().map(|desired| desired.since.as_str()).unwrap_or_default();
            (Reverse(turn.in_flight), Reverse(since), index)
        })
        .collect();
    order.sort_unstable();
    let order: Vec<usize> = order.into_iter().map(|(_, _, index)| index).collect();
    for index in order {
        let node = work.turns[index].node;
        let in_force = node.status.current.as_ref().map(|current| &current.digest);
        let target = previous(work, &node.pool);
        // A node that reverted by itself already has the previous document.
        let is_there = target.as_ref().is_some_and(|target| in_force == Some(&target.digest));
        if work.start(index, is_there.then_some(Effect::None), Start::Assign) {
            hand_over(work, index);
        }
    }
}

/// Whether a node keeps the target, because it is also the previous one.
fn is_kept(work: &Work<'_>, index: usize) -> bool {
    let node = work.turns[index].node;
    let before = work.status.previous.get(&node.pool).and_then(|target| target.digest.as_ref());
    before == Some(&work.status.digest)
}

/// The target to which the nodes of a pool return.
fn previous(work: &Work<'_>, pool: &str) -> Option<ResolvedTarget> {
    let target = work.status.previous.get(pool)?;
    let digest = target.digest.clone().filter(|digest| *digest != work.status.digest)?;
    Some(ResolvedTarget { node_config: target.node_config.clone(), digest })
}

/// Whether all failures are blocked drains.
pub(crate) fn is_only_drains(work: &Work<'_>) -> bool {
    let failures = &work.status.failures;
    !failures.is_empty() && failures.iter().all(|failure| failure.reason.starts_with(DRAIN_FAILED))
}

/// Rejects the digest on the pools whose nodes failed. Returns whether all of them show it.
fn reject(work: &mut Work<'_>) -> bool {
    // A blocked drain says nothing about the document, which may be rolled out again.
    if is_only_drains(work) {
        return true;
    }
    let status = &work.status;
    let failed: HashSet<&str> = status.failed_nodes.iter().map(String::as_str).collect();
    let nodes = work.turns.iter().map(|turn| turn.node).filter(|node| failed.contains(node.name.as_str()));
    let guilty: HashSet<&str> = nodes.map(|node| node.pool.as_str()).collect();
    let has_rejected = |rejected: &[String]| rejected.contains(&status.digest);
    // The failed nodes were deleted after their pool showed the digest.
    if guilty.is_empty() && !failed.is_empty() && work.observed.pools.iter().any(|pool| has_rejected(&pool.rejected)) {
        return true;
    }
    let acts: Vec<Act> = (work.observed.pools.iter())
        .filter(|pool| guilty.is_empty() || guilty.contains(pool.name.as_str()))
        .filter(|pool| !has_rejected(&pool.rejected))
        .map(|pool| Act::RejectDigest { pool: pool.name.clone(), digest: status.digest.clone() })
        .collect();
    let is_done = acts.is_empty();
    work.acts.extend(acts);
    is_done
}
