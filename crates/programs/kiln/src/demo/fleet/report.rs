//! The result of the demo as text and as one HTML file.

use std::fmt::Write as _;

use kiln_types::xml::escape;

use super::super::page::STYLE;
use super::super::report::duration;
use super::follow::nodes;
use super::{Ended, Outcome};
use crate::bootstrap::show::table;

pub(in super::super) fn text(outcome: &Outcome) -> String {
    let rows = outcome
        .good
        .waves
        .iter()
        .enumerate()
        .map(|(at, wave)| [(at + 1).to_string(), wave.size.to_string(), duration(wave.from), duration(wave.to)]);
    let waves = table(["WAVE", "NODES", "STARTED AFTER", "UPDATED AFTER"], rows);
    format!("\n{waves}\n{}\n", summary(outcome).join("\n"))
}

fn summary(outcome: &Outcome) -> [String; 3] {
    let Outcome { nodes: all, good, bad, .. } = outcome;
    let reason = bad.failures.first().map_or("", |failure| failure.reason.as_str());
    [
        format!(
            "{}: {} of {all} nodes in {} waves and {}",
            good.name,
            good.updated,
            good.waves.len(),
            duration(good.seconds)
        ),
        format!("{}: stopped after {} and reverted: {reason}", bad.name, nodes(bad.touched)),
        format!(
            "{} of {all} nodes have the good document, {} are cordoned",
            outcome.nodes_with_the_good_document, outcome.cordoned_nodes
        ),
    ]
}

pub(in super::super) fn page(outcome: &Outcome) -> String {
    let [good, bad, state] = summary(outcome).map(|line| escape(&line));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>kiln demo: {good}</title>\n<style>{STYLE}</style>\n<h1>Two rollouts over {} nodes</h1>\n<p>{state}. All times are simulated.</p>\n",
        outcome.nodes
    );
    for (title, rollout) in [(good, &outcome.good), (bad, &outcome.bad)] {
        let _ = write!(page, "<h2>{title}</h2>\n<div class=\"scroll\">{}</div>\n", chart(rollout));
        for failure in &rollout.failures {
            let _ = writeln!(page, "<p>{}: {}</p>", escape(&failure.node), escape(&failure.reason));
        }
    }
    page.push_str("</html>\n");
    page
}

/// One bar per wave, from its first node to its last.
fn chart(rollout: &Ended) -> String {
    const WIDTH: f64 = 900.0;
    const LEFT: f64 = 150.0;
    const ROW: f64 = 26.0;
    let scale = (WIDTH - LEFT - 80.0) / rollout.seconds.max(1.0);
    let mut rows = String::new();
    let mut y = 4.0;
    for (at, wave) in rollout.waves.iter().enumerate() {
        let (x, width) = (LEFT + wave.from * scale, ((wave.to - wave.from) * scale).max(2.0));
        let class = if wave.failed > 0 { "slow" } else { "fast" };
        let _ = writeln!(
            rows,
            "<text x=\"0\" y=\"{:.0}\">wave {}: {}</text><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"18\"/>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            y + 14.0,
            at + 1,
            nodes(wave.size),
            x + width + 6.0,
            y + 14.0,
            duration(wave.to - wave.from),
        );
        y += ROW;
    }
    format!("<svg viewBox=\"0 0 {WIDTH} {y}\" role=\"img\">\n{rows}</svg>")
}
