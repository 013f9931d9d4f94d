//! What is known of each pod that must leave: the memory of a drain, without I/O or clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::EvictAnswer;
use super::decide::{BlockReason, Flags, SkipReason, Verdict, decide};
use super::failure::{Left, LeftBecause};
use super::pod::{PodFacts, PodId};
use super::progress::Progress;

/// Budgets change when a pod elsewhere becomes ready, which takes seconds. `kubectl` asks as often.
const BUDGET_WAIT: Duration = Duration::from_secs(5);
/// Without a wish of the server's: one second spreads what two cores can do for a node of 110 pods.
const BUSY_WAIT: Duration = Duration::from_secs(1);
const FIRST_AWAY_WAIT: Duration = Duration::from_millis(500);
const LONGEST_AWAY_WAIT: Duration = Duration::from_secs(5);

/// A time since the drain began.
pub(crate) type Since = Duration;

#[derive(Debug)]
struct Entry {
    pod: PodFacts,
    state: State,
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// To be asked from then on.
    Due { from: Since, because: LeftBecause },
    /// Told to end.
    Asked,
    /// Not to be asked again.
    Refused(String),
}

/// What a list of the node's pods means.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Pods that stop the drain.
    pub(crate) blocked: Vec<(PodId, BlockReason)>,
    /// Pods to be asked now.
    pub(crate) ask: Vec<PodFacts>,
    /// What changed.
    pub(crate) news: Vec<Progress>,
}

/// What is known of each pod that must leave, by uid.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<String, Entry>,
    gone: Vec<PodId>,
    skipped: BTreeMap<PodId, SkipReason>,
}

impl Ledger {
    /// Takes in what is on the node now.
    pub(crate) fn observe(&mut self, pods: Vec<PodFacts>, flags: Flags, now: Since) -> Round {
        let mut round = Round::default();
        let here: BTreeSet<String> = pods.iter().map(|pod| pod.id.uid.clone()).collect();
        let gone: Vec<String> = self.entries.keys().filter(|uid| !here.contains(*uid)).cloned().collect();
        for entry in gone.into_iter().filter_map(|uid| self.entries.remove(&uid)) {
            round.news.push(Progress::Gone(entry.pod.id.clone()));
            self.gone.push(entry.pod.id);
        }
        for pod in pods {
            match decide(&pod, flags) {
                Verdict::Skip(reason) => {
                    if self.skipped.insert(pod.id.clone(), reason).is_none() {
                        round.news.push(Progress::Skipped(pod.id, reason));
                    }
                }
                Verdict::Block(_) if self.entries.contains_key(&pod.id.uid) => self.seen(pod, now, &mut round),
                Verdict::Block(reason) => round.blocked.push((pod.id, reason)),
                Verdict::Evict => self.seen(pod, now, &mut round),
            }
        }
        round
    }

    fn seen(&mut self, pod: PodFacts, now: Since, round: &mut Round) {
        let entry = self.entries.entry(pod.id.uid.clone()).or_insert_with(|| Entry {
            pod: pod.clone(),
            state: State::Due { from: now, because: LeftBecause::NotAsked },
            failures: 0,
        });
        entry.pod = pod;
        // Told to end and not ending: the answer that said so was lost, or the server that gave it.
        if matches!(entry.state, State::Asked) && !entry.pod.terminating {
            entry.state = State::Due { from: now, because: LeftBecause::NotAsked };
        }
        if matches!(entry.state, State::Due { from, .. } if from <= now) {
            round.ask.push(entry.pod.clone());
        }
    }

    /// Takes in the answer to an eviction.
    pub(crate) fn answered(&mut self, pod: &PodId, answer: EvictAnswer, now: Since) -> Option<Progress> {
        let entry = self.entries.get_mut(&pod.uid)?;
        let id = pod.clone();
        let (state, news) = match answer {
            EvictAnswer::Accepted => (State::Asked, Some(Progress::Asked(id))),
            EvictAnswer::Gone => (State::Due { from: now, because: LeftBecause::NotAsked }, None),
            EvictAnswer::Budget { message } => {
                let because = LeftBecause::Budget(message.clone());
                (State::Due { from: now + BUDGET_WAIT, because }, Some(Progress::Budget(id, message)))
            }
            EvictAnswer::Throttled { retry_after } => {
                let from = now + retry_after.unwrap_or(BUSY_WAIT);
                (State::Due { from, because: LeftBecause::Throttled }, Some(Progress::Throttled(id)))
            }
            // Its deletion is asked for by the namespace's; asking again changes nothing once it is.
            EvictAnswer::NamespaceEnds if entry.pod.terminating => (State::Asked, Some(Progress::Asked(id))),
            EvictAnswer::NamespaceEnds => {
                let because = LeftBecause::Refused("its namespace is being deleted".to_owned());
                (State::Due { from: now + BUSY_WAIT, because }, None)
            }
            EvictAnswer::Away { message } => {
                let wait = FIRST_AWAY_WAIT.saturating_mul(1 << entry.failures.min(8)).min(LONGEST_AWAY_WAIT);
                let because = LeftBecause::Away(message.clone());
                (State::Due { from: now + wait, because }, Some(Progress::Away(message)))
            }
            EvictAnswer::TwoBudgets { message } | EvictAnswer::Refused { message } => {
                (State::Refused(message.clone()), Some(Progress::Refused(id, message)))
            }
        };
        entry.failures = if matches!(state, State::Asked) { 0 } else { entry.failures + 1 };
        entry.state = state;
        news
    }

    /// Whether nothing that must leave is left.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether all that is left cannot be evicted.
    pub(crate) fn is_hopeless(&self) -> bool {
        !self.entries.is_empty() && self.entries.values().all(|entry| matches!(entry.state, State::Refused(_)))
    }

    /// The pods that are left, and why.
    pub(crate) fn left(&self) -> Vec<Left> {
        let because = |entry: &Entry| match &entry.state {
            State::Due { because, .. } => because.clone(),
            State::Asked => LeftBecause::Terminating { finalizers: entry.pod.finalizers.clone() },
            State::Refused(message) => LeftBecause::Refused(message.clone()),
        };
        let mut left: Vec<Left> =
            self.entries.values().map(|entry| Left { pod: entry.pod.id.clone(), because: because(entry) }).collect();
        left.sort_by(|a, b| a.pod.cmp(&b.pod));
        left
    }

    /// The pods that left, in the order in which they did, and those that stay.
    pub(crate) fn finish(self) -> (Vec<PodId>, Vec<(PodId, SkipReason)>) {
        (self.gone, self.skipped.into_iter().collect())
    }
}
