//! SVG text, written so that names cannot break it and labels stay inside.

use std::fmt::Write as _;

/// Letters of a monospaced font are 0.602 of its size wide; some systems' are a little more.
const LETTER: f64 = 0.62;

/// Sizes of text, in pixels.
pub(super) const LARGE: f64 = 15.0;
pub(super) const MIDDLE: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

const STYLE: &str = "\
text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1e293b;text-rendering:geometricPrecision;white-space:pre}\
.s11{font-size:11px}.s12{font-size:12px}.s15{font-size:15px;font-weight:bold}.soft{fill:#64748b}.strong{font-weight:bold}\
.name{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.on{fill:#fff}.paper{fill:#fff}.way{fill:#c2410c}.wait{fill:url(#hatch);stroke:#fdba74;stroke-width:.5}.run{fill:#94a3b8}.point{fill:#cbd5e1}\
.kernel{fill:#e2e8f0}.initrd{fill:#cbd5e1}.generators{fill:#bfdbfe}.load{fill:#c7d2fe}.units{fill:#f1f5f9}.cut{fill:#fef9c3}\
.fine{stroke:#f1f5f9}.grid{stroke:#dbe2ea}.link{stroke:#c2410c;stroke-width:1.2;fill:none;opacity:.55}\
.mark{stroke:#15803d;stroke-width:2}.mark-text{fill:#15803d;font-weight:bold}.end{stroke:#64748b;stroke-dasharray:4 3}\
.saves{fill:#c2410c;font-weight:bold}";

/// Where a label is tied to its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) struct Canvas {
    body: String,
    pub width: f64,
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        Self { body: String::new(), width }
    }

    /// The whole picture.
    pub(super) fn finished(self, height: f64, title: &str) -> String {
        let Self { body, width } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\
             <title>{}</title><style>{STYLE}</style>\
             <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <rect width=\"6\" height=\"6\" fill=\"#fff7ed\"/><rect width=\"2.5\" height=\"6\" fill=\"#fdba74\"/></pattern></defs>\
             <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{body}</svg>\n",
            escaped(title)
        )
    }

    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], hover: &str) {
        let title = if hover.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(hover)) };
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
        );
    }

    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A bent line: down, then across.
    pub(super) fn elbow(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}V{y2:.1}H{x2:.1}\"/>");
    }

    /// A label, cut where it would leave the picture.
    pub(super) fn text(&mut self, class: &str, size: f64, at: (f64, f64), anchor: Anchor, text: &str) {
        let (x, y) = at;
        let room = match anchor {
            Anchor::Start => self.width - x,
            Anchor::End => x,
            Anchor::Middle => 2.0 * x.min(self.width - x),
        };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"s{size:.0} {class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>",
            escaped(&cut(text, room - 4.0, size))
        );
    }
}

/// How wide a label is. What is no plain letter may be wide.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letters: u32 = text.chars().map(letter).sum();
    f64::from(letters) * LETTER * size
}

fn letter(letter: char) -> u32 {
    if letter.is_ascii() || matches!(letter, '\u{2026}' | '\u{b7}') { 1 } else { 2 }
}

/// As much of a text as there is room for.
pub(super) fn cut(text: &str, room: f64, size: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = LETTER * size;
    for character in text.chars() {
        used += f64::from(letter(character)) * LETTER * size;
        if used > room {
            break;
        }
        short.push(character);
    }
    short.push('\u{2026}');
    short
}

fn escaped(text: &str) -> String {
    // Control characters are not allowed in XML at all.
    let plain = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect::<String>();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_cut_to_the_room_that_it_has() {
        assert_eq!(cut("kubelet.service", 200.0, SMALL), "kubelet.service");
        let short = cut("kubelet.service", 60.0, SMALL);
        assert!(short.ends_with('\u{2026}') && width(&short, SMALL) <= 60.0, "{short}");
    }
}
