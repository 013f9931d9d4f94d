//! The status of documents, policies and freezes.

use jiff::Timestamp;
use kiln_fleet_api::{
    Condition, Freeze, FreezeStatus, NodeConfig, NodeConfigStatus, RolloutPolicy, RolloutPolicyStatus, WaitReason,
    condition,
};
use kiln_rollout::Policy;

use super::documents::Documents;
use super::index::until;
use super::observe::{is_open, policy_name};
use super::pools::{count, set_condition};
use super::stores::Snapshots;

/// The status of a NodeConfig. `nodes` is the number of nodes on which it is in force.
pub(super) fn config_status(
    name: &str,
    config: &NodeConfig,
    nodes: usize,
    documents: &Documents,
    now: Timestamp,
) -> NodeConfigStatus {
    let mut status = config.status.clone().unwrap_or_default();
    let generation = config.metadata.generation;
    status.observed_generation = generation;
    status.nodes = Some(count(nodes));
    let (is_valid, reason, message) = match documents.get(name) {
        Some(Ok(document)) => {
            status.digest.clone_from(&document.digest);
            status.document_generation = i64::try_from(document.config.metadata.generation).ok();
            (true, "Valid", "the document is valid".to_owned())
        }
        Some(Err(error)) => {
            status.digest.clear();
            let message = format!("the document is invalid: {error}; create a NodeConfig with a correct document");
            (false, "Invalid", message)
        }
        None => (false, "Unread", "the document has not been read".to_owned()),
    };
    set_condition(&mut status.conditions, condition::READY, is_valid, reason, message, generation, now);
    status
}

/// The status of a RolloutPolicy.
pub(super) fn policy_status(
    name: &str,
    policy: &RolloutPolicy,
    view: &Snapshots,
    now: Timestamp,
) -> RolloutPolicyStatus {
    let mut status = policy.status.clone().unwrap_or_default();
    let generation = policy.metadata.generation;
    status.observed_generation = generation;
    let users = view.rollouts.iter().filter(|(_, rollout)| is_open(rollout));
    let users = users.filter(|(_, rollout)| policy_name(rollout, view).as_deref() == Some(name));
    status.used_by = users.map(|(name, _)| name.clone()).collect();
    let (is_valid, reason, message) = match Policy::parse(&policy.spec) {
        Ok(_) => (true, "Valid", "the policy is valid".to_owned()),
        Err(error) => (false, "Invalid", format!("{error}; correct the field")),
    };
    set_condition(&mut status.conditions, condition::READY, is_valid, reason, message, generation, now);
    status
}

/// The status of a Freeze.
pub(super) fn freeze_status(freeze: &Freeze, view: &Snapshots, now: Timestamp) -> FreezeStatus {
    let mut status = freeze.status.clone().unwrap_or_default();
    let generation = freeze.metadata.generation;
    status.observed_generation = generation;
    let has_ended = until(freeze).is_some_and(|until| until <= now);
    let waits = |rollout: &kiln_fleet_api::Rollout| {
        let waiting = rollout.status.as_ref().and_then(|status| status.waiting_for.as_ref());
        let shares =
            freeze.spec.pools.is_empty() || rollout.spec.pools.iter().any(|pool| freeze.spec.pools.contains(pool));
        is_open(rollout) && shares && waiting.is_some_and(|waiting| waiting.reason == WaitReason::Freeze)
    };
    let affected = view.rollouts.iter().filter(|(_, rollout)| !has_ended && waits(rollout));
    status.affected = affected.map(|(name, _)| name.clone()).collect();
    let (is_ready, reason, message) = match &freeze.spec.until {
        Some(text) if until(freeze).is_none() => {
            let message = format!(
                "`until` is `{text}`, which is not a time such as `2026-12-24T18:00:00Z`; the freeze lasts until it is deleted"
            );
            (false, "InvalidUntil", message)
        }
        Some(text) if has_ended => (true, "Ended", format!("the freeze ended at {text}")),
        _ => (true, "InForce", freeze.spec.reason.clone()),
    };
    set_condition(&mut status.conditions, condition::READY, is_ready, reason, message, generation, now);
    status
}

/// The reason and message of the condition Ready, if it is False now and was not False for this reason before.
pub(super) fn new_problem<'a>(before: &[Condition], after: &'a [Condition]) -> Option<(&'a str, &'a str)> {
    let ready = |conditions: &'a [Condition]| conditions.iter().find(|condition| condition.type_ == condition::READY);
    let now = ready(after).filter(|condition| condition.status == "False")?;
    let old = before.iter().find(|condition| condition.type_ == condition::READY);
    let is_known =
        old.is_some_and(|old| old.status == "False" && old.reason == now.reason && old.message == now.message);
    (!is_known).then_some((now.reason.as_str(), now.message.as_str()))
}
