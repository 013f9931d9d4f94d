//! Waves: their sizes, and the order of the nodes.

use std::cmp::Reverse;

use kiln_fleet_api::{Approval, Verdict, WaveStatus};

use crate::policy::Policy;
use crate::time;
use crate::turn::{State, Turn};
use crate::work::Work;

/// Sizes of the waves for nodes that have not started, after a wave of size `last`.
fn sizes(policy: &Policy, mut left: usize, total: usize, last: Option<usize>) -> Vec<usize> {
    let largest = (total * policy.max_percent as usize / 100).max(1);
    let mut next = last.map_or(policy.first_nodes, |last| (last * policy.factor).clamp(1, largest));
    let mut sizes = Vec::new();
    while left > 0 {
        sizes.push(next.min(left));
        left -= next.min(left);
        next = (next * policy.factor).clamp(1, largest);
    }
    sizes
}

/// Plans the waves that have not started. Waves that started keep their size, unless there are too few nodes left to fill it.
pub(crate) fn plan(work: &mut Work<'_>) {
    let (policy, total) = (work.rollout.policy, work.turns.len());
    let started = started(work);
    let is_open = |turn: &&Turn<'_>| matches!(turn.state, State::Candidate { .. } | State::New);
    let mut left = work.turns.iter().filter(is_open).count();
    let waves = &mut work.status.waves;
    let begun = waves.iter().take_while(|wave| wave.started_at.is_some()).count();
    waves.truncate(begun);
    let mut last = None;
    for (wave, started) in waves.iter_mut().zip(started.iter().chain(std::iter::repeat(&0))) {
        if *started == 0 && wave.verdict == Verdict::Soaking {
            // All its nodes were deleted while they were watched: the wave has proven nothing.
            wave.done_at = None;
            wave.verdict = Verdict::Running;
        }
        let planned = usize::try_from(wave.size).unwrap_or_default().max(*started);
        let size = if wave.done_at.is_none() { planned.min(started + left) } else { planned };
        left -= if wave.done_at.is_none() { size - started } else { 0 };
        wave.size = count(size);
        last = Some(planned.max(1));
    }
    for size in sizes(policy, left, total, last) {
        waves.push(WaveStatus { size: count(size), ..WaveStatus::default() });
    }
}

/// Number of nodes of each wave that have started, by index of the wave.
pub(crate) fn started(work: &Work<'_>) -> Vec<usize> {
    if work.rollout.is_image() {
        // Nodes that are replaced do not exist any more; the status counts them.
        let in_flight = tally(work, |turn| matches!(turn.state, State::Busy(_)));
        let in_flight = in_flight.into_iter().chain(std::iter::repeat(0));
        let ended = |wave: &WaveStatus| usize::try_from(wave.done + wave.failed).unwrap_or_default();
        return work.status.waves.iter().zip(in_flight).map(|(wave, count)| ended(wave) + count).collect();
    }
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general over the lifetime of a turn"
    )]
    let counts = tally(work, |turn| turn.is_forward());
    counts
}

/// Number of nodes of each wave that are updated, by index of the wave.
pub(crate) fn done(work: &Work<'_>) -> Vec<usize> {
    if work.rollout.is_image() {
        return work.status.waves.iter().map(|wave| usize::try_from(wave.done).unwrap_or_default()).collect();
    }
    tally(work, |turn| matches!(turn.state, State::Updated))
}

fn tally(work: &Work<'_>, matches: impl Fn(&Turn<'_>) -> bool) -> Vec<usize> {
    let mut counts = Vec::new();
    for turn in work.turns.iter().filter(|turn| matches(turn)) {
        if let Some(index) = turn.wave.checked_sub(1) {
            if counts.len() <= index {
                counts.resize(index.min(work.turns.len()) + 1, 0);
            }
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
    }
    counts
}

/// Indexes of the nodes that have not started: intended ones first, then those with more preferred labels, then by name.
pub(crate) fn candidates(work: &Work<'_>) -> Vec<usize> {
    let prefer = &work.rollout.policy.prefer;
    let mut keys: Vec<_> = (work.turns.iter().enumerate())
        .filter_map(|(index, turn)| {
            let State::Candidate { intended } = turn.state else { return None };
            let has = |(key, value): &&(String, String)| turn.node.labels.get(key) == Some(value);
            Some((!intended, Reverse(prefer.iter().filter(has).count()), index))
        })
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, index)| index).collect()
}

/// Whether a person still has to approve a wave, counted from 1, and the time at which the last approval expired.
#[expect(
    clippy::option_option,
    reason = "the outer one is whether an approval is missing, the inner one whether it expired"
)]
pub(crate) fn missing_approval(work: &Work<'_>, wave: usize) -> Option<Option<String>> {
    let spec = work.rollout.spec;
    if wave < 2 || work.rollout.policy.after(wave - 1).approve == Approval::Automatic {
        return None;
    }
    if spec.approved_wave.is_none_or(|approved| (approved as usize) < wave) {
        return Some(None);
    }
    // An unreadable time is an expired one: a guess could start nodes against a person's will.
    let until = spec.approved_until.as_ref()?;
    let is_valid = time::parse(until).is_some_and(|until| work.now < until);
    (!is_valid).then(|| Some(until.clone()))
}

/// Converts a count for the API.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_grow_by_the_factor_up_to_the_largest() {
        let policy = Policy::default();
        assert_eq!(sizes(&policy, 40, 40, None), [1, 3, 9, 12, 12, 3]);
        assert_eq!(sizes(&policy, 2, 2, None), [1, 1]);
        assert_eq!(sizes(&policy, 0, 5, None), [0; 0]);
        assert_eq!(sizes(&policy, 27, 40, Some(9)), [12, 12, 3], "the rest of a plan is the plan of the rest");
    }

    #[test]
    fn first_wave_may_be_larger_than_the_largest_of_the_others() {
        let policy = Policy { first_nodes: 5, factor: 1, max_percent: 10, ..Policy::default() };
        assert_eq!(sizes(&policy, 9, 20, None), [5, 2, 2]);
    }
}
