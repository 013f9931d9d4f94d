//! A node as a rollout sees it, from what its kilnd writes to the Node object: annotations and the condition `KilnConfigured`.

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Current, Desired, Effect, NodeStateStatus, Phase, RequestedAction, Requests, Reverted};
use kiln_rollout::NodeObserved;
use kiln_types::{Node, NodeCondition};

use super::record::{PushedNode, text};

/// Number and hash of the document in force, written by kilnd.
const IN_FORCE: &str = "kiln.dev/node-config";
/// A changed value makes kilnd read its user data when it next reads the Node, within half a minute.
pub(super) const CHECK: &str = "kiln.dev/node-config-check";
/// Digest of the document that the node may apply although it waits for consent.
pub(super) const ALLOW: &str = "kiln.dev/node-config-allow";
/// The condition that kilnd writes.
const CONDITION: &str = "KilnConfigured";

/// kilnd reads the Node every 30 s, and then its user data. A condition that has not changed for longer is its answer to the new document.
const ANSWER: SignedDuration = SignedDuration::from_mins(2);

/// Number and hash of the document in force.
pub(super) fn in_force(node: &Node) -> Option<(u64, &str)> {
    let (number, hash) = node.annotations.get(IN_FORCE)?.split_once(' ')?;
    Some((number.parse().ok()?, hash))
}

/// The condition that kilnd wrote.
pub(super) fn condition(node: &Node) -> Option<&NodeCondition> {
    node.conditions.get(CONDITION)
}

/// Whether a document is in force and committed. The annotation is written before the condition, so both have to name it.
pub(super) fn is_committed(node: &Node, digest: &str) -> bool {
    in_force(node).is_some_and(|(_, hash)| hash == digest) && reason(node) == Some("Committed")
}

/// The reason of the condition, if it is about the document in force.
fn reason(node: &Node) -> Option<&str> {
    let ((number, _), condition) = (in_force(node)?, condition(node)?);
    let is_current = condition.message.contains(&format!("generation {number} is in force"));
    is_current.then_some(condition.reason.as_str())
}

/// The kind of the request for which a document waits.
fn pending<'k>(node: &Node, digest: &str, kinds: &[&'k str]) -> Option<&'k str> {
    let is_pending = |kind: &&&str| {
        let value = node.annotations.get(&format!("kiln.dev/pending-{kind}"));
        value.is_some_and(|value| value.contains(&format!("({digest})")))
    };
    kinds.iter().find(is_pending).copied()
}

/// The node, for `kiln_rollout::next`. `pushed` is its entry in the record, if it has started.
pub(super) fn observe(
    node: &Node,
    pool: &str,
    pushed: Option<&PushedNode>,
    digest: &str,
    effect: Option<Effect>,
    now: Timestamp,
) -> NodeObserved {
    let statuses = || node.conditions.iter().map(|(name, one)| (name.clone(), one.status.clone())).collect();
    let answer = pushed.map_or_else(|| without_push(node, digest), |pushed| answer(node, pushed, digest, now));
    let current = in_force(node).map(|(generation, hash)| Current {
        digest: hash.to_owned(),
        generation,
        source: "user data".to_owned(),
        committed: is_committed(node, hash),
    });
    let message = condition(node).map(|one| one.message.clone()).unwrap_or_default();
    let status = NodeStateStatus {
        phase: answer.as_ref().map(Answer::phase).unwrap_or_default(),
        message,
        current,
        requests: match answer {
            Some(Answer::Waits) => {
                Requests { action: Some(RequestedAction::Apply), digest: digest.to_owned(), ..Requests::default() }
            }
            _ => Requests::default(),
        },
        reverted: match &answer {
            Some(Answer::Failed(reason)) => Some(Reverted { digest: digest.to_owned(), reason: reason.clone() }),
            _ => None,
        },
        boot_id: node.boot_id.clone().unwrap_or_default(),
        ..NodeStateStatus::default()
    };
    // A node that has the document without this push is up to date.
    let elsewhere = || {
        let is_there = answer.as_ref().is_some_and(|answer| matches!(answer, Answer::Committed));
        is_there.then(|| Desired { digest: digest.to_owned(), ..Desired::default() })
    };
    NodeObserved {
        name: node.name.to_string(),
        pool: pool.to_owned(),
        labels: node.labels.clone(),
        ready: node.is_ready(),
        ready_since: node.ready_since,
        cordoned: node.cordoned,
        desired: pushed.map(|pushed| pushed.desired.clone()).or_else(elsewhere),
        allow: node.annotations.get(ALLOW).filter(|value| *value == digest).cloned(),
        observed: answer.is_some(),
        status,
        daemon_sets_ready: true,
        conditions: statuses(),
        conditions_before: pushed.map_or_else(statuses, |pushed| pushed.conditions.clone()),
        expected_effect: effect,
        ..NodeObserved::default()
    }
}

/// kilnd's answer to the document of the push.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    OnTrial,
    Committed,
    /// It may be applied in place, and the document in force wants consent for that.
    Waits,
    Failed(String),
}

impl Answer {
    fn phase(&self) -> Phase {
        match self {
            Self::OnTrial => Phase::OnTrial,
            Self::Committed => Phase::Current,
            Self::Waits => Phase::Pending,
            Self::Failed(_) => Phase::Reverted,
        }
    }
}

fn without_push(node: &Node, digest: &str) -> Option<Answer> {
    is_committed(node, digest).then_some(Answer::Committed)
}

/// The answer of a node that has started; none until kilnd has read the document.
fn answer(node: &Node, pushed: &PushedNode, digest: &str, now: Timestamp) -> Option<Answer> {
    if let Some(kind) = pending(node, digest, &["drain", "reboot", "replace"]) {
        let reason = format!("the change needs a {kind} of the node, and a push only changes nodes in place");
        return Some(Answer::Failed(reason));
    }
    let condition = condition(node)?;
    if in_force(node).is_some_and(|(_, hash)| hash == digest) {
        return match reason(node)? {
            "Committed" => Some(Answer::Committed),
            // With labels or taints that the cluster has to set, the condition hides the end of the trial.
            "OnTrial" | "Pending" => Some(Answer::OnTrial),
            "Unhealthy" => Some(Answer::Failed(condition.message.clone())),
            _ => None,
        };
    }
    if pending(node, digest, &["reload", "restart"]).is_some() {
        return Some(Answer::Waits);
    }
    let is_failure = matches!(condition.reason.as_str(), "Rejected" | "Reverted" | "Failed");
    (is_failure && is_new(condition, pushed, now)).then(|| Answer::Failed(condition.message.clone()))
}

/// Whether a condition was written after the document was.
fn is_new(condition: &NodeCondition, pushed: &PushedNode, now: Timestamp) -> bool {
    let since = pushed.desired.since.parse::<Timestamp>().unwrap_or(now);
    text(Some(condition)) != pushed.condition || now.duration_since(since) >= ANSWER
}

#[cfg(test)]
mod tests;
