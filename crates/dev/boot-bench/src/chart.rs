//! The report as a bar chart.

use std::fmt::Write as _;

use crate::report::Report;
use crate::{Clock, Variant};

const WIDTH: f64 = 860.0;
/// The start of the bars, after their labels.
const LEFT: f64 = 250.0;
/// The length of the longest bar, which leaves room for its value.
const LONGEST: f64 = 430.0;
const TOP: f64 = 84.0;
const STEP: f64 = 36.0;
const BAR: f64 = 22.0;

/// The label and colour of a variant's bar; `None` for variants that are not compared with the others.
fn label(variant: Variant) -> Option<(&'static str, &'static str)> {
    match variant {
        Variant::Floor => Some(("no agent: files on the disk", "#8c959f")),
        Variant::Kilnd => Some(("kilnd, from provisioning media", "#c2410c")),
        Variant::KilndImds => Some(("kilnd, from the metadata service", "#ea7c3c")),
        Variant::CloudInit => Some(("cloud-init", "#8c959f")),
        _ => None,
    }
}

/// Draws the bars as SVG, with their ratio to cloud-init; `None` with fewer than two variants.
pub(crate) fn draw_bars(report: &Report) -> Option<String> {
    let bars: Vec<(&str, &str, f64, Option<f64>)> = report
        .rows
        .iter()
        .filter_map(|row| {
            let (name, colour) = label(row.variant)?;
            let ratio = report.ratio(row.variant, Variant::CloudInit).and_then(Result::ok);
            Some((name, colour, row.busy()?, ratio))
        })
        .collect();
    let most = bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
    if bars.len() < 2 || most <= 0.0 {
        return None;
    }
    let unit = match report.clock {
        Clock::Wall => "s of the host",
        Clock::Instructions => "s of 500 million instructions",
    };
    let runs = report.rows.iter().map(|row| row.boots.len()).min().unwrap_or_default();
    let height = bars.iter().fold(TOP, |height, _| height + STEP) + 12.0;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="system-ui, -apple-system, Segoe UI, sans-serif" role="img" aria-label="Busy time from the kernel's entry to kubelet's start, by the agent that configures the node">
<rect x="0.5" y="0.5" width="{}" height="{}" rx="10" fill="#ffffff" stroke="#d0d7de"/>
<text x="24" y="34" font-size="17" font-weight="bold" fill="#1f2328">From the kernel's entry to kubelet's start</text>
<text x="24" y="58" font-size="13" fill="#57606a">busy time of one processor in {unit}, median of {runs}; same disk, same resulting node; linear scale</text>
"##,
        WIDTH - 1.0,
        height - 1.0
    );
    let mut y = TOP;
    for (name, colour, busy, ratio) in bars {
        let length = LONGEST * busy / most;
        let share = ratio.map(|ratio| format!("  {ratio:.2} of cloud-init")).unwrap_or_default();
        let text = y + 16.0;
        let _ = write!(
            svg,
            r##"<text x="{}" y="{text}" font-size="13" text-anchor="end" fill="#1f2328">{name}</text>
<rect x="{LEFT}" y="{y}" width="{length:.1}" height="{BAR}" rx="3" fill="{colour}"/>
<text x="{:.1}" y="{text}" font-size="13" fill="#1f2328" xml:space="preserve">{busy:.1} s{share}</text>
"##,
            LEFT - 10.0,
            LEFT + length + 8.0
        );
        y += STEP;
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::expected::{Configured, PATHS};
    use crate::{Boot, Row};

    fn row(variant: Variant, busy: f64, content: &[u8]) -> Row {
        let all = PATHS().into_iter().map(|path| (path.to_owned(), (0o644, content.to_vec())));
        let configured = Configured(all.collect());
        let boot = Boot {
            up: busy,
            busy,
            lease: None,
            instructions: None,
            identity: None,
            capture: PathBuf::new(),
            configured,
        };
        Row { variant, boots: vec![boot] }
    }

    fn chart(rows: Vec<Row>) -> Option<String> {
        draw_bars(&Report { rows, contained: Vec::new(), clock: Clock::Instructions })
    }

    #[test]
    fn bar_length_is_proportional_to_busy_time() {
        let rows = vec![row(Variant::Kilnd, 5.0, b"x"), row(Variant::CloudInit, 20.0, b"x")];
        let svg = chart(rows).unwrap();
        assert!(svg.contains(r#"width="107.5""#) && svg.contains(r#"width="430.0""#), "{svg}");
        assert!(svg.contains("5.0 s  0.25 of cloud-init"), "{svg}");
    }

    #[test]
    fn different_nodes_have_no_ratio_and_one_bar_is_not_drawn() {
        let svg = chart(vec![row(Variant::Kilnd, 5.0, b"x"), row(Variant::CloudInit, 20.0, b"y")]).unwrap();
        assert!(!svg.contains("0.25"), "{svg}");
        assert_eq!(chart(vec![row(Variant::Kilnd, 5.0, b"x"), row(Variant::Again, 5.0, b"x")]), None);
    }
}
