//! The way forward: plan, start, watch and judge waves.

use kiln_fleet_api::{Effect, Replacement, RolloutPhase, Target, Verdict, WaitingFor};

use crate::decision::Act;
use crate::gate;
use crate::observed::{Problem, ResolvedTarget};
use crate::turn::State;
use crate::wait;
use crate::work::{Start, Work};
use crate::{advance, replace, time, wave};

/// How often a query without a sample is repeated.
const QUERY_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// The verdict of a wave's queries.
enum Judgement {
    Passed,
    Failed(String),
    Waits(WaitingFor),
}

/// Continues the rollout. Returns why it has to stop, if a wave failed its gates.
pub(crate) fn run(work: &mut Work<'_>) -> Option<String> {
    let is_image = work.rollout.is_image();
    if !is_image {
        advance::consent_all(work);
    }
    let target = match resolve(work) {
        Ok(target) => target,
        Err(problem) => {
            work.wait = Some(wait::reference(problem));
            return None;
        }
    };
    work.status.digest.clone_from(&target.digest);
    if let Some(wait) = refusal(work) {
        work.wait = Some(wait);
        return None;
    }
    if work.status.phase == RolloutPhase::Pending {
        work.status.phase = RolloutPhase::Progressing;
        let pools = work.observed.pools.iter();
        let previous = pools.filter_map(|pool| Some((pool.name.clone(), pool.previous.as_ref()?)));
        work.status.previous = previous
            .map(|(pool, target)| {
                let document = || Target::document(&target.node_config, Some(target.digest.clone()));
                (pool, if is_image { Target::image(&target.node_config) } else { document() })
            })
            .collect();
    }
    wave::plan(work);
    let mut candidates = wave::candidates(work);
    let failed = waves(work, &target, &mut candidates);
    if is_image && failed.is_none() {
        replace::proceed(work);
        replace::grow(work);
    }
    failed
}

/// Starts and judges waves, one after the other. Returns why the rollout has to stop.
fn waves(work: &mut Work<'_>, target: &ResolvedTarget, candidates: &mut Vec<usize>) -> Option<String> {
    loop {
        let Some(index) = work.status.waves.iter().position(|wave| wave.verdict != Verdict::Passed) else {
            complete(work, target);
            return None;
        };
        if work.status.waves[index].done_at.is_none() && !fill(work, index, target, candidates) {
            return None;
        }
        match judge(work, index) {
            Judgement::Passed => work.status.waves[index].verdict = Verdict::Passed,
            Judgement::Waits(wait) => {
                work.wait = Some(wait);
                return None;
            }
            Judgement::Failed(reason) => {
                work.status.waves[index].verdict = Verdict::Failed;
                return Some(reason);
            }
        }
    }
}

/// Returns the target, or why nothing may start.
fn resolve(work: &Work<'_>) -> Result<ResolvedTarget, Problem> {
    let target = work.observed.target.clone()?;
    let name = &target.node_config;
    let problem = |message: String, object: &str| Err(Problem { message, objects: vec![object.to_owned()] });
    let wanted = [work.rollout.spec.target.digest.as_deref(), Some(work.status.digest.as_str())];
    if let Some(wanted) = wanted.into_iter().flatten().find(|wanted| !wanted.is_empty() && *wanted != target.digest) {
        if work.rollout.is_image() {
            let message = format!(
                "ImageVersion `{name}` is version `{}`, and this Rollout started with `{wanted}`; create another Rollout",
                target.digest
            );
            return problem(message, name);
        }
        let message = format!(
            "NodeConfig `{name}` has the digest `{}` instead of `{wanted}`; create a Rollout for the new document",
            target.digest
        );
        return problem(message, name);
    }
    match work.observed.pools.iter().find(|pool| pool.rejected.contains(&target.digest)) {
        Some(pool) if work.rollout.is_image() => {
            let message = format!(
                "version `{}` is rejected on pool `{}`; create a version with another prototype run, and a Rollout for it",
                target.digest, pool.name
            );
            problem(message, &pool.name)
        }
        Some(pool) => {
            let message = format!(
                "the document of NodeConfig `{name}` failed on pool `{}` before; create a NodeConfig with a corrected document and a Rollout for it",
                pool.name
            );
            problem(message, &pool.name)
        }
        None => Ok(target),
    }
}

/// Returns why the rollout may not start or continue at all.
fn refusal(work: &Work<'_>) -> Option<WaitingFor> {
    if !work.observed.older_rollouts.is_empty() {
        return Some(wait::older(&work.observed.older_rollouts));
    }
    if work.turns.is_empty() {
        return Some(wait::no_nodes(&work.rollout.spec.pools));
    }
    let (is_image, forbids) = (work.rollout.is_image(), work.rollout.spec.replacement == Replacement::Never);
    if is_image && !forbids {
        return None;
    }
    let limit = if forbids { Effect::Drain } else { Effect::Replace };
    let too_much = work.turns.iter().filter(|turn| {
        let effect = if is_image { turn.effect } else { turn.node.expected_effect };
        matches!(turn.state, State::Candidate { .. }) && effect.is_some_and(|effect| effect >= limit)
    });
    let names: Vec<&str> = too_much.map(|turn| turn.node.name.as_str()).collect();
    (!names.is_empty()).then(|| wait::replacement(is_image, limit, &names))
}

/// Starts nodes of a wave. Returns whether all of its nodes have ended.
fn fill(work: &mut Work<'_>, index: usize, target: &ResolvedTarget, candidates: &mut Vec<usize>) -> bool {
    let number = index + 1;
    if work.status.waves[index].started_at.is_none()
        && let Some(expired) = wave::missing_approval(work, number)
    {
        work.wait = Some(wait::approval(work.rollout.name, number, expired.as_deref()));
        return false;
    }
    let size = usize::try_from(work.status.waves[index].size).unwrap_or_default();
    let mut places = size.saturating_sub(wave::started(work).get(index).copied().unwrap_or_default());
    let mut is_busy = false;
    candidates.retain(|candidate| {
        let turn = &work.turns[*candidate];
        if places == 0 || !turn.node.is_available() {
            return true;
        }
        let is_image = work.rollout.is_image();
        let (was_intended, effect) = (turn.in_flight, if is_image { turn.effect } else { turn.node.expected_effect });
        let starts = work.start(*candidate, effect, Start::Assign);
        match (starts, is_image) {
            (true, true) => replace::begin(work, *candidate, number),
            (true, false) => work.assign(*candidate, target, number),
            (false, _) => {}
        }
        if starts || was_intended {
            places -= 1;
            is_busy = true;
        }
        !starts
    });
    let wave = &mut work.status.waves[index];
    let is_ours = |wave: usize| wave == number;
    let has_started = is_busy || work.turns.iter().any(|turn| turn.is_forward() && is_ours(turn.wave));
    if has_started && wave.started_at.is_none() {
        wave.started_at = Some(time::text(work.now));
        wave.verdict = Verdict::Running;
        let started = &mut work.status.started_at;
        started.get_or_insert_with(|| time::text(work.now));
    }
    is_busy |= work.turns.iter().any(|turn| is_ours(turn.wave) && turn.in_flight);
    if is_busy || places > 0 {
        return false;
    }
    let wave = &mut work.status.waves[index];
    wave.done_at = Some(time::text(work.now));
    wave.verdict = Verdict::Soaking;
    true
}

/// Judges a wave whose nodes have all ended.
fn judge(work: &mut Work<'_>, index: usize) -> Judgement {
    let policy = work.rollout.policy;
    let done = time::past(work.status.waves[index].done_at.as_deref(), work.now).unwrap_or(work.now);
    let end = time::add(done, policy.after(index + 1).soak);
    if work.now < end {
        work.wake_at(end);
        return Judgement::Waits(wait::soak(index + 1, end));
    }
    let is_image = work.rollout.is_image();
    let mut updated = work.turns.iter().filter(|turn| {
        let is_updated = || turn.wave == index + 1 && matches!(turn.state, State::Updated);
        if is_image { replace::is_watched(work, turn) } else { is_updated() }
    });
    let closed = updated.find_map(|turn| Some((turn.node, gate::closed(&policy.gates, turn.node, work.now)?)));
    if let Some((node, closed)) = closed {
        closed.until.into_iter().for_each(|until| work.wake_at(until));
        return Judgement::Waits(wait::gate(&node.name, &closed));
    }
    let mut waits = None;
    for (number, query) in policy.queries().iter().enumerate() {
        let readings = work.observed.prometheus.iter().filter(|reading| reading.query == number && reading.at >= end);
        let reading = readings.max_by_key(|reading| reading.at);
        let value = reading.and_then(|reading| reading.value.as_ref().ok()).copied();
        match value.and_then(|value| Some((value, query.fail.fails(value)?))) {
            Some((_, false)) => continue,
            Some((value, true)) => {
                return Judgement::Failed(format!("query `{}` gave {value} after wave {}", query.query, index + 1));
            }
            None => {}
        }
        let again = reading.map(|reading| time::add(reading.at.min(work.now), QUERY_AGAIN));
        match again.filter(|again| *again > work.now) {
            Some(again) => work.wake_at(again),
            None => work.queries.push(number),
        }
        waits.get_or_insert_with(|| wait::query(query, reading));
    }
    waits.map_or(Judgement::Passed, Judgement::Waits)
}

/// Ends the rollout when no node is left. The pools get the target first, because an ended rollout must not change them again.
fn complete(work: &mut Work<'_>, target: &ResolvedTarget) {
    let is_open = |state: &State| matches!(state, State::Candidate { .. } | State::New);
    if work.turns.iter().any(|turn| turn.in_flight || is_open(&turn.state)) {
        return;
    }
    if work.rollout.is_image() {
        work.status.phase = RolloutPhase::Complete;
        replace::name_kept(work);
        return;
    }
    let pools = work.observed.pools.iter().filter(|pool| pool.previous.as_ref() != Some(target));
    let acts: Vec<Act> =
        pools.map(|pool| Act::CompletePool { pool: pool.name.clone(), target: target.clone() }).collect();
    if acts.is_empty() {
        work.status.phase = RolloutPhase::Complete;
    }
    work.acts.extend(acts);
}
