//! A boot as a picture: a row per unit, the way to one unit standing out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::explain::Explanation;
use crate::model::{Boot, Unit};
use crate::span::Usec;

const ROW: f64 = 16.0;
const TOP: f64 = 64.0;
const LEFT: f64 = 24.0;
const SCALE_WIDTH: f64 = 1_100.0;
/// Room for the longest label: a label is beside its bar, on the side where there is more room.
const CHARACTER: f64 = 6.6;
/// Longer names are cut in the picture and whole in the hover text.
const LONGEST: usize = 60;

const STYLE: &str = "text{font:11px ui-monospace,monospace;fill:#333}.way{font-weight:bold}.soft{fill:#777}.bar{fill:#b9c4d0}\
.run{fill:#8aa1ba}.way-run{fill:#c2410c}.wait{fill:#f2c79b}.grid{stroke:#e5e5e5}.five{stroke:#c9c9c9}.mark{stroke:#15803d;stroke-width:2}\
.mark-text{fill:#15803d;font-weight:bold}.paper{fill:#fff}.phase{fill:#eef2f6}";

/// Draws a boot. Units of the way to `explained` stand out; the rest is there for its place in time.
pub fn plot(boot: &Boot, explained: &Explanation) -> String {
    let userspace = boot.userspace();
    let way: BTreeSet<&str> = explained.hops.iter().map(|hop| hop.unit.as_str()).collect();
    let mut rows: Vec<(&str, &Unit)> =
        boot.units.iter().filter(|(_, unit)| unit.is_started()).map(|(name, unit)| (name.as_str(), unit)).collect();
    rows.sort_by_key(|(_, unit)| (unit.activating, unit.index));
    let finish = boot.manager.finish.filter(|at| *at > Usec::ZERO).map(|at| at - userspace);
    let end = [Some(explained.began + explained.hops[0].ran.unwrap_or_default()), finish]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or_default();
    // What started long after the boot and is not on the way says nothing about it.
    rows.retain(|(name, unit)| way.contains(name) || unit.activating.unwrap_or_default() - userspace <= end);
    let end = end.max(Usec(1_000));
    let label_room = rows.iter().map(|(name, unit)| width(&label(name, unit))).fold(0.0, f64::max) + 16.0;
    let scale = SCALE_WIDTH / end.seconds();
    let at = |time: Usec| LEFT + time.seconds() * scale;
    #[expect(clippy::cast_precision_loss, reason = "rows of a picture")]
    let height = TOP + rows.len() as f64 * ROW + 24.0;
    let whole = LEFT + SCALE_WIDTH + label_room + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole:.0} {height:.0}\" width=\"{whole:.0}\" height=\"{height:.0}\">\
         <style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>"
    );
    head(&mut svg, explained);
    phases(&mut svg, boot, &at);
    grid(&mut svg, end, height, &at);
    for (index, (name, unit)) in rows.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "rows of a picture")]
        let y = TOP + index as f64 * ROW;
        row(&mut svg, boot, explained, name, unit, y, end, whole, &at);
    }
    let x = at(explained.began);
    let text = format!("{} {}", explained.unit, explained.began);
    let anchor = if x + width(&text) + 8.0 > whole { "end" } else { "start" };
    let shift = if anchor == "end" { -6.0 } else { 6.0 };
    let _ = write!(
        svg,
        "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text class=\"mark-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        TOP - 8.0,
        height - 20.0,
        x + shift,
        height - 8.0,
        escape(&text),
    );
    svg.push_str("</svg>\n");
    svg
}

fn head(svg: &mut String, explained: &Explanation) {
    let mut text = format!("{} started {} after PID 1", explained.unit, explained.began);
    if explained.preprovisioning > Usec::ZERO {
        let _ = write!(text, ", {} of it a preprovisioning pause", explained.preprovisioning);
    }
    let _ = write!(svg, "<text class=\"way\" x=\"{LEFT}\" y=\"18\">{}</text>", escape(&text));
}

/// What PID 1 did before its first unit, where it is recorded.
fn phases(svg: &mut String, boot: &Boot, at: &dyn Fn(Usec) -> f64) {
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > userspace).map(|mark| mark - userspace);
    let generators = known(boot.manager.generators_finish);
    let marks = [("generators", generators), ("load units", known(boot.manager.units_load_finish))];
    let mut from = Usec::ZERO;
    for (name, until) in marks.into_iter().filter_map(|(name, until)| Some((name, until?))) {
        let (left, right) = (at(from), at(until));
        let _ = write!(
            svg,
            "<rect class=\"phase\" x=\"{left:.1}\" y=\"26\" width=\"{:.1}\" height=\"14\"><title>{name}: until {until}</title></rect>",
            (right - left).max(1.0)
        );
        from = from.max(until);
    }
}

fn grid(svg: &mut String, end: Usec, height: f64, at: &dyn Fn(Usec) -> f64) {
    // At most 60 lines, on round times.
    let steps = [100_000, 1_000_000, 5_000_000, 30_000_000, 60_000_000, 300_000_000, 3_600_000_000u64];
    let step = steps.into_iter().find(|step| end.0 / step <= 60).unwrap_or(end.0.max(1));
    for tick in 0..=end.0 / step {
        let time = Usec(tick * step);
        let class = if tick % 5 == 0 { "five" } else { "grid" };
        let x = at(time);
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            TOP - 8.0,
            height - 20.0
        );
        if tick % 5 == 0 {
            let _ = write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\">{time}</text>", TOP - 12.0);
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of one row")]
fn row(
    svg: &mut String,
    boot: &Boot,
    explained: &Explanation,
    name: &str,
    unit: &Unit,
    y: f64,
    end: Usec,
    whole: f64,
    at: &dyn Fn(Usec) -> f64,
) {
    let began = unit.activating.unwrap_or_default() - boot.userspace();
    let ran = unit.time();
    let hop = explained.hops.iter().find(|hop| hop.unit.as_str() == name);
    let left = at(began.min(end));
    let right = at((began + ran).min(end)).max(left + 2.0);
    if let Some(hop) = hop.filter(|hop| hop.waited > Usec::ZERO) {
        let from = at(hop.began - hop.waited);
        let _ = write!(
            svg,
            "<rect class=\"wait\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            y + 4.0,
            left - from,
            ROW - 8.0,
            escape(&format!("waited {}: {}", hop.waited, hop.wait)),
        );
    }
    let class = if hop.is_some() {
        "way-run"
    } else if ran > Usec::ZERO {
        "run"
    } else {
        "bar"
    };
    let text = label(name, unit);
    let hover = hover(name, unit, began);
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
        y + 2.0,
        right - left,
        ROW - 4.0,
        escape(&hover),
    );
    // Right of the bar when it fits there, else left of it.
    let fits = right + 5.0 + width(&text) <= whole - 4.0;
    let (x, anchor) = if fits { (right + 5.0, "start") } else { (left - 5.0, "end") };
    let class = if hop.is_some() { " class=\"way\"" } else { "" };
    let _ = write!(
        svg,
        "<text{class} x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}<title>{}</title></text>",
        y + 12.0,
        escape(&text),
        escape(&hover),
    );
}

fn label(name: &str, unit: &Unit) -> String {
    let short: String = if name.chars().count() > LONGEST {
        name.chars().take(LONGEST - 1).chain(['\u{2026}']).collect()
    } else {
        name.to_owned()
    };
    if unit.time() > Usec::ZERO { format!("{short} ({})", unit.time()) } else { short }
}

fn hover(name: &str, unit: &Unit, began: Usec) -> String {
    let after: Vec<&str> = unit.after.iter().map(crate::UnitName::as_str).take(12).collect();
    format!("{name}\nstarted at {began}, took {}\nafter {}", unit.time(), after.join(", "))
}

#[expect(clippy::cast_precision_loss, reason = "characters of a label")]
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

fn escape(text: &str) -> String {
    // Control characters are not allowed in XML at all.
    let plain = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect::<String>();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::what_if::tests::boot;

    #[test]
    fn the_way_stands_out_and_the_unit_is_marked() {
        let boot = boot("a.service 100 400\nside.service 100 100\nkubelet.service 1500 10 a.service");
        let svg = plot(&boot, &explain(&boot, "kubelet.service").unwrap());
        assert_eq!(svg.matches("class=\"way-run\"").count(), 2);
        assert!(svg.contains("kubelet.service 1.500s") && svg.contains("waited 1s: outside: unknown"), "{svg}");
    }

    #[test]
    fn a_name_cannot_break_the_picture() {
        let boot = boot("<b>&\"\u{1}.service 100 400");
        let svg = plot(&boot, &explain(&boot, "<b>&\"\u{1}.service").unwrap());
        assert!(!svg.contains("<b>") && !svg.contains('\u{1}'));
    }
}
