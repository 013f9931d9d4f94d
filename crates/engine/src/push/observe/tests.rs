use std::collections::BTreeMap;

use super::*;

const OLD: &str = "1111";
const NEW: &str = "2222";
const SINCE: &str = "2026-11-15T12:00:00Z";

/// A node with a document in force, and reason and message of its condition.
fn node(in_force: &str, reason: &str, message: &str) -> Node {
    let status = if reason == "Committed" { "True" } else { "False" };
    let condition = NodeCondition { status: status.to_owned(), reason: reason.to_owned(), message: message.to_owned() };
    Node {
        annotations: BTreeMap::from([(IN_FORCE.to_owned(), in_force.to_owned())]),
        conditions: BTreeMap::from([(CONDITION.to_owned(), condition)]),
        readiness: kiln_types::Readiness::Ready,
        ..Node::new("n".parse().unwrap())
    }
}

fn pushed(before: &Node) -> PushedNode {
    PushedNode {
        instance: "0".parse().unwrap(),
        vm_id: "v".to_owned(),
        desired: Desired {
            digest: NEW.to_owned(),
            rollout: "push".to_owned(),
            wave: 1,
            since: SINCE.to_owned(),
            ..Desired::default()
        },
        earlier: String::new(),
        condition: text(condition(before)),
        conditions: BTreeMap::new(),
        restored: false,
    }
}

fn after(seconds: i64) -> Timestamp {
    SINCE.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// Phase, whether kilnd has answered, and the reason of a failure, shortly after the document was written.
fn seen(node: &Node, before: &Node) -> (Phase, bool, Option<String>) {
    let seen = observe(node, "pool", Some(&pushed(before)), NEW, None, after(10));
    (seen.status.phase, seen.observed, seen.status.reverted.map(|one| one.reason))
}

#[test]
fn node_is_on_trial_and_then_current_when_annotation_and_condition_agree() {
    let before = node("1 1111", "Committed", "generation 1 is in force");
    assert_eq!(seen(&before, &before), (Phase::Idle, false, None));
    // kilnd writes the annotation first.
    let between = node("2 2222", "Committed", "generation 1 is in force");
    assert_eq!(seen(&between, &before), (Phase::Idle, false, None));
    let trial = node("2 2222", "OnTrial", "generation 2 is in force, on trial");
    assert_eq!(seen(&trial, &before), (Phase::OnTrial, true, None));
    let done = node("2 2222", "Committed", "generation 2 is in force");
    assert_eq!(seen(&done, &before), (Phase::Current, true, None));
    let current = observe(&done, "pool", Some(&pushed(&before)), NEW, None, after(10)).status.current.unwrap();
    assert!(current.committed);
    assert_eq!((current.digest.as_str(), current.generation), (NEW, 2));
}

#[test]
fn failures_of_the_document_count_and_older_ones_do_not() {
    let before = node("1 1111", "Committed", "generation 1 is in force");
    for reason in ["Rejected", "Reverted", "Failed"] {
        let message = format!("generation 2 {reason}; generation 1 is in force");
        let failed = node("1 1111", reason, &message);
        assert_eq!(seen(&failed, &before), (Phase::Reverted, true, Some(message)));
        // The condition was there before the document.
        assert_eq!(seen(&failed, &failed), (Phase::Idle, false, None));
        // kilnd has read the document meanwhile, and says the same about it.
        let late = observe(&failed, "pool", Some(&pushed(&failed)), NEW, None, after(120));
        assert_eq!(late.status.phase, Phase::Reverted);
    }
    let unhealthy = node("2 2222", "Unhealthy", "generation 2 is in force but not healthy");
    assert_eq!(seen(&unhealthy, &before).0, Phase::Reverted);
}

#[test]
fn node_that_asks_for_a_drain_fails_and_one_that_asks_for_consent_gets_it() {
    let before = node("1 1111", "Committed", "generation 1 is in force");
    let with = |kind: &str, digest: &str| {
        let mut asking = node("1 1111", "Pending", "waiting for the cluster; generation 1 is in force");
        asking.annotations.insert(format!("kiln.dev/pending-{kind}"), format!("generation 2 ({digest})"));
        asking
    };
    for kind in ["drain", "reboot", "replace"] {
        let (phase, observed, reason) = seen(&with(kind, NEW), &before);
        assert_eq!((phase, observed), (Phase::Reverted, true));
        assert!(reason.unwrap().contains(kind));
        // A request for another document.
        assert_eq!(seen(&with(kind, "3333"), &before), (Phase::Idle, false, None));
    }
    let asking = observe(&with("restart", NEW), "pool", Some(&pushed(&before)), NEW, None, after(1));
    assert_eq!((asking.status.phase, asking.status.requests.action), (Phase::Pending, Some(RequestedAction::Apply)));
    assert_eq!(asking.status.requests.digest, NEW);
}

#[test]
fn node_with_the_document_is_up_to_date_without_a_push() {
    let there = node("2 2222", "Committed", "generation 2 is in force");
    let seen = observe(&there, "pool", None, NEW, None, after(0));
    let desired = seen.desired.unwrap();
    assert_eq!((desired.digest.as_str(), desired.rollout.as_str(), seen.observed), (NEW, "", true));
    let other = observe(&node("1 1111", "Committed", "generation 1 is in force"), "pool", None, NEW, None, after(0));
    assert_eq!((other.desired, other.observed, other.status.current.unwrap().digest.as_str()), (None, false, OLD));
}
