//! The output of `kilnd plan`, as text and as JSON.

use std::fmt::Write as _;

use kiln_node_plan::{Admission, PlanAction};
use serde_json::{Value, json};

use crate::apply::candidate::Candidate;
use crate::apply::transition::Transition;
use crate::status::short;

/// Longer values, such as certificates and files, are shown by their length.
const SHOWN: usize = 60;

/// The plan as text.
pub(crate) fn to_text(candidate: &Candidate, admission: &Admission, transition: &Transition) -> String {
    let plan = &transition.plan;
    let mut text = format!("generation {} ({})", candidate.config.metadata.generation, short(&candidate.hash));
    match &transition.in_force {
        Some(now) => _ = writeln!(text, ", now generation {} ({})", now.metadata.generation, short(&now.hash())),
        None => text.push_str(", now none\n"),
    }
    if let Some(reason) = refusal(admission) {
        _ = writeln!(text, "needs --force: {reason}");
    }
    if transition.in_force.is_some() {
        for change in &plan.changes {
            let (from, to) = (value(change.from.as_ref()), value(change.to.as_ref()));
            _ = writeln!(text, "change {}: {from} -> {to} ({})", change.path, change.effect);
        }
    }
    let lines = [("step", &plan.steps), ("deferred", &plan.deferred)];
    for (label, step) in lines.iter().flat_map(|(label, steps)| steps.iter().map(move |step| (label, step))) {
        _ = writeln!(text, "{label}: {step}");
    }
    for request in &plan.requests {
        _ = writeln!(text, "request: {request}");
    }
    for change in &plan.beyond {
        _ = writeln!(text, "beyond `spec.update.upTo`: {} ({})", change.path, change.effect);
    }
    _ = writeln!(text, "effect: {}", plan.effect);
    _ = writeln!(text, "{}", summary(plan.action()));
    text
}

/// The plan as JSON.
pub(super) fn to_json(candidate: &Candidate, admission: &Admission, transition: &Transition) -> Value {
    let mut plan = serde_json::to_value(&transition.plan).expect("plan has string keys");
    let reason = match admission {
        Admission::InForce => Some("already in force".to_owned()),
        other => refusal(other),
    };
    let own = json!({
        "generation": candidate.config.metadata.generation,
        "hash": candidate.hash,
        "now": transition.in_force.as_ref().map(|now| now.metadata.generation),
        "accepted": matches!(admission, Admission::Accept | Admission::InForce),
        "reason": reason,
        "summary": summary(transition.plan.action()),
    });
    if let (Some(plan), Value::Object(own)) = (plan.as_object_mut(), own) {
        plan.extend(own);
    }
    plan
}

/// Why the candidate is not applied without `--force`.
fn refusal(admission: &Admission) -> Option<String> {
    match admission {
        Admission::Outranked { by } => Some(format!("generation {by} is in force")),
        Admission::Rejected { reason } => Some(format!("it was already rejected ({reason})")),
        Admission::Replayed { by } => Some(format!("the newer signed generation {by} was accepted before")),
        Admission::InForce | Admission::Accept => None,
    }
}

fn summary(action: PlanAction) -> &'static str {
    match action {
        PlanAction::Nothing => "nothing to do",
        PlanAction::Apply => "the node applies this by itself",
        PlanAction::Request => "the node requests this from the cluster",
        PlanAction::Paused => "paused: the changes are only reported",
    }
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "unset".to_owned(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() <= SHOWN { text } else { format!("{} characters", text.chars().count()) }
        }
    }
}
