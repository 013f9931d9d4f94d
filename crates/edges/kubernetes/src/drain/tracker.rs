//! The state of each pod that must leave, without I/O or clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::decide::{BlockReason, EvictionDecision, Flags, SkipReason, decide};
use super::error::{RemainReason, RemainingPod};
use super::outcome::EvictionOutcome;
use super::pod::{PodFacts, PodId};
use super::progress::Progress;

/// A budget changes when a pod elsewhere becomes ready, which takes seconds. `kubectl` uses the same interval.
const BUDGET_WAIT: Duration = Duration::from_secs(5);
/// Used when the server sends no `Retry-After`: with one second, two cores can handle a node of 110 pods.
const THROTTLED_WAIT: Duration = Duration::from_secs(1);
const FIRST_OUTAGE_WAIT: Duration = Duration::from_millis(500);
const LONGEST_OUTAGE_WAIT: Duration = Duration::from_secs(5);

/// Time since the drain started.
pub(crate) type Since = Duration;

#[derive(Debug)]
struct Entry {
    pod: PodFacts,
    state: State,
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// Its eviction is requested from then on.
    Due { from: Since, reason: RemainReason },
    /// Terminating.
    Terminating,
    /// Not retried.
    Refused(String),
}

/// The result of one list of the node's pods.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Pods that block the drain.
    pub(crate) blocked: Vec<(PodId, BlockReason)>,
    /// Pods to evict now.
    pub(crate) due: Vec<PodFacts>,
    pub(crate) progress: Vec<Progress>,
}

/// The state of each pod that must leave, by uid.
#[derive(Debug, Default)]
pub(crate) struct PodTracker {
    entries: BTreeMap<String, Entry>,
    gone: Vec<PodId>,
    skipped: BTreeMap<PodId, SkipReason>,
}

impl PodTracker {
    /// Updates the state from a list of the node's pods.
    pub(crate) fn observe(&mut self, pods: Vec<PodFacts>, flags: Flags, now: Since) -> Round {
        let mut round = Round::default();
        let present: BTreeSet<String> = pods.iter().map(|pod| pod.id.uid.clone()).collect();
        let gone: Vec<String> = self.entries.keys().filter(|uid| !present.contains(*uid)).cloned().collect();
        for entry in gone.into_iter().filter_map(|uid| self.entries.remove(&uid)) {
            round.progress.push(Progress::Gone(entry.pod.id.clone()));
            self.gone.push(entry.pod.id);
        }
        for pod in pods {
            match decide(&pod, flags) {
                EvictionDecision::Skip(reason) => {
                    if self.skipped.insert(pod.id.clone(), reason).is_none() {
                        round.progress.push(Progress::Skipped(pod.id, reason));
                    }
                }
                EvictionDecision::Block(_) if self.entries.contains_key(&pod.id.uid) => {
                    self.track(pod, now, &mut round);
                }
                EvictionDecision::Block(reason) => round.blocked.push((pod.id, reason)),
                EvictionDecision::Evict => self.track(pod, now, &mut round),
            }
        }
        round
    }

    fn track(&mut self, pod: PodFacts, now: Since, round: &mut Round) {
        let entry = self.entries.entry(pod.id.uid.clone()).or_insert_with(|| Entry {
            pod: pod.clone(),
            state: State::Due { from: now, reason: RemainReason::NotAttempted },
            failures: 0,
        });
        entry.pod = pod;
        // Evicted but not terminating: the response was lost, or the server lost the write.
        if matches!(entry.state, State::Terminating) && !entry.pod.terminating {
            entry.state = State::Due { from: now, reason: RemainReason::NotAttempted };
        }
        if matches!(entry.state, State::Due { from, .. } if from <= now) {
            round.due.push(entry.pod.clone());
        }
    }

    /// Updates the state from the response to an eviction.
    pub(crate) fn record(&mut self, pod: &PodId, outcome: EvictionOutcome, now: Since) -> Option<Progress> {
        let entry = self.entries.get_mut(&pod.uid)?;
        let id = pod.clone();
        let (state, progress) = match outcome {
            EvictionOutcome::Accepted => (State::Terminating, Some(Progress::Terminating(id))),
            EvictionOutcome::Gone => (State::Due { from: now, reason: RemainReason::NotAttempted }, None),
            EvictionOutcome::Budget { message } => {
                let reason = RemainReason::Budget(message.clone());
                (State::Due { from: now + BUDGET_WAIT, reason }, Some(Progress::Budget(id, message)))
            }
            EvictionOutcome::Throttled { retry_after } => {
                let from = now + retry_after.unwrap_or(THROTTLED_WAIT);
                (State::Due { from, reason: RemainReason::Throttled }, Some(Progress::Throttled(id)))
            }
            // The namespace controller deletes the pod; once that has happened, another request changes nothing.
            EvictionOutcome::NamespaceTerminating if entry.pod.terminating => {
                (State::Terminating, Some(Progress::Terminating(id)))
            }
            EvictionOutcome::NamespaceTerminating => {
                let reason = RemainReason::Refused("its namespace is being deleted".to_owned());
                (State::Due { from: now + THROTTLED_WAIT, reason }, None)
            }
            EvictionOutcome::Unavailable { message } => {
                let wait = FIRST_OUTAGE_WAIT.saturating_mul(1 << entry.failures.min(8)).min(LONGEST_OUTAGE_WAIT);
                let reason = RemainReason::Unavailable(message.clone());
                (State::Due { from: now + wait, reason }, Some(Progress::Unavailable(message)))
            }
            EvictionOutcome::MultipleBudgets { message } | EvictionOutcome::Refused { message } => {
                (State::Refused(message.clone()), Some(Progress::Refused(id, message)))
            }
        };
        entry.failures = if matches!(state, State::Terminating) { 0 } else { entry.failures + 1 };
        entry.state = state;
        progress
    }

    /// When the next eviction is due. None if all pods that remain are terminating or were refused.
    pub(crate) fn next_due(&self) -> Option<Since> {
        let due = |entry: &Entry| match entry.state {
            State::Due { from, .. } => Some(from),
            State::Terminating | State::Refused(_) => None,
        };
        self.entries.values().filter_map(due).min()
    }

    /// Whether no pod remains that must leave.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether none of the remaining pods can be evicted.
    pub(crate) fn is_hopeless(&self) -> bool {
        !self.entries.is_empty() && self.entries.values().all(|entry| matches!(entry.state, State::Refused(_)))
    }

    /// The remaining pods with their reasons.
    pub(crate) fn remaining(&self) -> Vec<RemainingPod> {
        let reason = |entry: &Entry| match &entry.state {
            State::Due { reason, .. } => reason.clone(),
            State::Terminating => RemainReason::Terminating { finalizers: entry.pod.finalizers.clone() },
            State::Refused(message) => RemainReason::Refused(message.clone()),
        };
        let mut remaining: Vec<RemainingPod> = self
            .entries
            .values()
            .map(|entry| RemainingPod { pod: entry.pod.id.clone(), reason: reason(entry) })
            .collect();
        remaining.sort_by(|a, b| a.pod.cmp(&b.pod));
        remaining
    }

    /// The pods that remaining, in that order, and those that stay.
    pub(crate) fn finish(self) -> (Vec<PodId>, Vec<(PodId, SkipReason)>) {
        (self.gone, self.skipped.into_iter().collect())
    }
}
