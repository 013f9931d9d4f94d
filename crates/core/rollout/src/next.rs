//! The order in which a decision is made.

use jiff::Timestamp;
use kiln_fleet_api::{RolloutPhase, RolloutStatus, Verdict};

use crate::decision::{Act, Decision};
use crate::observed::{Observed, Rollout};
use crate::work::Work;
use crate::{advance, forward, replace, report, stop};

/// Returns what the operator does next. The result depends only on the arguments. Calling it again with the returned status repeats the acts, as far as they
/// still fit into the budgets one by one; it never does anything else.
///
/// 1. Nodes that ended are recorded and released.
/// 2. If a failure limit is reached, or a person aborted the rollout, it stops: nodes return or are withdrawn.
/// 3. Otherwise nodes that wait for consent get it, and new nodes are started, as far as windows and budgets permit.
pub fn next(rollout: &Rollout<'_>, observed: &Observed, now: Timestamp) -> Decision {
    decide(rollout, observed, now, rollout.status, None)
}

fn decide(
    rollout: &Rollout<'_>,
    observed: &Observed,
    now: Timestamp,
    before: &RolloutStatus,
    gate: Option<String>,
) -> Decision {
    let mut work = Work::new(rollout, observed, now);
    if rollout.status.phase.is_final() {
        // Whatever an operator that died left behind.
        let held = work.turns.iter().filter(|turn| turn.node.held);
        let acts: Vec<Act> = held.map(|turn| Act::Release { node: turn.node.name.clone() }).collect();
        return Decision { acts, status: rollout.status.clone(), ..Decision::default() };
    }
    if rollout.is_image() {
        replace::settle(&mut work);
    }
    advance::settle(&mut work);
    let limit = stop::reached_limit(&mut work).or(gate);
    let is_stopped = work.status.phase == RolloutPhase::RollingBack
        || work.status.waves.iter().any(|wave| wave.verdict == Verdict::Failed);
    if rollout.spec.aborted {
        stop::abort(&mut work);
    } else if is_stopped {
        stop::fail(&mut work);
    } else if let Some(reason) = forward::run(&mut work) {
        // A wave failed its gates. The decision begins again, because its acts were those of a rollout that continues.
        let Work { status, mut notices, .. } = work;
        let mut decision = decide(&Rollout { status: &status, ..*rollout }, observed, now, before, Some(reason));
        notices.append(&mut decision.notices);
        return Decision { notices, ..decision };
    }
    report::finish(work, before, limit)
}
