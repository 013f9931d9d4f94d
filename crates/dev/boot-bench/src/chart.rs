//! The report as a bar chart.

use kiln_boot_analysis::svg::{Anchor, Svg};

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
/// Read aloud instead of the picture.
const TITLE: &str = "Busy time from the kernel's entry to kubelet's start, by the agent that configures the node";
const STYLE: &str = "<style>text{font:13px system-ui,-apple-system,Segoe UI,sans-serif;fill:#1f2328}\
    .title{font-size:17px;font-weight:bold}.scale{fill:#57606a}.page{fill:#fff;stroke:#d0d7de;rx:10px}\
    .other{fill:#8c959f}.media{fill:#c2410c}.metadata{fill:#ea7c3c}</style>";

/// The label and style of a variant's bar; `None` for variants that are not compared with the others.
fn label(variant: Variant) -> Option<(&'static str, &'static str)> {
    match variant {
        Variant::Floor => Some(("no agent: files on the disk", "other")),
        Variant::Kilnd => Some(("kilnd, from provisioning media", "media")),
        Variant::KilndImds => Some(("kilnd, from the metadata service", "metadata")),
        Variant::CloudInit => Some(("cloud-init", "other")),
        _ => None,
    }
}

/// Draws the bars as SVG, with their ratio to cloud-init; `None` with fewer than two variants.
pub(crate) fn draw_bars(report: &Report) -> Option<String> {
    let bars: Vec<(&str, &str, f64, Option<f64>)> = report
        .rows
        .iter()
        .filter_map(|row| {
            let (name, class) = label(row.variant)?;
            let ratio = report.ratio(row.variant, Variant::CloudInit).and_then(Result::ok);
            Some((name, class, row.busy()?, ratio))
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
    let mut svg = Svg::new(WIDTH);
    svg.rect("page", [0.5, 0.5, WIDTH - 1.0, height - 1.0], "");
    svg.text("title", (24.0, 34.0), Anchor::Start, "From the kernel's entry to kubelet's start");
    let scale =
        format!("busy time of one processor in {unit}, median of {runs}; same disk, same resulting node; linear scale");
    svg.text("scale", (24.0, 58.0), Anchor::Start, &scale);
    let mut y = TOP;
    for (name, class, busy, ratio) in bars {
        let length = LONGEST * busy / most;
        let share = ratio.map(|ratio| format!(" ({ratio:.2} of cloud-init)")).unwrap_or_default();
        let text = y + 16.0;
        svg.text("label", (LEFT - 10.0, text), Anchor::End, name);
        svg.rect(class, [LEFT, y, length, BAR], "");
        svg.text("label", (LEFT + length + 8.0, text), Anchor::Start, &format!("{busy:.1} s{share}"));
        y += STEP;
    }
    Some(svg.into_document(height, TITLE, STYLE))
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
        assert!(svg.contains("5.0 s (0.25 of cloud-init)"), "{svg}");
    }

    #[test]
    fn different_nodes_have_no_ratio_and_one_bar_is_not_drawn() {
        let svg = chart(vec![row(Variant::Kilnd, 5.0, b"x"), row(Variant::CloudInit, 20.0, b"y")]).unwrap();
        assert!(!svg.contains("0.25"), "{svg}");
        assert_eq!(chart(vec![row(Variant::Kilnd, 5.0, b"x"), row(Variant::Again, 5.0, b"x")]), None);
    }
}
