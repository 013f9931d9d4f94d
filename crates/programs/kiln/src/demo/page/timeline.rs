//! The steps of a run as rows.
//!
//! Creating the image takes hours and would hide the minutes during which the donor is unavailable. The length of a bar is therefore the
//! square root of the duration, and the picture says so.

use kiln_boot_analysis::svg::{Anchor, Svg};

use super::super::outcome::StepTime;
use super::super::report::duration;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 100.0;
const ROW: f64 = 20.0;
const TOP: f64 = 56.0;

#[expect(clippy::cast_precision_loss, reason = "about thirty steps")]
pub(super) fn svg(steps: &[StepTime]) -> String {
    let mut picture = Svg::new(WIDTH);
    let scale = "Not to scale: the length of a bar is the square root of the duration next to it.";
    picture.text("soft", (LEFT, 14.0), Anchor::Start, scale);
    for (x, class, text) in [(LEFT, "held", "the run holds the donor"), (LEFT + 220.0, "step", "other steps")] {
        picture.rect(class, [x, 24.0, 14.0, 14.0], text);
        picture.text("soft", (x + 22.0, 36.0), Anchor::Start, text);
    }
    let total: f64 = steps.iter().map(|step| step.seconds.sqrt()).sum::<f64>().max(1.0);
    let mut x = LEFT;
    for (index, step) in steps.iter().enumerate() {
        let top = TOP + index as f64 * ROW;
        let width = (step.seconds.sqrt() / total * (WIDTH - LEFT - RIGHT)).max(1.5);
        let mut hover = format!("{}: {}", step.name, duration(step.seconds));
        if !step.holds.is_empty() {
            hover = format!("{hover}; holds: {}", step.holds.join(", "));
        }
        picture.text("", (LEFT - 10.0, top + 13.0), Anchor::End, &step.name);
        picture.rect(if step.donor_held { "held" } else { "step" }, [x, top, width, ROW - 5.0], &hover);
        picture.text("soft", (x + width + 6.0, top + 13.0), Anchor::Start, &duration(step.seconds));
        x += width;
    }
    picture
        .into_element(TOP + steps.len() as f64 * ROW, "steps of the run; bar lengths are square roots of the durations")
}
