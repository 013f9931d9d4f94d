//! The end without success of a rollout with an image version.

use std::cmp::Reverse;

use kiln_fleet_api::{Effect, OnFailure, RolloutPhase, condition};

use crate::decision::Act;
use crate::replace;
use crate::stop::is_only_drains;
use crate::turn::{Progress, State};
use crate::work::{Start, Work};

/// Stops after a failure: nodes in flight keep their machines, the version is rejected, and machines of that version are replaced, if requested.
pub(crate) fn fail(work: &mut Work<'_>) {
    // A blocked drain says nothing about the version, and without its rejection new machines would be of the same version.
    let returns = work.rollout.spec.on_failure == OnFailure::RollBack && !is_only_drains(work);
    let rejected = is_only_drains(work) || reject(work);
    if !returns || !work.is_returning() {
        withdraw(work);
        if returns {
            work.status.phase = RolloutPhase::RollingBack;
        } else if rejected && work.status.replacements.is_empty() {
            work.status.phase = RolloutPhase::Halted;
            work.remark = surplus(work);
        }
        return;
    }
    if work.turns.iter().any(|turn| matches!(turn.state, State::Lost(_))) {
        withdraw(work);
        work.status.phase = RolloutPhase::Halted;
        work.remark =
            "; not all nodes returned to the previous version: run `kiln prototype refresh` when they can be drained";
        return;
    }
    if !rejected {
        return;
    }
    start_returns(work);
    replace::proceed(work);
    replace::grow(work);
    let is_left = work.turns.iter().any(|turn| turn.in_flight || matches!(turn.state, State::Updated));
    let has_unjoined = remove_unjoined(work);
    if !is_left && !has_unjoined && work.status.replacements.is_empty() {
        work.status.phase = RolloutPhase::RolledBack;
    }
}

/// Finishes nodes in flight that are cordoned; the others keep their machines.
pub(crate) fn finish(work: &mut Work<'_>) {
    for index in 0..work.turns.len() {
        let turn = &work.turns[index];
        let waits = matches!(
            turn.state,
            State::Busy(Progress::Replacing { removing: false })
                | State::Returning(Progress::Replacing { removing: false })
        );
        if waits && !turn.node.held {
            drop_entry(work, index);
        }
    }
    replace::proceed(work);
    work.remark = surplus(work);
}

/// Gives up the nodes in flight whose machines are not being deleted.
fn withdraw(work: &mut Work<'_>) {
    for index in 0..work.turns.len() {
        let turn = &work.turns[index];
        let (held, name) = (turn.node.held, turn.node.name.clone());
        match turn.state {
            State::Busy(Progress::Replacing { removing: false })
            | State::Returning(Progress::Replacing { removing: false }) => {
                drop_entry(work, index);
                if held {
                    work.acts.push(Act::Release { node: name });
                }
            }
            State::Busy(Progress::Replacing { removing: true })
            | State::Returning(Progress::Replacing { removing: true }) => work.acts.push(Act::Remove { node: name }),
            _ => {}
        }
    }
}

fn drop_entry(work: &mut Work<'_>, index: usize) {
    let name = &work.turns[index].node.name;
    work.status.replacements.retain(|entry| entry.node != *name);
    work.end(index, State::Candidate { intended: false });
}

/// Starts the replacement of machines of the rejected version: those that are unavailable first, then the newest.
fn start_returns(work: &mut Work<'_>) {
    let turns = work.turns.iter().enumerate().filter(|(_, turn)| matches!(turn.state, State::Updated));
    let mut order: Vec<_> =
        turns.map(|(index, turn)| (turn.node.is_available(), Reverse(turn.node.ready_since), index)).collect();
    order.sort_unstable();
    for (_, _, index) in order {
        if work.start(index, Some(Effect::Replace), Start::Assign) {
            replace::begin(work, index, 0);
        }
    }
}

/// Deletes machines of the rejected version that have not joined, and returns whether there are any, or whether that is not known.
fn remove_unjoined(work: &mut Work<'_>) -> bool {
    let mut is_left = false;
    for pool in &work.observed.pools {
        is_left |= pool.capacity.is_none() || !pool.unjoined.is_empty();
        if !pool.unjoined.is_empty() {
            work.acts.push(Act::RemoveUnjoined { pool: pool.name.clone(), version: work.status.digest.clone() });
        }
    }
    is_left
}

/// Rejects the version on the pools. Returns whether all of them show it.
fn reject(work: &mut Work<'_>) -> bool {
    let version = work.status.digest.clone();
    let ready = work.status.conditions.iter().find(|condition| condition.type_ == condition::READY);
    let first = work.status.failures.first().map(|failure| format!("node `{}`: {}", failure.node, failure.reason));
    let reason = first.or_else(|| ready.map(|condition| condition.message.clone())).unwrap_or_default();
    let reason = format!("Rollout `{}`: {reason}", work.rollout.name);
    let open = work.observed.pools.iter().filter(|pool| !pool.rejected.contains(&version));
    let acts: Vec<Act> = open
        .map(|pool| Act::RejectVersion { pool: pool.name.clone(), version: version.clone(), reason: reason.clone() })
        .collect();
    let is_done = acts.is_empty();
    work.acts.extend(acts);
    is_done
}

/// The remark about machines that were added for nodes that were not replaced.
fn surplus(work: &Work<'_>) -> &'static str {
    let is_larger = |pool: &crate::PoolObserved| {
        let wanted = work.status.sizes.get(&pool.name).map(|size| size.wanted);
        pool.capacity.zip(wanted).is_some_and(|(capacity, wanted)| capacity > wanted)
    };
    if work.observed.pools.iter().any(is_larger) {
        "; a pool has more machines than before: scale it in or wait for the autoscaler"
    } else {
        ""
    }
}
