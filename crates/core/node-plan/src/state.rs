//! Which generation is in force, which is on trial and which were rejected: what a node remembers across reboots.
//!
//! Trial and commit: a new generation is in force at once, but only on trial. When its health gates pass, [`State::commit`] makes it the
//! generation to go back to. When they do not, [`State::fail_trial`] puts the committed generation in force again and records the failed
//! one as rejected, so that the same document is not applied again automatically. kilnd writes the state *before* it changes the
//! machine: if it is interrupted, the next boot reads what should be in force and finishes the change.

use kiln_node_config::Binding;
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
    /// The kernel's id of the boot in which the trial started or was last seen. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

/// A document that was reverted or rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub number: u64,
    pub hash: String,
    pub reason: String,
}

/// The signed document with the highest number that this machine has accepted. Older ones are not accepted any more, whatever happened to
/// that document: otherwise whoever can write user data could return to any document that was ever signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SignedRecord {
    /// The VM id: a clone has its own history. Empty if unknown.
    pub machine: String,
    pub number: u64,
    pub hash: String,
    /// The pool and cluster that the document was signed for. Later documents have to be for the same.
    pub binding: Binding,
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
    /// None if the image requires no signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedRecord>,
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
    /// A newer signed document was accepted before, though it is not in force now.
    Replayed {
        /// The number of the newer one.
        by: u64,
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

    /// Whether an unsigned candidate that the cluster assigned to this node may be applied. Its number does not rank it: a cluster that
    /// rolls back assigns an earlier document.
    pub fn admit_assigned(&self, hash: &str) -> Admission {
        match self.admit(0, hash) {
            Admission::Outranked { .. } => Admission::Accept,
            admission => admission,
        }
    }

    /// Whether a signed candidate may be applied: like [`Self::admit`], and not if this machine accepted a newer one before.
    pub fn admit_signed(&self, machine: &str, number: u64, hash: &str) -> Admission {
        let is_in_force = self.in_force().is_some_and(|now| now.hash == hash);
        match self.signed_by(machine) {
            Some(signed) if !is_in_force && signed.hash != hash && signed.number >= number => {
                Admission::Replayed { by: signed.number }
            }
            _ => self.admit(number, hash),
        }
    }

    /// Records that a signed candidate was accepted.
    pub fn note_signed(&mut self, machine: &str, number: u64, hash: &str, binding: Binding) {
        if self.signed_by(machine).is_none_or(|signed| signed.number < number) {
            self.signed = Some(SignedRecord { machine: machine.to_owned(), number, hash: hash.to_owned(), binding });
        }
    }

    /// The record of this machine.
    pub fn signed_by(&self, machine: &str) -> Option<&SignedRecord> {
        self.signed.as_ref().filter(|signed| signed.machine == machine)
    }

    /// Puts a generation in force, on trial. A generation that was on trial until now never passed its gates and is forgotten. `boot` is
    /// the kernel's id of this boot.
    pub fn start_trial(&mut self, generation: Generation, boot: &str) {
        self.trial = Some(Trial { generation, restarts: 0, boot: boot.to_owned() });
    }

    /// Commits the generation on trial.
    pub fn commit(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.committed = Some(trial.generation);
        }
    }

    /// Counts a reboot if the trial was last seen in another boot. Returns the revert if it was one reboot too many. A restart of a unit has
    /// the same boot id and does not count. An unknown id counts: a crash of the machine must not go unnoticed.
    pub fn note_boot(&mut self, boot: &str) -> Option<Revert> {
        let trial = self.trial.as_mut()?;
        if !boot.is_empty() && trial.boot == boot {
            return None;
        }
        boot.clone_into(&mut trial.boot);
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

    const BOOT: &str = "boot-1";

    fn generation(number: u64) -> Generation {
        Generation { number, hash: format!("h{number}"), folder: number.to_string(), source: "imds".to_owned() }
    }

    fn committed(number: u64) -> State {
        let mut state = State::default();
        state.start_trial(generation(number), BOOT);
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
        state.start_trial(generation(5), BOOT);
        assert_eq!(state.admit(4, "h4"), Admission::Outranked { by: 5 });
        assert_eq!(State::default().admit(0, "h"), Admission::Accept);
    }

    #[test]
    fn failed_trial_is_reverted_once_and_not_applied_again_automatically() {
        let mut state = committed(1);
        state.start_trial(generation(2), BOOT);
        assert_eq!(state.fail_trial("no kubelet"), Revert::To(generation(1)));
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.fail_trial("still none"), Revert::NoTrial);
        assert_eq!(state.admit(2, "h2"), Admission::Rejected { reason: "no kubelet".to_owned() });
        assert_eq!(state.admit(3, "h3"), Admission::Accept);
        state.clear_rejection("h2");
        assert_eq!(state.admit(2, "h2"), Admission::Accept);
    }

    #[test]
    fn assigned_document_may_have_any_number_but_must_not_be_rejected() {
        let mut state = committed(3);
        assert_eq!(state.admit_assigned("h3"), Admission::InForce);
        assert_eq!(state.admit_assigned("h2"), Admission::Accept, "a lower number, or the same number, is accepted");
        state.start_trial(generation(5), BOOT);
        assert_eq!(state.admit_assigned("h5"), Admission::InForce, "on trial");
        state.fail_trial("no kubelet");
        assert_eq!(state.admit_assigned("h5"), Admission::Rejected { reason: "no kubelet".to_owned() });
        state.clear_rejection("h5");
        assert_eq!(state.admit_assigned("h5"), Admission::Accept);
        assert_eq!(State::default().admit_assigned("h1"), Admission::Accept);
    }

    #[test]
    fn first_generation_has_no_previous_one() {
        let mut state = State::default();
        state.start_trial(generation(1), BOOT);
        assert_eq!(state.fail_trial("no kubelet"), Revert::NoPrevious);
        assert_eq!(state.in_force(), Some(&generation(1)));
        assert_eq!(state.admit(2, "h2"), Admission::Accept, "a newer document is still accepted");
    }

    #[test]
    fn trial_survives_one_reboot_but_not_two() {
        let mut state = committed(1);
        assert_eq!(state.note_boot("boot-2"), None);
        state.start_trial(generation(2), "boot-2");
        assert_eq!(state.note_boot("boot-3"), None);
        assert_eq!(state.in_force(), Some(&generation(2)));
        assert_eq!(state.note_boot("boot-4"), Some(Revert::To(generation(1))));
        assert_eq!(state.note_boot("boot-5"), None, "at most once");
    }

    #[test]
    fn restarts_of_a_unit_in_the_same_boot_are_not_reboots() {
        let mut state = committed(1);
        state.start_trial(generation(2), "boot-2");
        for _ in 0..5 {
            assert_eq!(state.note_boot("boot-2"), None);
        }
        assert_eq!(state.trial.as_ref().map(|trial| trial.restarts), Some(0));
        assert_eq!(state.note_boot("boot-3"), None);
        assert_eq!(state.note_boot("boot-3"), None, "the first reboot, seen twice");
        assert!(state.note_boot("boot-4").is_some());
    }

    #[test]
    fn reboot_with_an_unknown_boot_id_counts() {
        let mut state = committed(1);
        state.start_trial(generation(2), "");
        assert_eq!(state.note_boot(""), None);
        assert_eq!(state.note_boot(""), Some(Revert::To(generation(1))));
    }

    #[test]
    fn revert_skips_generations_that_were_never_committed() {
        let mut state = committed(1);
        state.start_trial(generation(2), BOOT);
        state.start_trial(generation(3), BOOT);
        assert_eq!(state.fail_trial("dns"), Revert::To(generation(1)));
    }

    #[test]
    fn only_the_latest_rejections_are_kept() {
        let mut state = committed(1);
        for number in 2..20 {
            state.start_trial(generation(number), BOOT);
            state.fail_trial("bad");
        }
        assert_eq!(state.rejected.len(), REJECTIONS);
        assert_eq!(state.admit(19, "h19"), Admission::Rejected { reason: "bad".to_owned() });
    }

    #[test]
    fn state_round_trips_through_json_and_default_is_an_empty_object() {
        let mut state = committed(1);
        state.start_trial(generation(2), BOOT);
        let text = serde_json::to_string(&state).expect("json");
        assert_eq!(serde_json::from_str::<State>(&text).expect("read"), state);
        assert_eq!(serde_json::to_string(&State::default()).expect("json"), "{}");
    }

    #[test]
    fn older_signed_document_is_refused_even_after_a_revert_and_a_restart() {
        let mut state = committed(3);
        state.note_signed("vm", 3, "h3", Binding::default());
        state.start_trial(generation(5), BOOT);
        state.note_signed("vm", 5, "h5", Binding::default());
        state.fail_trial("no kubelet");
        let text = serde_json::to_string(&state).expect("json");
        let state: State = serde_json::from_str(&text).expect("read");
        assert_eq!(state.admit(4, "h4"), Admission::Accept, "unsigned documents are only ranked");
        assert_eq!(state.admit_signed("vm", 4, "h4"), Admission::Replayed { by: 5 });
        assert_eq!(state.admit_signed("vm", 5, "other"), Admission::Replayed { by: 5 });
        assert_eq!(state.admit_signed("vm", 3, "h3"), Admission::InForce);
        assert_eq!(state.admit_signed("vm", 5, "h5"), Admission::Rejected { reason: "no kubelet".to_owned() });
        assert_eq!(state.admit_signed("vm", 6, "h6"), Admission::Accept);
        assert_eq!(state.admit_signed("clone", 4, "h4"), Admission::Accept, "a clone has its own history");
    }

    #[test]
    fn record_of_signed_documents_never_goes_back() {
        let mut state = State::default();
        state.note_signed("vm", 5, "h5", Binding::default());
        state.note_signed("vm", 4, "h4", Binding::default());
        assert_eq!(state.signed_by("vm").map(|signed| signed.number), Some(5));
        state.note_signed("clone", 1, "h1", Binding::default());
        assert_eq!((state.signed_by("vm"), state.signed_by("clone").map(|signed| signed.number)), (None, Some(1)));
    }

    #[test]
    fn rejections_of_an_earlier_version_are_kept() {
        let text = r#"{"refused": [{"number": 2, "hash": "h2", "reason": "no kubelet"}]}"#;
        let state: State = serde_json::from_str(text).expect("read");
        assert_eq!(state.admit(2, "h2"), Admission::Rejected { reason: "no kubelet".to_owned() });
    }
}
