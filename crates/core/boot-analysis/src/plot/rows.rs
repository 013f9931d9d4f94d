//! The rows: axis and phases, the way, and what ran beside it.

use std::fmt::Write as _;

use super::canvas::{Anchor, Canvas, MIDDLE, SMALL, cut, width};
use super::{MARGIN, Scene, Step};
use crate::explain::{MANAGER, Wait};
use crate::model::Unit;
use crate::span::Usec;

const WAY_ROW: f64 = 22.0;
const ROW: f64 = 15.0;
/// Longer names are cut in the picture and whole in the hover text.
const LONGEST: usize = 64;
/// What is shorter is drawn as wide as this, or it could not be seen.
const THINNEST: f64 = 2.0;
/// The axis is drawn below too when its labels above are a screen away.
const FAR: usize = 40;

/// Draws them, and says how high the picture is.
pub(super) fn draw(canvas: &mut Canvas, scene: &Scene<'_>, top: f64) -> f64 {
    let way_top = top + 56.0;
    let way_end = way_top + height(scene.way.len(), WAY_ROW);
    let others_top = if scene.others.is_empty() { way_end + 24.0 } else { way_end + 56.0 };
    let end = others_top + height(scene.others.len(), ROW);
    // The grid first: everything else lies on it.
    grid(canvas, scene, top, end);
    stretch(canvas, scene, [top + 4.0, way_end, end + 4.0]);
    phases(canvas, scene, top + 8.0);
    marks(canvas, scene, top + 46.0, end);
    for (index, step) in scene.way.iter().enumerate() {
        way(canvas, scene, step, way_top + height(index, WAY_ROW));
        if let Some(next) = scene.way.get(index + 1) {
            link(canvas, scene, step, next, way_top + height(index, WAY_ROW));
        }
    }
    if let Some(sentence) = beside(scene) {
        canvas.text("soft strong", MIDDLE, (MARGIN, way_end + 42.0), Anchor::Start, &sentence);
    }
    for (index, (name, unit)) in scene.others.iter().enumerate() {
        other(canvas, scene, name, unit, others_top + height(index, ROW));
    }
    if scene.others.len() < FAR {
        return end + 20.0;
    }
    labels(canvas, scene, end + 18.0);
    end + 32.0
}

#[expect(clippy::cast_precision_loss, reason = "rows of a picture")]
fn height(rows: usize, row: f64) -> f64 {
    rows as f64 * row
}

fn beside(scene: &Scene<'_>) -> Option<String> {
    let left_out = &scene.left_out;
    if scene.others.is_empty() && left_out.hops == 0 {
        return None;
    }
    let mut text = format!("beside it: {} other units, by their start", scene.others.len());
    for (count, what) in [
        (left_out.short, "that took less are not drawn"),
        (left_out.late, "began later"),
        (left_out.hops, "hops of the way are not drawn"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    Some(text)
}

fn grid(canvas: &mut Canvas, scene: &Scene<'_>, top: f64, end: f64) {
    let (labelled, fine) = scene.axis.ticks();
    for (class, ticks) in [("fine", fine), ("grid", labelled)] {
        for time in ticks {
            let x = scene.axis.at(time);
            canvas.line(class, [x, top + 4.0, x, end + 4.0]);
        }
    }
    labels(canvas, scene, top);
}

/// The stretch of time that is drawn shorter than it was.
fn stretch(canvas: &mut Canvas, scene: &Scene<'_>, [top, way_end, end]: [f64; 3]) {
    let Some(cut) = scene.axis.cut else { return };
    let (from, until) = (scene.axis.at(cut.from), scene.axis.at(cut.until));
    let text = format!("{}, not to scale", cut.until - cut.from);
    canvas.rect("cut", [from, top, until - from, end - top], &text);
    canvas.text("soft", SMALL, (f64::midpoint(from, until), way_end + 14.0), Anchor::Middle, &text);
}

fn labels(canvas: &mut Canvas, scene: &Scene<'_>, y: f64) {
    // The cut brings two labels together that are far apart in time.
    let mut taken = f64::NEG_INFINITY;
    for time in scene.axis.ticks().0 {
        let (x, text) = (scene.axis.at(time), time.to_string());
        let half = width(&text, SMALL) / 2.0;
        if x - half > taken {
            canvas.text("soft", SMALL, (x, y), Anchor::Middle, &text);
            taken = x + half + 8.0;
        }
    }
}

/// What was before PID 1's first unit, where it is recorded, and the units.
fn phases(canvas: &mut Canvas, scene: &Scene<'_>, y: f64) {
    let (boot, axis) = (scene.boot, &scene.axis);
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > userspace).map(|mark| mark - userspace);
    let mut phase = |class: &str, name: &str, [left, right]: [f64; 2], took: Usec| {
        canvas.rect(&format!("phase {class}"), [left, y, (right - left).max(0.5), 16.0], &format!("{name}: {took}"));
        let text = format!("{name} {took}");
        if width(&text, SMALL) + 10.0 < right - left {
            canvas.text("phase-name", SMALL, (left + 5.0, y + 12.0), Anchor::Start, &text);
        }
    };
    if axis.before > Usec::ZERO {
        let initrd = boot.manager.initrd.filter(|mark| *mark > Usec::ZERO && *mark < axis.before);
        let kernel = initrd.unwrap_or(axis.before);
        let ends = [Usec::ZERO, kernel, axis.before].map(|time| axis.since_kernel(time));
        phase("kernel", "kernel", [ends[0], ends[1]], kernel);
        if initrd.is_some() {
            phase("initrd", "initial RAM disk", [ends[1], ends[2]], axis.before - kernel);
        }
    }
    let mut from = Usec::ZERO;
    let marks = [
        ("generators", "generators", known(boot.manager.generators_finish)),
        ("load", "load units", known(boot.manager.units_load_finish)),
        ("units", "units", known(boot.manager.finish).map(|finish| finish.min(axis.end))),
    ];
    for (class, name, until) in marks {
        let Some(until) = until.filter(|until| *until > from) else { continue };
        phase(class, name, [axis.at(from), axis.at(until)], until - from);
        from = until;
    }
}

fn way(canvas: &mut Canvas, scene: &Scene<'_>, step: &Step<'_>, y: f64) {
    let (hop, axis) = (step.hop, &scene.axis);
    let left = axis.at(hop.began);
    let right = axis.at(hop.began + hop.ran.unwrap_or_default()).max(left + THINNEST);
    let from = axis.at(hop.began - hop.waited);
    if hop.wait != Wait::Queue {
        let hover = format!("{} waited {}: {}", hop.unit, hop.waited, hop.wait);
        canvas.rect("bar wait", [from, y + 4.0, (left - from).max(THINNEST), WAY_ROW - 8.0], &hover);
    }
    canvas.rect("bar way", [left, y + 4.0, right - left, WAY_ROW - 8.0], &hover(step));
    let name = short(hop.unit.as_str());
    let ran = match hop.ran {
        Some(Usec::ZERO) => String::new(),
        Some(ran) => format!(" {ran}"),
        None => " for an unknown time".to_owned(),
    };
    let waited = if hop.wait == Wait::Queue { String::new() } else { format!(", waited {}", hop.waited) };
    let text = format!("{name}{ran}{waited}");
    if hop.wait == Wait::Queue && needs(&text, MIDDLE) < right - left && right + needs(&text, MIDDLE) > canvas.width {
        canvas.text("on way-name strong", MIDDLE, (left + 6.0, y + 15.0), Anchor::Start, &text);
        return;
    }
    label(canvas, "name way-name strong", MIDDLE, &text, [from.min(left), right], y + 15.0);
}

fn hover(step: &Step<'_>) -> String {
    if step.hop.unit.as_str() == MANAGER {
        return format!("PID 1 until its units were loaded: {}", step.hop.ran.unwrap_or_default());
    }
    step.unit.map_or(String::new(), |unit| told(step.hop.unit.as_str(), unit, step.hop.began))
}

fn link(canvas: &mut Canvas, scene: &Scene<'_>, step: &Step<'_>, next: &Step<'_>, y: f64) {
    let ended = scene.axis.at(step.hop.began + step.hop.ran.unwrap_or_default());
    let begins = scene.axis.at(next.hop.began - next.hop.waited);
    canvas.elbow("link", [ended, y + WAY_ROW - 4.0, begins.max(ended), y + WAY_ROW * 1.5]);
}

fn other(canvas: &mut Canvas, scene: &Scene<'_>, name: &str, unit: &Unit, y: f64) {
    let began = unit.began().unwrap_or_default() - scene.boot.userspace();
    let took = unit.time();
    let left = scene.axis.at(began);
    let right = scene.axis.at(began + took).max(left + THINNEST);
    let class = if took > Usec::ZERO { "bar run" } else { "bar point" };
    canvas.rect(class, [left, y + 3.0, right - left, ROW - 6.0], &told(name, unit, began));
    let text = if took > Usec::ZERO { format!("{} {took}", short(name)) } else { short(name) };
    label(canvas, "name", SMALL, &text, [left, right], y + 11.5);
}

/// A label with its distance from the bar.
fn needs(text: &str, size: f64) -> f64 {
    width(text, size) + 6.0
}

/// Right of the bar where it fits, else left of it, else on it.
fn label(canvas: &mut Canvas, class: &str, size: f64, text: &str, [left, right]: [f64; 2], y: f64) {
    let needs = needs(text, size);
    let edge = canvas.width - 6.0;
    if right + needs <= edge {
        canvas.text(class, size, (right + 6.0, y), Anchor::Start, text);
    } else if left - needs >= 6.0 {
        canvas.text(class, size, (left - 6.0, y), Anchor::End, text);
    } else {
        let x = (left + 6.0).min(edge - needs).max(6.0);
        canvas.text(class, size, (x, y), Anchor::Start, &cut(text, edge - x, size));
    }
}

fn marks(canvas: &mut Canvas, scene: &Scene<'_>, y: f64, end: f64) {
    let explained = scene.explained;
    let finish = scene.boot.manager.finish.filter(|at| *at > Usec::ZERO && scene.boot.pasted.is_none());
    if let Some(finish) = finish.map(|at| at - scene.boot.userspace()) {
        let x = scene.axis.at(finish);
        canvas.line("end", [x, y - 22.0, x, end + 4.0]);
    }
    let x = scene.axis.at(explained.began);
    canvas.line("mark", [x, y - 12.0, x, end + 4.0]);
    label(canvas, "name mark-text", MIDDLE, &format!("{} {}", explained.unit, explained.began), [x, x], y);
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 1).chain(['\u{2026}']).collect()
}

fn told(name: &str, unit: &Unit, began: Usec) -> String {
    let took = unit.took().map_or("for an unknown time".to_owned(), |took| format!("for {took}"));
    let after: Vec<&str> = unit.after.iter().map(crate::UnitName::as_str).take(12).collect();
    let more = unit.after.len().saturating_sub(after.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{name}\nstarted at {began}, {took}\nafter {}{more}", after.join(", "))
}
