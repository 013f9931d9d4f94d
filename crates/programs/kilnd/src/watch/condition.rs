//! The condition `KilnConfigured` of the Node.

use crate::apiserver::{Condition, ConditionStatus};
use kiln_node_plan::State;

use super::requests::Requests;

/// The type of the condition.
pub(super) const CONDITION: &str = "KilnConfigured";

/// The result of the last candidate, if it is worth reporting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum CandidateOutcome {
    #[default]
    None,
    /// It is invalid, or may not be applied.
    Rejected(String),
    /// It was applied and reverted.
    Reverted(String),
    Failed(String),
    /// `spec.update.paused` is set.
    Paused(String),
    /// It waits for this machine's delay.
    Waiting(String),
}

/// The condition. Problems come first, each with the generation in force.
pub(super) fn condition(
    state: &State,
    requests: &Requests,
    candidate: &CandidateOutcome,
    overdue: Option<&str>,
) -> Condition {
    let Some(now) = state.in_force() else {
        return Condition::new(CONDITION, ConditionStatus::False, "NoDocument", "no generation is in force");
    };
    let in_force = format!("generation {} is in force", now.number);
    let (status, reason, message) = match (overdue, candidate) {
        (Some(why), _) => (
            ConditionStatus::False,
            "Unhealthy",
            format!("{in_force} but not healthy ({why}), and no earlier generation exists"),
        ),
        (None, CandidateOutcome::Rejected(why)) => (ConditionStatus::False, "Rejected", format!("{why}; {in_force}")),
        (None, CandidateOutcome::Reverted(why)) => (ConditionStatus::False, "Reverted", format!("{why}; {in_force}")),
        (None, CandidateOutcome::Failed(why)) => (ConditionStatus::False, "Failed", format!("{why}; {in_force}")),
        _ if !requests.lines().is_empty() => (
            ConditionStatus::False,
            "Pending",
            format!("waiting for the cluster: {}; {in_force}", requests.lines().join("; ")),
        ),
        _ if state.trial.is_some() => (ConditionStatus::Unknown, "OnTrial", format!("{in_force}, on trial")),
        (None, CandidateOutcome::Paused(what) | CandidateOutcome::Waiting(what)) => {
            (ConditionStatus::True, "Committed", format!("{in_force}; {what}"))
        }
        (None, CandidateOutcome::None) => (ConditionStatus::True, "Committed", in_force),
    };
    Condition::new(CONDITION, status, reason, &message)
}

#[cfg(test)]
mod tests {
    use kiln_node_plan::Generation;

    use super::super::requests::PendingRequest;
    use super::*;

    fn state() -> State {
        let mut state = State::default();
        let (hash, folder, source) = ("h".to_owned(), "7-h".to_owned(), "user data".to_owned());
        state.start_trial(Generation { number: 7, hash, folder, source }, "boot");
        state
    }

    fn parts(state: &State, requests: &Requests, candidate: &CandidateOutcome) -> (ConditionStatus, String, String) {
        let condition = condition(state, requests, candidate, None);
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn condition_is_true_only_for_a_committed_generation_without_pending_requests() {
        let none = Requests::default();
        assert_eq!(parts(&State::default(), &none, &CandidateOutcome::None).0, ConditionStatus::False);
        let mut state = state();
        assert_eq!(parts(&state, &none, &CandidateOutcome::None).0, ConditionStatus::Unknown);
        state.commit();
        assert_eq!(
            parts(&state, &none, &CandidateOutcome::None),
            (ConditionStatus::True, "Committed".to_owned(), "generation 7 is in force".to_owned())
        );
        let act = Some(PendingRequest { kind: "drain".to_owned(), generation: 8, hash: "x".to_owned() });
        let (status, reason, message) =
            parts(&state, &Requests { act, ..Requests::default() }, &CandidateOutcome::None);
        assert_eq!((status, reason.as_str()), (ConditionStatus::False, "Pending"));
        assert!(message.contains("drain: generation 8") && message.contains("generation 7 is in force"), "{message}");
    }

    #[test]
    fn problems_come_first_with_the_generation_in_force() {
        let why = "no kubelet".to_owned();
        for (candidate, reason) in [
            (CandidateOutcome::Rejected(why.clone()), "Rejected"),
            (CandidateOutcome::Reverted(why.clone()), "Reverted"),
            (CandidateOutcome::Failed(why.clone()), "Failed"),
        ] {
            let (status, found, message) = parts(&state(), &Requests::default(), &candidate);
            assert_eq!((status, found.as_str()), (ConditionStatus::False, reason));
            assert_eq!(message, "no kubelet; generation 7 is in force");
        }
        let overdue = condition(&state(), &Requests::default(), &CandidateOutcome::None, Some("no kubelet"));
        assert_eq!((overdue.status, overdue.reason.as_str()), (ConditionStatus::False, "Unhealthy"));
    }
}
