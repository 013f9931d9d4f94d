//! The status that people and tools read.

use jiff::SignedDuration;
use kiln_fleet_api::{
    Condition, Effect, PlanCounts, RolloutPhase, RolloutStatus, Verdict, WaitReason, WaitingFor, condition,
};

use crate::decision::{Decision, Severity};
use crate::turn::State;
use crate::work::Work;
use crate::{replace, time, wait, wave};

/// Completes the status and publishes the differences to the status before the decision.
pub(crate) fn finish(mut work: Work<'_>, before: &RolloutStatus, stop: Option<String>) -> Decision {
    let now = time::text(work.now);
    count(&mut work);
    let (waiting, is_stalled) = wait::answer(&mut work).unzip();
    work.status.waiting_for = waiting;
    work.status.observed_generation = work.rollout.generation;
    if work.status.phase.is_final() {
        work.status.ended_at.get_or_insert(now);
    }
    work.status.eta = eta(&work);
    conditions(&mut work, stop, is_stalled.unwrap_or_default());
    notices(&mut work, before);
    work.into_decision()
}

fn count(work: &mut Work<'_>) {
    let names = |wanted: fn(&crate::turn::Turn<'_>) -> bool| {
        work.turns.iter().filter(|turn| wanted(turn)).map(|turn| turn.node.name.clone()).collect()
    };
    let (in_flight, held) = (names(|turn| turn.in_flight), names(|turn| turn.in_flight && turn.holding));
    let is_updated = |state: &State| matches!(state, State::Updated | State::UpToDate);
    let (updated, total) = if work.rollout.is_image() {
        replace::progress(work)
    } else {
        (work.turns.iter().filter(|turn| is_updated(&turn.state)).count(), work.turns.len())
    };
    let done = wave::done(work);
    if work.rollout.status.started_at.is_none() {
        (work.status.plan, work.status.plan_text) = plan(work);
    }
    let status = &mut work.status;
    (status.in_flight, status.held) = (in_flight, held);
    status.total = wave::count(total);
    status.updated = wave::count(updated);
    status.failed = wave::count(status.failed_nodes.len());
    status.updated_text = format!("{updated}/{total}");
    for (index, wave) in status.waves.iter_mut().enumerate() {
        wave.done = wave::count(done.get(index).copied().unwrap_or_default());
    }
    let current = status.waves.iter().position(|wave| wave.verdict != Verdict::Passed);
    let current = current.map_or(status.waves.len(), |index| index + 1);
    status.wave_text = if current == 0 { String::new() } else { format!("{current}/{}", status.waves.len()) };
}

fn plan(work: &Work<'_>) -> (PlanCounts, String) {
    let mut counts = PlanCounts::default();
    let mut effects = [0_i64; Effect::ALL.len()];
    for turn in &work.turns {
        let effect = match &turn.state {
            State::UpToDate | State::Kept => Some(Effect::None),
            _ if work.rollout.is_image() => turn.effect,
            _ => turn.node.expected_effect,
        };
        if let Some(effect) = effect {
            effects[effect as usize] += 1;
        }
        *match effect {
            None => &mut counts.unknown,
            Some(Effect::None) => &mut counts.none,
            Some(Effect::Reload | Effect::Restart | Effect::Cluster) => &mut counts.in_place,
            Some(Effect::Drain) => &mut counts.drain,
            Some(Effect::Reboot) => &mut counts.reboot,
            Some(Effect::Replace) => &mut counts.replace,
        } += 1;
    }
    let known = Effect::ALL.into_iter().map(|effect| (effect.as_str(), effects[effect as usize]));
    let texts = known.chain([("unknown", counts.unknown)]).filter(|(_, count)| *count > 0);
    (counts, texts.map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(","))
}

/// The end of the last wave, if the others take as long as those that passed. It depends on stored times only, so the status does not change by itself.
fn eta(work: &Work<'_>) -> Option<String> {
    let waves = &work.status.waves;
    let passed = waves.iter().take_while(|wave| wave.verdict == Verdict::Passed).enumerate();
    let ends: Vec<_> = passed
        .filter_map(|(index, wave)| {
            let began = time::parse(wave.started_at.as_deref()?)?;
            let end = time::add(time::parse(wave.done_at.as_deref()?)?, work.rollout.policy.after(index + 1).soak);
            Some((end, time::elapsed(began, end)))
        })
        .collect();
    let left = i32::try_from(waves.len() - ends.len()).ok()?;
    let (last, _) = *ends.last()?;
    if left == 0 || work.status.phase != RolloutPhase::Progressing {
        return None;
    }
    let sum: SignedDuration = ends.iter().fold(SignedDuration::ZERO, |sum, (_, took)| sum.saturating_add(*took));
    let mean = sum / i32::try_from(ends.len()).ok()?;
    Some(time::text(time::add(last, mean.saturating_mul(left))))
}

fn conditions(work: &mut Work<'_>, stop: Option<String>, is_stalled: bool) {
    let status = &work.status;
    let phase = status.phase;
    let progress = format!("{} nodes are updated, {} failed", status.updated_text, status.failed);
    let waiting = status.waiting_for.as_ref();
    let activity = waiting.map_or_else(|| progress.clone(), |waiting| waiting.message.clone());
    // After a failure, the condition keeps the limit that was reached until the end.
    let is_stopped = status.waves.iter().any(|wave| wave.verdict == Verdict::Failed);
    let kept = status.conditions.iter().find(|condition| condition.type_ == condition::READY && is_stopped);
    let why = stop.or_else(|| kept.map(|condition| condition.message.clone()));
    let outcome = match phase {
        RolloutPhase::Complete => progress,
        RolloutPhase::Aborted => format!("the rollout was aborted; {progress}"),
        _ => format!("{}{}", why.unwrap_or_else(|| activity.clone()), work.remark),
    };
    let reason_text = waiting.map_or_else(|| phase.as_str().to_owned(), |waiting| format!("{:?}", waiting.reason));
    let is_failed = phase.is_final() && phase != RolloutPhase::Complete;
    let rows = [
        (condition::READY, phase == RolloutPhase::Complete, phase.as_str().to_owned(), outcome.clone()),
        (condition::RECONCILING, !phase.is_final() && !is_stalled, reason_text.clone(), activity.clone()),
        (condition::STALLED, is_failed || is_stalled, reason_text, if is_failed { outcome } else { activity }),
    ];
    for (type_, is_true, reason, message) in rows {
        let new = Condition {
            type_: type_.to_owned(),
            status: if is_true { "True" } else { "False" }.to_owned(),
            reason,
            message,
            last_transition_time: time::text(work.now),
            observed_generation: work.rollout.generation,
        };
        Condition::set(&mut work.status.conditions, new);
    }
}

fn notices(work: &mut Work<'_>, before: &RolloutStatus) {
    let status = work.status.clone();
    let nodes = |count: i64| wait::nodes(usize::try_from(count).unwrap_or_default());
    if status.phase == RolloutPhase::Progressing && before.phase == RolloutPhase::Pending {
        let message = format!("{} in {} waves", status.plan_text, status.waves.len());
        work.notice(Severity::Normal, "Planned", message, None);
    }
    for (index, wave) in status.waves.iter().enumerate() {
        let old = before.waves.get(index).cloned().unwrap_or_default();
        let number = index + 1;
        if wave.started_at.is_some() && old.started_at.is_none() {
            let message = format!("wave {number} of {} starts with {}", status.waves.len(), nodes(wave.size));
            work.notice(Severity::Normal, "WaveStarted", message, None);
        }
        if wave.verdict == Verdict::Passed && old.verdict != Verdict::Passed {
            let message = format!("wave {number} passed: {} updated, {} failed", wave.done, wave.failed);
            work.notice(Severity::Normal, "WavePassed", message, None);
        }
    }
    if status.phase != before.phase && status.phase != RolloutPhase::Progressing {
        let is_good = status.phase == RolloutPhase::Complete;
        let severity = if is_good { Severity::Normal } else { Severity::Warning };
        let ready = status.conditions.iter().find(|condition| condition.type_ == condition::READY);
        let message = ready.map(|condition| condition.message.clone()).unwrap_or_default();
        work.notice(severity, status.phase.as_str(), message, None);
    }
    let reason = |status: &RolloutStatus| status.waiting_for.as_ref().map(|waiting| waiting.reason);
    if let Some(WaitingFor { reason: new, message, .. }) = &status.waiting_for
        && Some(*new) != reason(before)
        && !matches!(new, WaitReason::Nodes | WaitReason::Gate | WaitReason::Soak | WaitReason::Budget)
    {
        let is_problem = matches!(new, WaitReason::Reference | WaitReason::Replacement | WaitReason::NoNodes);
        let severity = if is_problem { Severity::Warning } else { Severity::Normal };
        work.notice(severity, "Waiting", message.clone(), None);
    }
}
