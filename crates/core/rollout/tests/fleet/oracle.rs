//! An independent check of every act, from the true state of the fleet and the rules as a person reads them.
//!
//! It shares no code with the decision: budgets are counted anew for each act, and windows are compared with the hours in UTC.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use kiln_fleet_api::{Effect, Phase, RolloutPhase};
use kiln_rollout::{Act, Decision, NodeObserved, Observed};

use crate::model::{Fleet, NEW, Node, ROLLOUT, text};

/// The rules of a random rollout, for the check.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Nodes that may be unavailable, in all or per zone.
    pub(crate) limit: usize,
    pub(crate) per_zone: bool,
    pub(crate) one_zone: bool,
    /// Nodes with the effect `reboot` that may be unavailable.
    pub(crate) reboots: Option<usize>,
    /// Hours in UTC in which drains and reboots may begin.
    pub(crate) hours: Option<(i8, i8)>,
    pub(crate) failures: usize,
}

/// Nodes that were seen to have failed.
#[derive(Default)]
pub(crate) struct Seen {
    failed: BTreeSet<String>,
}

/// Returns what is wrong with a decision that is about to be carried out.
pub(crate) fn check(
    fleet: &Fleet,
    rules: &Rules,
    seen: &mut Seen,
    observed: &Observed,
    decision: &Decision,
    effective: &[&Act],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in observed.nodes.iter().filter(|node| has_reverted(node)) {
        seen.failed.insert(node.name.clone());
    }
    seen.failed.extend(decision.status.failed_nodes.iter().cloned());
    let starts: Vec<&&Act> = effective.iter().filter(|act| is_start(fleet, act)).collect();
    if seen.failed.len() >= rules.failures && starts.iter().any(|act| is_forward(fleet, act)) {
        wrong.push(format!("continues after {} failures", seen.failed.len()));
    }
    let is_frozen = observed.freezes.iter().any(|freeze| freeze.until.is_none_or(|until| until > fleet.now));
    if (fleet.spec.paused || is_frozen || fleet.spec.aborted) && starts.iter().any(|act| is_forward(fleet, act)) {
        wrong.push("starts although it is paused, frozen or aborted".to_owned());
    }
    wrong.extend(check_acts(fleet, rules, (observed, decision), effective));
    let moves = decision
        .acts
        .iter()
        .any(|act| !matches!(act, Act::Release { .. } | Act::CompletePool { .. } | Act::RejectDigest { .. }));
    let answer = decision.status.waiting_for.as_ref().is_some_and(|waiting| !waiting.message.is_empty());
    if !decision.status.phase.is_final() && !moves && !answer {
        wrong.push("waits without a reason".to_owned());
    }
    if decision.wake.is_some_and(|wake| wake <= fleet.now) {
        wrong.push("wakes in the past".to_owned());
    }
    wrong
}

/// Checks acts one after the other, each with the effects of those before it.
fn check_acts(fleet: &Fleet, rules: &Rules, seen: (&Observed, &Decision), acts: &[&Act]) -> Vec<String> {
    let mut wrong = Vec::new();
    if acts.is_empty() {
        return wrong;
    }
    let mut after = fleet.clone();
    for act in acts {
        if let Some(node) = act.node().and_then(|name| fleet.nodes.get(name)) {
            wrong.extend(check_act(&after, rules, seen, act, node).map(|what| format!("{what}: {}", text(act))));
        }
        after.perform(act);
    }
    wrong
}

fn check_act(
    fleet: &Fleet,
    rules: &Rules,
    (observed, decision): (&Observed, &Decision),
    act: &Act,
    node: &Node,
) -> Option<String> {
    let shown = &node.shown;
    let is_assigned = shown.desired.as_ref().is_some_and(|desired| desired.rollout == ROLLOUT && desired.digest == NEW);
    match act {
        Act::Assign { desired, .. } if desired.digest == NEW => {
            let others = fleet.nodes.values().filter_map(|node| node.shown.desired.as_ref());
            let in_wave = others.filter(|other| (other.rollout == ROLLOUT) && other.wave == desired.wave).count();
            let size = decision.status.waves.get(desired.wave as usize - 1).map_or(0, |wave| wave.size);
            if in_wave >= usize::try_from(size).unwrap_or_default() {
                return Some(format!("starts more than {size} nodes"));
            }
            if is_assigned {
                return Some("starts a node twice".to_owned());
            }
            if !shown.is_available() && observed.nodes.iter().any(|seen| seen == shown) {
                return Some("starts an unavailable node".to_owned());
            }
            over_budget(fleet, rules, observed, node, shown.expected_effect)
        }
        Act::Drain { .. } if !shown.held => {
            if let Some((from, to)) = rules.hours {
                let hour = TimeZone::UTC.to_datetime(fleet.now).hour();
                let is_open = if from < to { (from..to).contains(&hour) } else { hour >= from || hour < to };
                if !is_open {
                    return Some("drains outside the window".to_owned());
                }
            }
            over_budget(fleet, rules, observed, node, Some(node.effect))
        }
        Act::Allow { .. } if node.effect >= Effect::Drain && !(shown.held && shown.cordoned) => {
            Some("allows a change of a node that is not drained".to_owned())
        }
        Act::Reboot { .. } if !shown.held => Some("reboots a node that is not drained".to_owned()),
        _ => None,
    }
}

/// Counts the nodes that are unavailable, as the operator saw them, and those that kiln disturbs, as they are.
fn over_budget(
    fleet: &Fleet,
    rules: &Rules,
    observed: &Observed,
    node: &Node,
    effect: Option<Effect>,
) -> Option<String> {
    let zone = |node: &NodeObserved| node.labels["zone"].clone();
    let unavailable =
        observed.nodes.iter().filter(|seen| !seen.is_available()).map(|seen| (seen.name.clone(), zone(seen), None));
    let disturbed = fleet.nodes.values().filter(|node| is_disturbed(node));
    let disturbed: Vec<_> =
        disturbed.map(|node| (node.shown.name.clone(), zone(&node.shown), Some(node.effect))).collect();
    let own = (node.shown.name.clone(), zone(&node.shown), effect);
    let mut taken: BTreeSet<(String, String)> =
        unavailable.chain(disturbed.iter().cloned()).map(|(name, zone, _)| (name, zone)).collect();
    taken.insert((own.0.clone(), own.1.clone()));
    let here = taken.iter().filter(|(_, zone)| !rules.per_zone || *zone == own.1).count();
    if here > rules.limit {
        return Some(format!("{here} nodes unavailable, limit {}", rules.limit));
    }
    if rules.one_zone && disturbed.iter().any(|(_, zone, _)| *zone != own.1) {
        return Some("disturbs two zones".to_owned());
    }
    if let Some(limit) = rules.reboots.filter(|_| effect == Some(Effect::Reboot)) {
        let is_counted = |name: &str| {
            let is_rebooting =
                disturbed.iter().any(|(other, _, effect)| other == name && *effect == Some(Effect::Reboot));
            name == own.0 || is_rebooting || observed.nodes.iter().any(|seen| seen.name == name && !seen.is_available())
        };
        let rebooting = taken.iter().filter(|(name, _)| is_counted(name)).count();
        if rebooting > limit {
            return Some(format!("{rebooting} nodes reboot or are unavailable, limit {limit}"));
        }
    }
    None
}

/// Whether kiln disturbs a node: it is held, or kilnd changes it without waiting for the operator.
fn is_disturbed(node: &Node) -> bool {
    let shown = &node.shown;
    let is_ours = shown.desired.as_ref().is_some_and(|desired| desired.rollout == ROLLOUT);
    let asks = shown.status.phase == Phase::Pending && shown.allow.is_none();
    let has_ended = matches!(shown.status.phase, Phase::Current | Phase::Reverted);
    // A release changes the spec, but not the document.
    let has_arrived = shown.status.phase == Phase::Current
        && shown.desired.as_ref().is_some_and(|desired| desired.digest == node.document());
    let needs_consent = node.effect >= Effect::Drain && shown.allow.is_none();
    shown.held || is_ours && !has_arrived && !needs_consent && !(shown.observed && (asks || has_ended))
}

fn has_reverted(node: &NodeObserved) -> bool {
    let is_ours = node.desired.as_ref().is_some_and(|desired| desired.rollout == ROLLOUT && desired.digest == NEW);
    let is_new = node.status.reverted.as_ref().is_some_and(|reverted| reverted.digest == NEW);
    is_ours && node.observed && node.status.phase == Phase::Reverted && is_new
}

fn is_start(fleet: &Fleet, act: &Act) -> bool {
    match act {
        Act::Assign { .. } => true,
        Act::Drain { node } => fleet.nodes.get(node).is_some_and(|node| !node.shown.held),
        _ => false,
    }
}

fn is_forward(fleet: &Fleet, act: &Act) -> bool {
    match act {
        Act::Assign { desired, .. } => desired.digest == NEW,
        Act::Drain { node } => {
            let node = &fleet.nodes[node].shown;
            // A node that applied the target before is finished, even if its hold was lost.
            let is_new = node.desired.as_ref().is_some_and(|desired| desired.digest == NEW);
            is_new && node.allow.is_none()
        }
        _ => false,
    }
}

/// Returns what is wrong with a fleet whose rollout has ended.
pub(crate) fn check_end(fleet: &Fleet) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, node) in &fleet.nodes {
        let shown = &node.shown;
        if shown.held || node.is_cordoned_by_kiln {
            wrong.push(format!("{name} is held"));
        }
        let has_failed = fleet.status.failed_nodes.contains(name);
        match fleet.status.phase {
            RolloutPhase::Complete if node.document() != NEW && !has_failed => {
                wrong.push(format!("{name} is not updated"));
            }
            RolloutPhase::RolledBack if node.document() == NEW => wrong.push(format!("{name} has not returned")),
            _ => {}
        }
    }
    wrong
}
