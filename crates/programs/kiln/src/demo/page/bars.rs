//! The boots of two nodes as bars on a linear time axis, with a legend of their stages.

use kiln_boot_analysis::svg::{Anchor, Svg};

use super::super::outcome::Boot;
use super::super::report::duration;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 90.0;
const BAR: f64 = 34.0;
const ROW: f64 = 56.0;
const TOP: f64 = 28.0;
const LEGEND: f64 = 22.0;
/// Distance between the ticks of the axis, in seconds.
const TICK: f64 = 30.0;

#[expect(clippy::cast_precision_loss, reason = "a handful of rows and stages")]
pub(super) fn svg(before: &Boot, after: &Boot) -> String {
    let longest = before.seconds.max(after.seconds).max(1.0);
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    let mut picture = Svg::new(WIDTH);
    let mut tick = 0.0;
    while tick <= longest {
        let x = LEFT + tick * scale;
        picture.line("grid", [x, TOP - 6.0, x, TOP + 2.0 * ROW - 14.0]);
        picture.text("soft", (x, TOP - 12.0), Anchor::Middle, &duration(tick));
        tick += TICK;
    }
    for (row, (name, boot, colour)) in
        [("old recipe", before, "slow"), ("from the image", after, "fast")].into_iter().enumerate()
    {
        let top = TOP + row as f64 * ROW;
        picture.text("", (LEFT - 10.0, top + 22.0), Anchor::End, name);
        let mut x = LEFT;
        for (index, (stage, seconds)) in boot.stages.iter().enumerate() {
            let width = seconds * scale;
            let hover = format!("{stage}: {}", duration(*seconds));
            picture.rect(&class(colour, index), [x, top, (width - 1.0).max(0.5), BAR], &hover);
            x += width;
        }
        picture.text("", (x + 8.0, top + 22.0), Anchor::Start, &duration(boot.seconds));
    }
    let top = TOP + 2.0 * ROW + 4.0;
    for (column, (boot, colour)) in [(before, "slow"), (after, "fast")].into_iter().enumerate() {
        let left = LEFT + column as f64 * (WIDTH - LEFT) / 2.0;
        for (index, (stage, seconds)) in boot.stages.iter().enumerate() {
            let y = top + index as f64 * LEGEND;
            picture.rect(&class(colour, index), [left, y, 14.0, 14.0], stage);
            let text = format!("{stage}  {}", duration(*seconds));
            picture.text("soft", (left + 22.0, y + 12.0), Anchor::Start, &text);
        }
    }
    let rows = before.stages.len().max(after.stages.len());
    picture
        .into_element(top + LEGEND * rows as f64, "boot stages of a node from the old recipe and of one from the image")
}

/// Neighbouring stages have different shades of the same colour.
fn class(colour: &str, index: usize) -> String {
    format!("{colour} shade{}", index % 5)
}
