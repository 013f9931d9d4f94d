//! Which generation holds, which is on trial, and which came back: what a node remembers across restarts.
//!
//! A new generation is on trial until somebody saw the node healthy with it. One that fails its trial comes back by itself, once; the
//! generation before it is then in force and is not put on trial again.

use serde::{Deserialize, Serialize};

/// How many restarts of the machine a trial survives. A trial that is cut off by one restart goes on: power fails, people reboot. One
/// that sees a second restart is taken for the cause of it.
const RESTARTS_OF_A_TRIAL: u32 = 1;

/// How many refusals are remembered. A document is offered by few places, each with one document at a time.
const REFUSALS: usize = 8;

/// One document on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    pub number: u64,
    pub hash: String,
    /// The name of its folder.
    pub folder: String,
    /// Where the document came from.
    pub source: String,
}

/// A generation that nobody has seen healthy yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub generation: Generation,
    /// How often the machine restarted during it.
    #[serde(default)]
    pub restarts: u32,
}

/// A document that came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub number: u64,
    pub hash: String,
    /// Why it came back.
    pub reason: String,
}

/// What a node remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The last generation that was seen healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<Generation>,
    /// The generation on trial, which is the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Documents that came back: not applied again by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
}

/// What to do with a document that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in force already.
    InForce,
    /// One with a higher number is in force, or another one with the same number.
    Outranked {
        /// The number in force.
        by: u64,
    },
    /// It came back before.
    Refused { reason: String },
    /// It is to be applied.
    Take,
}

/// What becomes of a trial that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Return {
    /// This generation is in force again.
    To(Generation),
    /// There is none before it: the node stays as it is and says so.
    Nowhere,
    /// Nothing is on trial, so nothing comes back.
    NoTrial,
}

impl State {
    /// The generation in force.
    pub fn in_force(&self) -> Option<&Generation> {
        self.trial.as_ref().map(|trial| &trial.generation).or(self.committed.as_ref())
    }

    /// What to do with a document that is offered. The highest number wins, so that an old medium never undoes a change.
    pub fn offered(&self, number: u64, hash: &str) -> Offer {
        if let Some(refusal) = self.refused.iter().find(|refusal| refusal.hash == hash) {
            return Offer::Refused { reason: refusal.reason.clone() };
        }
        match self.in_force() {
            Some(now) if now.hash == hash => Offer::InForce,
            Some(now) if now.number >= number => Offer::Outranked { by: now.number },
            _ => Offer::Take,
        }
    }

    /// A generation is in force from now on, on trial. One that was on trial until now was never seen healthy and is forgotten.
    pub fn tried(&mut self, generation: Generation) {
        self.trial = Some(Trial { generation, restarts: 0 });
    }

    /// The node was seen healthy with the generation in force.
    pub fn confirmed(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.committed = Some(trial.generation);
        }
    }

    /// The machine starts again. Says what came back, if something did.
    pub fn restarted(&mut self) -> Option<Return> {
        let trial = self.trial.as_mut()?;
        trial.restarts += 1;
        (trial.restarts > RESTARTS_OF_A_TRIAL).then(|| self.failed("the machine restarted twice while it was on trial"))
    }

    /// The generation in force is not healthy.
    pub fn failed(&mut self, reason: &str) -> Return {
        let Some(trial) = &self.trial else { return Return::NoTrial };
        let Some(before) = self.committed.clone() else { return Return::Nowhere };
        let Generation { number, hash, .. } = trial.generation.clone();
        self.refused.push(Refusal { number, hash, reason: reason.to_owned() });
        let excess = self.refused.len().saturating_sub(REFUSALS);
        self.refused.drain(..excess);
        self.trial = None;
        Return::To(before)
    }

    /// A person asks for a document that came back: it may be tried again.
    pub fn forgive(&mut self, hash: &str) {
        self.refused.retain(|refusal| refusal.hash != hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(number: u64) -> Generation {
        Generation { number, hash: format!("h{number}"), folder: number.to_string(), source: "imds".to_owned() }
    }

    fn committed(number: u64) -> State {
        let mut state = State::default();
        state.tried(generation(number));
        state.confirmed();
        state
    }

    #[test]
    fn the_highest_number_wins_and_a_document_in_force_is_not_applied_again() {
        let mut state = committed(3);
        assert_eq!(state.offered(3, "h3"), Offer::InForce);
        assert_eq!(state.offered(2, "h2"), Offer::Outranked { by: 3 });
        assert_eq!(state.offered(3, "other"), Offer::Outranked { by: 3 });
        assert_eq!(state.offered(4, "h4"), Offer::Take);
        state.tried(generation(5));
        assert_eq!(state.offered(4, "h4"), Offer::Outranked { by: 5 });
        assert_eq!(State::default().offered(0, "h"), Offer::Take);
    }

    #[test]
    fn a_trial_that_fails_comes_back_once_and_is_not_tried_again_by_itself() {
        let mut state = committed(1);
        state.tried(generation(2));
        assert_eq!(state.failed("no kubelet"), Return::To(generation(1)));
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.failed("still none"), Return::NoTrial);
        assert_eq!(state.offered(2, "h2"), Offer::Refused { reason: "no kubelet".to_owned() });
        assert_eq!(state.offered(3, "h3"), Offer::Take);
        state.forgive("h2");
        assert_eq!(state.offered(2, "h2"), Offer::Take);
    }

    #[test]
    fn the_first_generation_has_nothing_to_go_back_to() {
        let mut state = State::default();
        state.tried(generation(1));
        assert_eq!(state.failed("no kubelet"), Return::Nowhere);
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.offered(2, "h2"), Offer::Take, "a better document still gets its chance");
    }

    #[test]
    fn a_trial_survives_one_restart_and_not_two() {
        let mut state = committed(1);
        assert_eq!(state.restarted(), None);
        state.tried(generation(2));
        assert_eq!(state.restarted(), None);
        assert_eq!(state.in_force(), Some(&generation(2)));
        assert_eq!(state.restarted(), Some(Return::To(generation(1))));
        assert_eq!(state.restarted(), None, "at most once");
    }

    #[test]
    fn what_was_never_seen_healthy_is_nothing_to_go_back_to() {
        let mut state = committed(1);
        state.tried(generation(2));
        state.tried(generation(3));
        assert_eq!(state.failed("dns"), Return::To(generation(1)));
    }

    #[test]
    fn only_the_last_refusals_are_remembered() {
        let mut state = committed(1);
        for number in 2..20 {
            state.tried(generation(number));
            state.failed("bad");
        }
        assert_eq!(state.refused.len(), REFUSALS);
        assert_eq!(state.offered(19, "h19"), Offer::Refused { reason: "bad".to_owned() });
    }

    #[test]
    fn state_survives_json_and_an_empty_one_is_an_empty_object() {
        let mut state = committed(1);
        state.tried(generation(2));
        let text = serde_json::to_string(&state).expect("json");
        assert_eq!(serde_json::from_str::<State>(&text).expect("read"), state);
        assert_eq!(serde_json::to_string(&State::default()).expect("json"), "{}");
    }
}
