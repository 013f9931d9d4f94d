//! A run as rows over time. Bars are as long as the square roots of the times, otherwise the hours of image work would hide the minutes
//! in which the donor is away; the caption states this.

use super::super::outcome::StepRow;
use super::super::report::duration;
use super::svg::Picture;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 100.0;
const ROW: f64 = 20.0;

pub(super) fn svg(steps: &[StepRow]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "some thirty steps")]
    let mut picture = Picture::new(WIDTH, steps.len() as f64 * ROW + 12.0);
    let whole: f64 = steps.iter().map(|step| step.seconds.sqrt()).sum::<f64>().max(1.0);
    let mut x = LEFT;
    for (index, step) in steps.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "some thirty steps")]
        let top = index as f64 * ROW + 6.0;
        let width = (step.seconds.sqrt() / whole * (WIDTH - LEFT - RIGHT)).max(1.5);
        let colour = if step.donor_held { "held" } else { "step" };
        let hover = if step.holds.is_empty() {
            format!("{}: {}", step.name, duration(step.seconds))
        } else {
            format!("{}: {}; holds {}", step.name, duration(step.seconds), step.holds.join(", "))
        };
        picture.text((LEFT - 10.0, top + 13.0), "end", false, &step.name);
        picture.bar((x, top), (width, ROW - 5.0), colour, 1.0, &hover);
        picture.text((x + width + 6.0, top + 13.0), "start", true, &duration(step.seconds));
        x += width;
    }
    picture.finish(
        "the steps of the run; not to scale: bar lengths are the square roots of the times; steps that hold the donor are highlighted",
    )
}
