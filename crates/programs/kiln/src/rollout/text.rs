//! A rollout as text: a page, or the lines that changed since the last one.

use std::fmt::Write as _;

use kiln_fleet_api::{RolloutPhase, Verdict};

use super::view::View;
use crate::bootstrap::show::table;
use crate::fleet::document::short;

/// Digits of a digest that people read.
pub(super) const DIGITS: usize = 12;

/// The whole rollout.
pub(super) fn page(view: &View) -> String {
    let mut text = format!("{}: {}\n", view.name, headline(view));
    let digest = view.target.digest.as_deref().map_or(String::new(), |digest| format!(" ({})", short(digest, DIGITS)));
    let _ = writeln!(text, "target: {}{digest}, pools: {}", view.target.name(), view.pools.join(", "));
    if !view.plan.is_empty() {
        let _ = writeln!(text, "plan: {}", view.plan);
    }
    let times = [("started", &view.started_at), ("expected end", &view.eta), ("ended", &view.ended_at)];
    let times: Vec<String> =
        times.iter().filter_map(|(name, time)| time.as_ref().map(|time| format!("{name}: {time}"))).collect();
    if !times.is_empty() {
        let _ = writeln!(text, "{}", times.join(", "));
    }
    if !view.waves.is_empty() {
        let _ = write!(text, "\n{}", waves(view));
    }
    if !view.in_flight.is_empty() {
        let rows = view
            .in_flight
            .iter()
            .map(|node| [node.node.clone(), node.phase.clone(), node.effect.clone(), node.message.clone()]);
        let _ = write!(text, "\n{}", table(["IN FLIGHT", "PHASE", "EFFECT", "MESSAGE"], rows));
    }
    if !view.failures.is_empty() {
        let rows = view.failures.iter().map(|failure| [failure.node.clone(), failure.reason.clone()]);
        let _ = write!(text, "\n{}", table(["FAILED", "REASON"], rows));
    }
    let answers = &view.answers;
    let _ = write!(
        text,
        "\nwhat is it waiting for?  {}\nhow do I stop it?        {}\nhow does it go back?     {}\nwho owns this change?    {}\n",
        answers.waiting_for, answers.stop, answers.go_back, answers.owner
    );
    text
}

fn headline(view: &View) -> String {
    let mut parts = vec![view.phase.as_str().to_owned()];
    let is_open = !view.phase.is_final();
    if is_open && view.paused {
        parts.push("paused".to_owned());
    }
    if is_open && view.aborted {
        parts.push("being aborted".to_owned());
    }
    if view.total > 0 {
        parts.push(format!("{} of {} nodes updated", view.updated, view.total));
        parts.push(format!("{} failed", view.failed));
    }
    parts.join(", ")
}

fn waves(view: &View) -> String {
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    let rows = view.waves.iter().enumerate().map(|(at, wave)| {
        [
            (at + 1).to_string(),
            wave.size.to_string(),
            wave.done.to_string(),
            wave.failed.to_string(),
            verdict(wave.verdict).to_owned(),
            time(&wave.started_at),
            time(&wave.done_at),
        ]
    });
    table(["WAVE", "NODES", "UPDATED", "FAILED", "STATE", "STARTED", "LAST UPDATED"], rows)
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Waiting => "Waiting",
        Verdict::Running => "Running",
        Verdict::Soaking => "Soaking",
        Verdict::Passed => "Passed",
        Verdict::Failed => "Failed",
    }
}

/// The facts about a rollout, one per line. A log of it prints the lines that are new.
pub(super) fn lines(view: &View) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", view.name, headline(view))];
    let count = view.waves.len();
    for (at, wave) in view.waves.iter().enumerate().filter(|(_, wave)| wave.verdict != Verdict::Waiting) {
        let state = verdict(wave.verdict).to_lowercase();
        lines.push(format!("wave {} of {count}: {state}, {} of {} nodes updated", at + 1, wave.done, wave.size));
    }
    for node in &view.in_flight {
        let message = if node.message.is_empty() { String::new() } else { format!(", {}", node.message) };
        lines.push(format!("node {}: {}{message}", node.node, node.phase));
    }
    lines.extend(view.failures.iter().map(|failure| format!("node {} failed: {}", failure.node, failure.reason)));
    if view.waiting_for.is_some() {
        lines.push(format!("waiting for: {}", view.answers.waiting_for));
    }
    lines
}

/// Why a rollout that ended is not a success.
pub(super) fn failure(view: &View) -> Option<String> {
    let end = match view.phase {
        RolloutPhase::Halted => "halted",
        RolloutPhase::RolledBack => "was rolled back",
        RolloutPhase::Aborted => "was aborted",
        RolloutPhase::Complete | RolloutPhase::Pending | RolloutPhase::Progressing | RolloutPhase::RollingBack => {
            return None;
        }
    };
    let first = view.failures.first().map_or(String::new(), |one| format!("\n  node `{}`: {}", one.node, one.reason));
    Some(format!("rollout `{}` {end} after {} of {} nodes{first}", view.name, view.updated, view.total))
}
