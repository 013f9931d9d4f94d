//! Decisions about a NodeState. Pure.

use kiln_node_config::Effect;
use kiln_node_config::node_state::{NodeStateSpec, RequestedAction};
use kiln_node_plan::{Plan, PlanAction, Request, State};

use super::memory::{Assignment, Memory};

/// The next step for the assigned document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// No document is assigned: user data counts.
    UserData,
    /// Nothing to do until the NodeState or the node changes.
    Wait,
    /// Read the NodeConfig and assess its document.
    Read(Assessment),
}

/// The parts of a NodeState on which the assessment of a document depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assessment {
    pub(super) assignment: Assignment,
    pub(super) node_config: String,
    /// Whether the cluster allows the document.
    pub(super) is_allowed: bool,
}

/// The next step. `assessed` is the last assessment since the start of kilnd.
pub(super) fn next(spec: &NodeStateSpec, memory: &Memory, state: &State, assessed: Option<&Assessment>) -> Next {
    let Some(desired) = &spec.desired else { return Next::UserData };
    let assignment = Assignment::from(desired);
    let is_in_force = state.in_force().is_some_and(|now| now.hash == assignment.digest);
    if is_in_force || memory.failure().is_some() || memory.applied.as_ref() == Some(&assignment) {
        return Next::Wait;
    }
    let is_allowed = spec.allow.as_ref() == Some(&assignment.digest);
    let assessment = Assessment { assignment, node_config: desired.node_config.clone(), is_allowed };
    if assessed == Some(&assessment) { Next::Wait } else { Next::Read(assessment) }
}

/// The action that an assigned document waits for; none if the node may apply it by itself. The cluster decides when a node is drained, rebooted or
/// replaced, also where the document would let the node do so by itself: budgets and windows are the cluster's.
pub(super) fn needed(plan: &Plan) -> Option<RequestedAction> {
    needed_for(plan.action(), plan.effect, &plan.requests)
}

fn needed_for(action: PlanAction, effect: Effect, requests: &[Request]) -> Option<RequestedAction> {
    match (action, effect) {
        (PlanAction::Nothing, _) => None,
        _ if requests.contains(&Request::Replace) => Some(RequestedAction::Replace),
        (_, Effect::Replace) => Some(RequestedAction::Replace),
        (_, Effect::Reboot) => Some(RequestedAction::Reboot),
        (_, Effect::Drain) => Some(RequestedAction::Drain),
        (PlanAction::Request | PlanAction::Paused, _) => Some(RequestedAction::Apply),
        (PlanAction::Apply, _) => None,
    }
}

/// Whether the machine has to reboot now: the cluster wants it to leave this boot, and no reboot was started in it.
pub(super) fn must_reboot(spec: &NodeStateSpec, boot: &str, memory: &Memory) -> bool {
    !boot.is_empty() && spec.reboot.as_deref() == Some(boot) && memory.rebooted.as_deref() != Some(boot)
}

/// Whether this can be the name of an object. A name is part of a URL.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use kiln_node_config::node_state::Desired;
    use kiln_node_plan::Generation;

    use super::*;

    fn spec(digest: &str) -> NodeStateSpec {
        let desired = Desired {
            node_config: "web".to_owned(),
            digest: digest.to_owned(),
            since: "1".to_owned(),
            ..Desired::default()
        };
        NodeStateSpec { desired: Some(desired), ..NodeStateSpec::default() }
    }

    fn state(digest: &str) -> State {
        let mut state = State::default();
        let (hash, folder, source) = (digest.to_owned(), "1".to_owned(), "user data".to_owned());
        state.start_trial(Generation { number: 1, hash, folder, source }, "boot");
        state
    }

    fn memory(spec: &NodeStateSpec) -> Memory {
        let mut memory = Memory::default();
        memory.assign(spec.desired.as_ref());
        memory
    }

    fn read(next: Next) -> Assessment {
        match next {
            Next::Read(assessment) => assessment,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn assigned_document_is_read_once_and_again_when_it_is_allowed() {
        let mut spec = spec("b");
        let (memory, state) = (memory(&spec), state("a"));
        let first = read(next(&spec, &memory, &state, None));
        assert_eq!((first.node_config.as_str(), first.is_allowed), ("web", false));
        assert_eq!(next(&spec, &memory, &state, Some(&first)), Next::Wait);
        spec.allow = Some("c".to_owned());
        assert_eq!(next(&spec, &memory, &state, Some(&first)), Next::Wait, "another document is allowed");
        spec.allow = Some("b".to_owned());
        assert!(read(next(&spec, &memory, &state, Some(&first))).is_allowed);
    }

    #[test]
    fn document_in_force_failed_or_replaced_by_a_person_is_left_alone() {
        let spec = spec("b");
        assert_eq!(next(&spec, &memory(&spec), &state("b"), None), Next::Wait);
        let mut failed = memory(&spec);
        failed.fail("b", "invalid");
        assert_eq!(next(&spec, &failed, &state("a"), None), Next::Wait);
        let mut applied = memory(&spec);
        applied.note_state(&state("b"));
        assert_eq!(next(&spec, &applied, &state("of a person"), None), Next::Wait);
        let mut again = spec.clone();
        again.desired.as_mut().expect("desired").since = "2".to_owned();
        assert!(failed.assign(again.desired.as_ref()));
        read(next(&again, &failed, &state("a"), None));
        assert_eq!(next(&NodeStateSpec::default(), &failed, &state("a"), None), Next::UserData);
    }

    #[test]
    fn cluster_decides_about_drains_and_reboots_whatever_the_document_allows() {
        use PlanAction::{Apply, Nothing, Paused, Request as Ask};
        for (action, effect, requests, expected) in [
            (Apply, Effect::Restart, vec![], None),
            (Apply, Effect::Cluster, vec![], None),
            (Nothing, Effect::Drain, vec![], None),
            (Apply, Effect::Drain, vec![], Some(RequestedAction::Drain)),
            (Ask, Effect::Drain, vec![Request::Drain], Some(RequestedAction::Drain)),
            (Apply, Effect::Reboot, vec![], Some(RequestedAction::Reboot)),
            (Ask, Effect::Replace, vec![Request::Replace], Some(RequestedAction::Replace)),
            (Ask, Effect::Restart, vec![Request::Restart], Some(RequestedAction::Apply)),
            (Paused, Effect::Reload, vec![], Some(RequestedAction::Apply)),
            (Paused, Effect::Drain, vec![], Some(RequestedAction::Drain)),
        ] {
            assert_eq!(needed_for(action, effect, &requests), expected, "{action:?} {effect:?}");
        }
    }

    #[test]
    fn machine_reboots_once_and_only_out_of_the_named_boot() {
        let asks = |boot: &str| NodeStateSpec { reboot: Some(boot.to_owned()), ..NodeStateSpec::default() };
        let mut memory = Memory::default();
        assert!(must_reboot(&asks("one"), "one", &memory));
        assert!(!must_reboot(&asks("one"), "two", &memory), "it has rebooted");
        assert!(!must_reboot(&NodeStateSpec::default(), "one", &memory));
        assert!(!must_reboot(&asks(""), "", &memory), "an unknown boot");
        memory.rebooted = Some("one".to_owned());
        assert!(!must_reboot(&asks("one"), "one", &memory), "never twice");
    }

    #[test]
    fn name_cannot_leave_its_url() {
        assert!(is_name("web-7") && is_name("a.b"));
        for name in ["", "../nodes/x", "a/b", "a?b", "A", ".", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
