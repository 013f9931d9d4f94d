//! Checks of a measured picture.

use crate::browser::{Label, Measured, Place};

/// Smaller text is hard to read.
const MIN_FONT_SIZE: f64 = 11.0;
/// Tolerance for rounding in the browser.
const ROUNDING: f64 = 0.6;

/// Describes everything that is wrong with a picture.
pub(crate) fn problems(picture: &Measured, unit: &str, hops: usize) -> Vec<String> {
    if let Some(error) = &picture.error {
        return vec![format!("not valid XML: {error}")];
    }
    let mut all = Vec::new();
    let is_scaled = picture.size.iter().zip(picture.view).any(|(size, view)| (size - view).abs() > ROUNDING);
    if is_scaled {
        all.push(format!("size {:?} differs from view box {:?}", picture.size, picture.view));
    }
    for text in &picture.texts {
        if !inside(text.place, picture.view) {
            all.push(format!("`{}` leaves the picture: {:?}", text.text, text.place));
        }
        if text.size < MIN_FONT_SIZE {
            all.push(format!("`{}` is {} px high", text.text, text.size));
        }
    }
    all.extend(overlaps(&picture.texts));
    for bar in &picture.bars {
        if bar.hover.is_empty() {
            all.push(format!("the bar at {:?} has no hover text", bar.place));
        }
        if !inside(bar.place, picture.view) {
            all.push(format!("the bar of `{}` leaves the picture: {:?}", bar.hover, bar.place));
        }
    }
    all.extend(chain(picture, hops));
    all.extend(mark(picture, unit));
    all
}

fn inside([left, top, right, bottom]: Place, [width, height]: [f64; 2]) -> bool {
    left >= -ROUNDING && top >= -ROUNDING && right <= width + ROUNDING && bottom <= height + ROUNDING
}

fn overlaps(texts: &[Label]) -> Vec<String> {
    // The box of a line is higher than its characters, so an overlap of a third is not visible.
    let touch = |one: Place, other: Place| {
        let high = (one[3] - one[1]).min(other[3] - other[1]) / 3.0;
        one[0].max(other[0]) + ROUNDING < one[2].min(other[2]) && one[1].max(other[1]) + high < one[3].min(other[3])
    };
    let mut all = Vec::new();
    for (index, one) in texts.iter().enumerate() {
        let other = texts[index + 1..].iter().find(|other| touch(one.place, other.place));
        all.extend(other.map(|other| format!("`{}` and `{}` overlap", one.text, other.text)));
    }
    all
}

/// The chain is highlighted: each hop has a bar and a bold label in a colour that other units do not have.
fn chain(picture: &Measured, hops: usize) -> Vec<String> {
    let bars =
        |class: &'static str| picture.bars.iter().filter(move |bar| bar.classes.split(' ').any(|one| one == class));
    let mut all = Vec::new();
    let (drawn, labels) =
        (bars("chain").count(), picture.texts.iter().filter(|text| text.classes.contains("chain-name")).count());
    if (drawn, labels) != (hops, hops) {
        all.push(format!("{hops} hops have {drawn} bars and {labels} labels"));
    }
    if let (Some(hop), Some(other)) = (bars("chain").next(), bars("run").next())
        && hop.fill == other.fill
    {
        all.push(format!("the chain has the same colour as other units: {}", hop.fill));
    }
    all
}

fn mark(picture: &Measured, unit: &str) -> Vec<String> {
    let [line] = picture.marks[..] else { return vec![format!("{} marks", picture.marks.len())] };
    let label = picture.texts.iter().find(|text| text.classes.contains("mark-text") && text.text.contains(unit));
    let Some(label) = label else { return vec![format!("the mark does not name {unit}")] };
    let mut all = Vec::new();
    let apart = (label.place[0] - line[2]).max(line[0] - label.place[2]);
    if apart > 12.0 {
        all.push(format!("the mark and its label are {apart} px apart"));
    }
    if picture.texts.iter().any(|text| !text.classes.contains("mark-text") && text.fill == label.fill) {
        all.push("the label of the mark has the same colour as others".to_owned());
    }
    all
}
