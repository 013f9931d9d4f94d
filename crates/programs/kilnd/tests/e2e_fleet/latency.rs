//! How long kilnd takes to answer a change of its NodeState. A figure for people; no test asserts it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use super::fleet::{Fleet, now};

/// Samples of NodeStates: when each generation of a spec was seen first, and when its answer was.
#[derive(Default)]
pub(crate) struct Latency {
    seen: BTreeMap<(String, i64), (Instant, Option<Duration>)>,
    has_begun: bool,
}

impl Latency {
    pub(crate) fn sample(&mut self, fleet: &Fleet) {
        for state in fleet.states() {
            let (Some(name), Some(generation)) = (state.metadata.name, state.metadata.generation) else { continue };
            let observed = state.status.and_then(|status| status.observed_generation);
            let is_answered = observed == Some(generation);
            match self.seen.entry((name, generation)) {
                // Answered before it was looked at.
                Entry::Vacant(_) if is_answered && !self.has_begun => {}
                Entry::Vacant(new) => drop(new.insert((now(), is_answered.then_some(Duration::ZERO)))),
                Entry::Occupied(mut known) if is_answered && known.get().1.is_none() => {
                    known.get_mut().1 = Some(known.get().0.elapsed());
                }
                Entry::Occupied(_) => {}
            }
        }
        self.has_begun = true;
    }

    /// The median and the longest answer, in milliseconds.
    pub(crate) fn figures(&self) -> (u128, u128) {
        let mut answers: Vec<u128> =
            self.seen.values().filter_map(|(_, answer)| *answer).map(|answer| answer.as_millis()).collect();
        answers.sort_unstable();
        (answers.get(answers.len() / 2).copied().unwrap_or_default(), answers.last().copied().unwrap_or_default())
    }
}
