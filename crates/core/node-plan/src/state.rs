//! Which generation is in force, which is on trial and which were rejected: what a node remembers across reboots.
//!
//! Trial and commit: a new generation is in force at once, but only on trial. When its health gates pass, [`State::commit`] makes it the
//! generation to go back to. When they do not, [`State::fail_trial`] puts the committed generation in force again and records the failed
//! one as rejected, so that the same document is not applied again automatically. kilnd writes the state *before* it changes the
//! machine: if it is interrupted, the next boot reads what should be in force and finishes the change.

use serde::{Deserialize, Serialize};

/// How many reboots a trial survives. Power fails and people reboot, so one reboot does not end a trial; a second one is taken as caused
/// by the generation on trial.
const TRIAL_REBOOTS: u32 = 1;

/// How many rejections are kept. Few sources offer documents, and each offers one at a time.
const REJECTIONS: usize = 8;

/// A NodeConfig that was accepted on this node.
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

/// A generation in force whose health gates have not passed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub generation: Generation,
    /// How often the machine rebooted during the trial.
    #[serde(default)]
    pub restarts: u32,
}

/// A document that was reverted or rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub number: u64,
    pub hash: String,
    pub reason: String,
}

/// The content of [`crate::layout::STATE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The last generation that passed its health gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<Generation>,
    /// The generation on trial. It is the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Documents that are not applied again automatically. Earlier versions called the field `refused`; their files are read as they
    /// are, or a document that was reverted before an upgrade of kilnd would be applied again after it.
    #[serde(default, alias = "refused", skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejection>,
}

/// Whether a candidate may be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The same document is in force already.
    InForce,
    /// A document with a higher number, or another one with the same number, is in force.
    Outranked {
        /// The number in force.
        by: u64,
    },
    /// The document was reverted or rolled back before.
    Rejected {
        reason: String,
    },
    Accept,
}

/// The result of a failed trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revert {
    /// This generation is in force again.
    To(Generation),
    /// No generation was ever committed: the one on trial stays in force.
    NoPrevious,
    /// No generation is on trial.
    NoTrial,
}

impl State {
    /// The generation in force.
    pub fn in_force(&self) -> Option<&Generation> {
        self.trial.as_ref().map(|trial| &trial.generation).or(self.committed.as_ref())
    }

    /// Whether a candidate may be applied. The highest number wins, so that old provisioning media never undo a later change.
    pub fn admit(&self, number: u64, hash: &str) -> Admission {
        if let Some(rejection) = self.rejected.iter().find(|rejection| rejection.hash == hash) {
            return Admission::Rejected { reason: rejection.reason.clone() };
        }
        match self.in_force() {
            Some(now) if now.hash == hash => Admission::InForce,
            Some(now) if now.number >= number => Admission::Outranked { by: now.number },
            _ => Admission::Accept,
        }
    }

    /// Puts a generation in force, on trial. A generation that was on trial until now never passed its gates and is forgotten.
    pub fn start_trial(&mut self, generation: Generation) {
        self.trial = Some(Trial { generation, restarts: 0 });
    }

    /// Commits the generation on trial.
    pub fn commit(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.committed = Some(trial.generation);
        }
    }

    /// Records a reboot. Returns the revert if it was one reboot too many.
    pub fn note_restart(&mut self) -> Option<Revert> {
        let trial = self.trial.as_mut()?;
        trial.restarts += 1;
        (trial.restarts > TRIAL_REBOOTS).then(|| self.fail_trial("the machine rebooted twice during the trial"))
    }

    /// Ends the trial because the node is not healthy.
    pub fn fail_trial(&mut self, reason: &str) -> Revert {
        let Some(trial) = &self.trial else { return Revert::NoTrial };
        let Some(before) = self.committed.clone() else { return Revert::NoPrevious };
        let Generation { number, hash, .. } = trial.generation.clone();
        self.rejected.push(Rejection { number, hash, reason: reason.to_owned() });
        let excess = self.rejected.len().saturating_sub(REJECTIONS);
        self.rejected.drain(..excess);
        self.trial = None;
        Revert::To(before)
    }

    /// Forgets a rejection: a person asked for this document again.
    pub fn clear_rejection(&mut self, hash: &str) {
        self.rejected.retain(|rejection| rejection.hash != hash);
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
        state.start_trial(generation(number));
        state.commit();
        state
    }

    #[test]
    fn highest_number_wins_and_document_in_force_is_not_applied_again() {
        let mut state = committed(3);
        assert_eq!(state.admit(3, "h3"), Admission::InForce);
        assert_eq!(state.admit(2, "h2"), Admission::Outranked { by: 3 });
        assert_eq!(state.admit(3, "other"), Admission::Outranked { by: 3 });
        assert_eq!(state.admit(4, "h4"), Admission::Accept);
        state.start_trial(generation(5));
        assert_eq!(state.admit(4, "h4"), Admission::Outranked { by: 5 });
        assert_eq!(State::default().admit(0, "h"), Admission::Accept);
    }

    #[test]
    fn failed_trial_is_reverted_once_and_not_applied_again_automatically() {
        let mut state = committed(1);
        state.start_trial(generation(2));
        assert_eq!(state.fail_trial("no kubelet"), Revert::To(generation(1)));
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.fail_trial("still none"), Revert::NoTrial);
        assert_eq!(state.admit(2, "h2"), Admission::Rejected { reason: "no kubelet".to_owned() });
        assert_eq!(state.admit(3, "h3"), Admission::Accept);
        state.clear_rejection("h2");
        assert_eq!(state.admit(2, "h2"), Admission::Accept);
    }

    #[test]
    fn first_generation_has_no_previous_one() {
        let mut state = State::default();
        state.start_trial(generation(1));
        assert_eq!(state.fail_trial("no kubelet"), Revert::NoPrevious);
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.admit(2, "h2"), Admission::Accept, "a newer document is still accepted");
    }

    #[test]
    fn trial_survives_one_reboot_but_not_two() {
        let mut state = committed(1);
        assert_eq!(state.note_restart(), None);
        state.start_trial(generation(2));
        assert_eq!(state.note_restart(), None);
        assert_eq!(state.in_force(), Some(&generation(2)));
        assert_eq!(state.note_restart(), Some(Revert::To(generation(1))));
        assert_eq!(state.note_restart(), None, "at most once");
    }

    #[test]
    fn revert_skips_generations_that_were_never_committed() {
        let mut state = committed(1);
        state.start_trial(generation(2));
        state.start_trial(generation(3));
        assert_eq!(state.fail_trial("dns"), Revert::To(generation(1)));
    }

    #[test]
    fn only_the_latest_rejections_are_kept() {
        let mut state = committed(1);
        for number in 2..20 {
            state.start_trial(generation(number));
            state.fail_trial("bad");
        }
        assert_eq!(state.rejected.len(), REJECTIONS);
        assert_eq!(state.admit(19, "h19"), Admission::Rejected { reason: "bad".to_owned() });
    }

    #[test]
    fn state_round_trips_through_json_and_default_is_an_empty_object() {
        let mut state = committed(1);
        state.start_trial(generation(2));
        let text = serde_json::to_string(&state).expect("json");
        assert_eq!(serde_json::from_str::<State>(&text).expect("read"), state);
        assert_eq!(serde_json::to_string(&State::default()).expect("json"), "{}");
    }

    #[test]
    fn rejections_of_an_earlier_version_are_kept() {
        let text = r#"{"refused": [{"number": 2, "hash": "h2", "reason": "no kubelet"}]}"#;
        let state: State = serde_json::from_str(text).expect("read");
        assert_eq!(state.admit(2, "h2"), Admission::Rejected { reason: "no kubelet".to_owned() });
    }
}
