//! What a node says of its configuration: one condition, in one word and one sentence.

use crate::apiserver::{Condition, Truth};
use kiln_node_plan::State;

use super::requests::Wishes;

/// The type of the condition.
pub(super) const CONDITION: &str = "KilnConfigured";

/// What became of the document that was offered last, where that is worth saying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing.
    #[default]
    None,
    /// It was not taken.
    Refused(String),
    /// It was taken and came back.
    CameBack(String),
    /// It could not be put in force.
    Failed(String),
    /// It says to report only.
    Paused(String),
    /// It waits for this machine's turn.
    Waits(String),
}

/// What a node says of its configuration.
pub(super) fn condition(state: &State, wishes: &Wishes, news: &News, overdue: Option<&str>) -> Condition {
    let Some(now) = state.in_force() else {
        return Condition::new(CONDITION, Truth::False, "NoDocument", "no document is in force");
    };
    let in_force = format!("generation {} is in force", now.number);
    let (status, reason, message) = match (overdue, news) {
        (Some(why), _) => {
            (Truth::False, "Unhealthy", format!("{in_force} and not healthy ({why}); there is none before it"))
        }
        (None, News::Refused(why)) => (Truth::False, "Refused", format!("{why}; {in_force}")),
        (None, News::CameBack(why)) => (Truth::False, "CameBack", format!("{why}; {in_force}")),
        (None, News::Failed(why)) => (Truth::False, "Failed", format!("{why}; {in_force}")),
        _ if !wishes.lines().is_empty() => {
            (Truth::False, "Pending", format!("the cluster is asked for {}; {in_force}", wishes.lines().join("; ")))
        }
        _ if state.trial.is_some() => (Truth::Unknown, "OnTrial", format!("{in_force}, on trial")),
        (None, News::Paused(what) | News::Waits(what)) => (Truth::True, "Confirmed", format!("{in_force}; {what}")),
        (None, News::None) => (Truth::True, "Confirmed", in_force),
    };
    Condition::new(CONDITION, status, reason, &message)
}

#[cfg(test)]
mod tests {
    use kiln_node_plan::Generation;

    use super::super::requests::Waiting;
    use super::*;

    fn state() -> State {
        let mut state = State::default();
        let (hash, folder, source) = ("h".to_owned(), "7-h".to_owned(), "user data".to_owned());
        state.tried(Generation { number: 7, hash, folder, source });
        state
    }

    fn said(state: &State, wishes: &Wishes, news: &News) -> (Truth, String, String) {
        let said = condition(state, wishes, news, None);
        (said.status, said.reason, said.message)
    }

    #[test]
    fn a_condition_is_true_only_when_what_is_in_force_is_confirmed_and_nothing_is_pending() {
        let nothing = Wishes::default();
        assert_eq!(said(&State::default(), &nothing, &News::None).0, Truth::False);
        let mut state = state();
        assert_eq!(said(&state, &nothing, &News::None).0, Truth::Unknown);
        state.confirmed();
        assert_eq!(
            said(&state, &nothing, &News::None),
            (Truth::True, "Confirmed".to_owned(), "generation 7 is in force".to_owned())
        );
        let act = Some(Waiting { kind: "drain".to_owned(), generation: 8, hash: "x".to_owned() });
        let (status, reason, message) = said(&state, &Wishes { act, ..Wishes::default() }, &News::None);
        assert_eq!((status, reason.as_str()), (Truth::False, "Pending"));
        assert!(message.contains("drain: generation 8") && message.contains("generation 7 is in force"), "{message}");
    }

    #[test]
    fn what_went_wrong_is_said_before_everything_else_with_what_is_in_force() {
        let why = "no kubelet".to_owned();
        for (news, reason) in [
            (News::Refused(why.clone()), "Refused"),
            (News::CameBack(why.clone()), "CameBack"),
            (News::Failed(why.clone()), "Failed"),
        ] {
            let (status, said, message) = said(&state(), &Wishes::default(), &news);
            assert_eq!((status, said.as_str()), (Truth::False, reason));
            assert_eq!(message, "no kubelet; generation 7 is in force");
        }
        let overdue = condition(&state(), &Wishes::default(), &News::None, Some("no kubelet"));
        assert_eq!((overdue.status, overdue.reason.as_str()), (Truth::False, "Unhealthy"));
    }
}
