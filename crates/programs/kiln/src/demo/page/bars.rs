//! Two boots as two bars on one linear scale, with a legend of their stages.

use super::super::outcome::Boot;
use super::super::report::duration;
use super::svg::Picture;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 90.0;
const BAR: f64 = 34.0;
const ROW: f64 = 64.0;
const LEGEND: f64 = 22.0;

pub(super) fn svg(before: &Boot, after: &Boot) -> String {
    let longest = before.seconds.max(after.seconds).max(1.0);
    let legend = before.stages.len().max(after.stages.len());
    #[expect(clippy::cast_precision_loss, reason = "a handful of stages")]
    let mut picture = Picture::new(WIDTH, 2.0 * ROW + 20.0 + LEGEND * legend as f64);
    for (row, (name, boot, colour)) in
        [("old recipe", before, "slow"), ("from the image", after, "fast")].into_iter().enumerate()
    {
        #[expect(clippy::cast_precision_loss, reason = "two rows")]
        let top = row as f64 * ROW + 8.0;
        picture.text((LEFT - 10.0, top + 22.0), "end", false, name);
        let mut x = LEFT;
        for (index, (stage, seconds)) in boot.stages.iter().enumerate() {
            let width = seconds / longest * (WIDTH - LEFT - RIGHT);
            picture.bar(
                (x, top),
                ((width - 1.0).max(0.5), BAR),
                colour,
                shade(index),
                &format!("{stage}: {}", duration(*seconds)),
            );
            x += width;
        }
        picture.text((x + 8.0, top + 22.0), "start", false, &duration(boot.seconds));
    }
    let top = 2.0 * ROW + 10.0;
    for (column, (boot, colour)) in [(before, "slow"), (after, "fast")].into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "two columns")]
        let left = LEFT + column as f64 * (WIDTH - LEFT) / 2.0;
        for (index, (stage, seconds)) in boot.stages.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a handful of stages")]
            let y = top + index as f64 * LEGEND;
            picture.bar((left, y), (14.0, 14.0), colour, shade(index), stage);
            picture.text((left + 22.0, y + 12.0), "start", true, &format!("{stage}  {}", duration(*seconds)));
        }
    }
    picture.finish("boot stages of a new node from the old recipe and from the image, on one linear scale")
}

/// Opacities that distinguish neighbours from each other and from the background.
fn shade(index: usize) -> f64 {
    [1.0, 0.55, 0.8, 0.4, 0.65][index % 5]
}
