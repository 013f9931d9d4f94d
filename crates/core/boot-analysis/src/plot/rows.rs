//! The rows of the picture: axis and phases, the chain, and the other units.

use std::fmt::Write as _;

use super::canvas::{Canvas, MIDDLE, SMALL, cut, width};
use super::{MARGIN, Scene, Step};
use crate::explain::{MANAGER, Wait};
use crate::model::Unit;
use crate::span::Usec;
use crate::svg::Anchor;

const CHAIN_ROW: f64 = 22.0;
const ROW: f64 = 15.0;
/// Longer names are cut; the hover text has the whole name.
const MAX_NAME: usize = 64;
/// Minimum width of a bar, so that it is visible.
const MIN_BAR: f64 = 2.0;
/// With at least this many rows the axis labels are repeated at the bottom.
const MANY_ROWS: usize = 40;

/// Draws the rows and returns the height of the picture.
pub(super) fn draw(canvas: &mut Canvas, scene: &Scene<'_>, top: f64) -> f64 {
    let chain_top = top + 56.0;
    let chain_end = chain_top + height(scene.chain.len(), CHAIN_ROW);
    let others_top = if scene.others.is_empty() { chain_end + 24.0 } else { chain_end + 56.0 };
    let end = others_top + height(scene.others.len(), ROW);
    // The grid comes first so that everything else covers it.
    grid(canvas, scene, top, end);
    cut_range(canvas, scene, [top + 4.0, chain_end, end + 4.0]);
    phases(canvas, scene, top + 8.0);
    marks(canvas, scene, top + 46.0, end);
    for (index, step) in scene.chain.iter().enumerate() {
        hop(canvas, scene, step, chain_top + height(index, CHAIN_ROW));
        if let Some(next) = scene.chain.get(index + 1) {
            link(canvas, scene, step, next, chain_top + height(index, CHAIN_ROW));
        }
    }
    if let Some(sentence) = others_heading(scene) {
        canvas.text("soft strong", MIDDLE, (MARGIN, chain_end + 42.0), Anchor::Start, &sentence);
    }
    for (index, (name, unit)) in scene.others.iter().enumerate() {
        other(canvas, scene, name, unit, others_top + height(index, ROW));
    }
    if scene.others.len() < MANY_ROWS {
        return end + 20.0;
    }
    labels(canvas, scene, end + 18.0);
    end + 32.0
}

#[expect(clippy::cast_precision_loss, reason = "rows of a picture")]
fn height(rows: usize, row: f64) -> f64 {
    rows as f64 * row
}

fn others_heading(scene: &Scene<'_>) -> Option<String> {
    let omitted = &scene.omitted;
    if scene.others.is_empty() && omitted.hops == 0 {
        return None;
    }
    let mut text = format!("{} other units, ordered by start", scene.others.len());
    for (count, what) in [
        (omitted.short, "shorter ones are not drawn"),
        (omitted.late, "started later"),
        (omitted.hops, "hops of the chain are not drawn"),
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
            canvas.0.line(class, [x, top + 4.0, x, end + 4.0]);
        }
    }
    labels(canvas, scene, top);
}

/// The time range that is not drawn to scale.
fn cut_range(canvas: &mut Canvas, scene: &Scene<'_>, [top, chain_end, end]: [f64; 3]) {
    let Some(cut) = scene.axis.cut else { return };
    let (from, until) = (scene.axis.at(cut.from), scene.axis.at(cut.until));
    let text = format!("{}, not to scale", cut.until - cut.from);
    canvas.0.rect("cut", [from, top, until - from, end - top], &text);
    canvas.text("soft", SMALL, (f64::midpoint(from, until), chain_end + 14.0), Anchor::Middle, &text);
}

fn labels(canvas: &mut Canvas, scene: &Scene<'_>, y: f64) {
    // Next to the cut, two labels that are far apart in time can overlap.
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

/// The recorded phases: kernel, initial RAM disk, generators, loading of units, units.
fn phases(canvas: &mut Canvas, scene: &Scene<'_>, y: f64) {
    let (boot, axis) = (scene.boot, &scene.axis);
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > userspace).map(|mark| mark - userspace);
    let mut phase = |class: &str, name: &str, [left, right]: [f64; 2], took: Usec| {
        canvas.0.rect(&format!("phase {class}"), [left, y, (right - left).max(0.5), 16.0], &format!("{name}: {took}"));
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

fn hop(canvas: &mut Canvas, scene: &Scene<'_>, step: &Step<'_>, y: f64) {
    let (hop, axis) = (step.hop, &scene.axis);
    let left = axis.at(hop.began);
    let right = axis.at(hop.began + hop.ran.unwrap_or_default()).max(left + MIN_BAR);
    let from = axis.at(hop.began - hop.waited);
    if hop.wait != Wait::Queue {
        let hover = format!("{} waited {}: {}", hop.unit, hop.waited, hop.wait);
        canvas.0.rect("bar wait", [from, y + 4.0, (left - from).max(MIN_BAR), CHAIN_ROW - 8.0], &hover);
    }
    canvas.0.rect("bar chain", [left, y + 4.0, right - left, CHAIN_ROW - 8.0], &hover(step));
    let name = short(hop.unit.as_str());
    let ran = match hop.ran {
        Some(Usec::ZERO) => String::new(),
        Some(ran) => format!(" {ran}"),
        None => " (duration unknown)".to_owned(),
    };
    let waited = if hop.wait == Wait::Queue { String::new() } else { format!(", waited {}", hop.waited) };
    let text = format!("{name}{ran}{waited}");
    if hop.wait == Wait::Queue
        && label_width(&text, MIDDLE) < right - left
        && right + label_width(&text, MIDDLE) > canvas.0.width
    {
        canvas.text("on chain-name strong", MIDDLE, (left + 6.0, y + 15.0), Anchor::Start, &text);
        return;
    }
    label(canvas, "name chain-name strong", MIDDLE, &text, [from.min(left), right], y + 15.0);
}

fn hover(step: &Step<'_>) -> String {
    if step.hop.unit.as_str() == MANAGER {
        return format!("PID 1 until the units were loaded: {}", step.hop.ran.unwrap_or_default());
    }
    step.unit.map_or(String::new(), |unit| hover_text(step.hop.unit.as_str(), unit, step.hop.began))
}

fn link(canvas: &mut Canvas, scene: &Scene<'_>, step: &Step<'_>, next: &Step<'_>, y: f64) {
    let ended = scene.axis.at(step.hop.began + step.hop.ran.unwrap_or_default());
    let begins = scene.axis.at(next.hop.began - next.hop.waited);
    canvas.0.elbow("link", [ended, y + CHAIN_ROW - 4.0, begins.max(ended), y + CHAIN_ROW * 1.5]);
}

fn other(canvas: &mut Canvas, scene: &Scene<'_>, name: &str, unit: &Unit, y: f64) {
    let began = unit.began().unwrap_or_default() - scene.boot.userspace();
    let took = unit.time();
    let left = scene.axis.at(began);
    let right = scene.axis.at(began + took).max(left + MIN_BAR);
    let class = if took > Usec::ZERO { "bar run" } else { "bar point" };
    canvas.0.rect(class, [left, y + 3.0, right - left, ROW - 6.0], &hover_text(name, unit, began));
    let text = if took > Usec::ZERO { format!("{} {took}", short(name)) } else { short(name) };
    label(canvas, "name", SMALL, &text, [left, right], y + 11.5);
}

/// Width of a label including its distance from the bar.
fn label_width(text: &str, size: f64) -> f64 {
    width(text, size) + 6.0
}

/// Places a label to the right of the bar if it fits, otherwise to the left, otherwise on the bar.
fn label(canvas: &mut Canvas, class: &str, size: f64, text: &str, [left, right]: [f64; 2], y: f64) {
    let needed = label_width(text, size);
    let edge = canvas.0.width - 6.0;
    if right + needed <= edge {
        canvas.text(class, size, (right + 6.0, y), Anchor::Start, text);
    } else if left - needed >= 6.0 {
        canvas.text(class, size, (left - 6.0, y), Anchor::End, text);
    } else {
        let x = (left + 6.0).min(edge - needed).max(6.0);
        canvas.text(class, size, (x, y), Anchor::Start, &cut(text, edge - x, size));
    }
}

fn marks(canvas: &mut Canvas, scene: &Scene<'_>, y: f64, end: f64) {
    let explained = scene.explained;
    let finish = scene.boot.manager.finish.filter(|at| *at > Usec::ZERO && scene.boot.pasted.is_none());
    if let Some(finish) = finish.map(|at| at - scene.boot.userspace()) {
        let x = scene.axis.at(finish);
        canvas.0.line("end", [x, y - 22.0, x, end + 4.0]);
    }
    let x = scene.axis.at(explained.began);
    canvas.0.line("mark", [x, y - 12.0, x, end + 4.0]);
    label(canvas, "name mark-text", MIDDLE, &format!("{} {}", explained.unit, explained.began), [x, x], y);
}

fn short(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['\u{2026}']).collect()
}

fn hover_text(name: &str, unit: &Unit, began: Usec) -> String {
    let took = unit.took().map_or("unknown duration".to_owned(), |took| format!("duration {took}"));
    let after: Vec<&str> = unit.after.iter().map(crate::UnitName::as_str).take(12).collect();
    let more = unit.after.len().saturating_sub(after.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{name}\nstarted at {began}, {took}\nafter {}{more}", after.join(", "))
}
