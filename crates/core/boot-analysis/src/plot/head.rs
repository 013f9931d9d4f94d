//! The head of the picture: title, facts, findings and legend.

use std::fmt::Write as _;

use super::canvas::{Canvas, LARGE, MIDDLE, SMALL, width};
use super::{MARGIN, Scene};
use crate::explain::{Explanation, Wait};
use crate::span::Usec;
use crate::svg::Anchor;

/// `kiln boot explain` lists the other findings.
const MAX_FINDINGS: usize = 3;

/// The title of the picture.
pub(super) fn title(explained: &Explanation) -> String {
    let mut text = format!("{} started {} after PID 1", explained.unit, explained.began);
    if explained.preprovisioning > Usec::ZERO {
        let _ = write!(text, ", including a preprovisioning pause of {}", explained.preprovisioning);
    }
    text
}

/// Draws the head and returns the position of the first row.
pub(super) fn draw(canvas: &mut Canvas, scene: &Scene<'_>) -> f64 {
    canvas.text("", LARGE, (MARGIN, 30.0), Anchor::Start, &title(scene.explained));
    canvas.text("soft", MIDDLE, (MARGIN, 50.0), Anchor::Start, &facts(scene));
    let mut y = 66.0;
    let column = scene.explained.findings.iter().take(MAX_FINDINGS).map(|finding| width(&saved(finding.saves), MIDDLE));
    let column = MARGIN + column.fold(0.0, f64::max) + 10.0;
    for finding in scene.explained.findings.iter().take(MAX_FINDINGS).filter(|finding| finding.saves > Usec::ZERO) {
        y += 18.0;
        canvas.text("saves", MIDDLE, (column - 10.0, y), Anchor::End, &saved(finding.saves));
        canvas.text("", MIDDLE, (column, y), Anchor::Start, &finding.message);
    }
    legend(canvas, scene, y + 26.0);
    y + 50.0
}

fn saved(saves: Usec) -> String {
    format!("-{saves}")
}

fn facts(scene: &Scene<'_>) -> String {
    let manager = &scene.boot.manager;
    let userspace = scene.boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > Usec::ZERO);
    let started = scene.boot.units.values().filter(|unit| unit.is_started()).count();
    let mut facts = match scene.boot.pasted {
        Some(_) => vec![format!("{started} units from a pasted chain")],
        None => vec![format!("{started} units started")],
    };
    if let Some(finish) = known(manager.finish).filter(|_| scene.boot.pasted.is_none()) {
        facts.push(format!("boot finished after {}", finish - userspace));
    }
    if let Some(firmware) = known(manager.firmware) {
        facts.push(format!("firmware and loader {firmware}"));
    }
    if userspace > Usec::ZERO {
        facts.push(format!("kernel {}", known(manager.initrd).unwrap_or(userspace)));
    }
    facts.extend(known(manager.initrd).map(|initrd| format!("initial RAM disk {}", userspace - initrd)));
    if let Some(version) = &manager.version {
        facts.push(format!("systemd {version}"));
    }
    facts.join(" \u{b7} ")
}

/// The colours that occur in the picture.
fn legend(canvas: &mut Canvas, scene: &Scene<'_>, y: f64) {
    let has_waits = scene.chain.iter().any(|step| step.hop.wait != Wait::Queue);
    let keys = [
        ("chain", "critical chain: starting", true),
        ("wait", "critical chain: waiting for something outside systemd", has_waits),
        ("run", "other units", !scene.others.is_empty()),
        ("generators", "generators", scene.boot.manager.generators_finish.is_some()),
        ("load", "load units", scene.boot.loaded().is_some()),
    ];
    let mut x = MARGIN;
    for (class, text, _) in keys.into_iter().filter(|(_, _, is_used)| *is_used) {
        canvas.0.rect(&format!("key {class}"), [x, y - 9.0, 14.0, 10.0], "");
        canvas.text("soft", SMALL, (x + 20.0, y), Anchor::Start, text);
        x += 20.0 + width(text, SMALL) + 22.0;
    }
}
