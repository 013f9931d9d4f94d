//! A plan, for people and for programs.

use std::fmt::Write as _;

use kiln_node_plan::{Offer, Verdict};
use serde_json::{Value, json};

use crate::apply::candidate::Offered;
use crate::apply::transition::Way;
use crate::status::short;

/// How long a value may be before it is only counted: certificates and files have lines of their own.
const SHOWN: usize = 60;

/// For people.
pub(crate) fn plan(offered: &Offered, offer: &Offer, way: &Way) -> String {
    let mut text = format!("generation {} ({})", offered.config.metadata.generation, short(&offered.hash));
    match &way.in_force {
        Some(now) => _ = writeln!(text, ", now generation {} ({})", now.metadata.generation, short(&now.hash())),
        None => text.push_str(", now none\n"),
    }
    match offer {
        Offer::Outranked { by } => _ = writeln!(text, "not taken by itself: generation {by} is in force"),
        Offer::Refused { reason } => _ = writeln!(text, "not taken by itself: it came back before ({reason})"),
        Offer::InForce | Offer::Take => {}
    }
    if way.in_force.is_some() {
        for change in &way.plan.changes {
            let (from, to) = (value(change.from.as_ref()), value(change.to.as_ref()));
            _ = writeln!(text, "change {}: {from} -> {to} ({})", change.path, change.effect);
        }
    }
    let lines = [("step", &way.plan.steps), ("later", &way.plan.late)];
    for (word, step) in lines.iter().flat_map(|(word, steps)| steps.iter().map(move |step| (word, step))) {
        _ = writeln!(text, "{word}: {step}");
    }
    for ask in &way.plan.asks {
        _ = writeln!(text, "ask: {ask}");
    }
    for change in &way.plan.beyond {
        _ = writeln!(text, "beyond what this node does by itself: {} ({})", change.path, change.effect);
    }
    _ = writeln!(text, "effect: {}", way.plan.effect);
    _ = writeln!(text, "{}", verdict(way.plan.verdict()));
    text
}

/// For programs.
pub(crate) fn plan_json(offered: &Offered, offer: &Offer, way: &Way) -> Value {
    let mut plan = serde_json::to_value(&way.plan).expect("a plan has text for names");
    let (taken, why) = match offer {
        Offer::Take => (true, None),
        Offer::InForce => (true, Some("it is in force".to_owned())),
        Offer::Outranked { by } => (false, Some(format!("generation {by} is in force"))),
        Offer::Refused { reason } => (false, Some(format!("it came back before: {reason}"))),
    };
    let own = json!({
        "generation": offered.config.metadata.generation,
        "hash": offered.hash,
        "now": way.in_force.as_ref().map(|now| now.metadata.generation),
        "taken": taken,
        "why": why,
        "verdict": verdict(way.plan.verdict()),
    });
    if let (Some(plan), Value::Object(own)) = (plan.as_object_mut(), own) {
        plan.extend(own);
    }
    plan
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Nothing => "nothing to do",
        Verdict::Apply => "the node does it by itself",
        Verdict::Ask => "the cluster is asked",
        Verdict::Paused => "paused: only reported",
    }
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() <= SHOWN { text } else { format!("{} characters", text.chars().count()) }
        }
    }
}
