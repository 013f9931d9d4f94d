//! What is wrong with a picture.

use crate::browser::{Label, Measured, Place};

/// Smaller text is not read but guessed at.
const READABLE: f64 = 11.0;
/// Browsers round.
const ROUNDING: f64 = 0.6;

/// All that is wrong, in words; nothing when a person can read it.
pub(crate) fn problems(picture: &Measured, unit: &str, hops: usize) -> Vec<String> {
    if let Some(error) = &picture.error {
        return vec![format!("it is no XML: {error}")];
    }
    let mut all = Vec::new();
    let is_scaled = picture.size.iter().zip(picture.view).any(|(size, view)| (size - view).abs() > ROUNDING);
    if is_scaled {
        all.push(format!("it is {:?} large and shows {:?}", picture.size, picture.view));
    }
    for text in &picture.texts {
        if !inside(text.place, picture.view) {
            all.push(format!("`{}` leaves the picture: {:?}", text.text, text.place));
        }
        if text.size < READABLE {
            all.push(format!("`{}` is {} px high", text.text, text.size));
        }
    }
    all.extend(overlaps(&picture.texts));
    for bar in &picture.bars {
        if bar.hover.is_empty() {
            all.push(format!("a bar at {:?} says nothing", bar.place));
        }
        if !inside(bar.place, picture.view) {
            all.push(format!("the bar of `{}` leaves the picture: {:?}", bar.hover, bar.place));
        }
    }
    all.extend(way(picture, hops));
    all.extend(mark(picture, unit));
    all
}

fn inside([left, top, right, bottom]: Place, [width, height]: [f64; 2]) -> bool {
    left >= -ROUNDING && top >= -ROUNDING && right <= width + ROUNDING && bottom <= height + ROUNDING
}

fn overlaps(texts: &[Label]) -> Vec<String> {
    // The box of a line is higher than its letters: a third of a line in common is still apart.
    let touch = |one: Place, other: Place| {
        let high = (one[3] - one[1]).min(other[3] - other[1]) / 3.0;
        one[0].max(other[0]) + ROUNDING < one[2].min(other[2]) && one[1].max(other[1]) + high < one[3].min(other[3])
    };
    let mut all = Vec::new();
    for (index, one) in texts.iter().enumerate() {
        let other = texts[index + 1..].iter().find(|other| touch(one.place, other.place));
        all.extend(other.map(|other| format!("`{}` and `{}` lie on each other", one.text, other.text)));
    }
    all
}

/// The way stands out: a bar and a strong label per hop, in a colour that nothing beside it has.
fn way(picture: &Measured, hops: usize) -> Vec<String> {
    let of =
        |class: &'static str| picture.bars.iter().filter(move |bar| bar.classes.split(' ').any(|one| one == class));
    let mut all = Vec::new();
    let (bars, labels) =
        (of("way").count(), picture.texts.iter().filter(|text| text.classes.contains("way-name")).count());
    if (bars, labels) != (hops, hops) {
        all.push(format!("{hops} hops have {bars} bars and {labels} labels"));
    }
    if let (Some(way), Some(other)) = (of("way").next(), of("run").next())
        && way.fill == other.fill
    {
        all.push(format!("the way is as {} as the rest", way.fill));
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
        all.push("the mark's label looks like others".to_owned());
    }
    all
}
