//! The style sheet of the plot, and labels that are cut to the space they have.

use crate::svg::{Anchor, Svg};

/// Width of a character relative to the font size. In monospaced fonts it is 0.602; a few systems use slightly wider ones.
const CHARACTER: f64 = 0.62;

/// Font sizes, in pixels.
pub(super) const LARGE: f64 = 15.0;
pub(super) const MIDDLE: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

const HEAD: &str = "<style>\
text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1e293b;text-rendering:geometricPrecision;white-space:pre}\
.s11{font-size:11px}.s12{font-size:12px}.s15{font-size:15px;font-weight:bold}.soft{fill:#64748b}.strong{font-weight:bold}\
.name{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.on{fill:#fff}.paper{fill:#fff}.chain{fill:#c2410c}.wait{fill:url(#hatch);stroke:#fdba74;stroke-width:.5}.run{fill:#94a3b8}.point{fill:#cbd5e1}\
.kernel{fill:#e2e8f0}.initrd{fill:#cbd5e1}.generators{fill:#bfdbfe}.load{fill:#c7d2fe}.units{fill:#f1f5f9}.cut{fill:#fef9c3}\
.fine{stroke:#f1f5f9}.grid{stroke:#dbe2ea}.link{stroke:#c2410c;stroke-width:1.2;fill:none;opacity:.55}\
.mark{stroke:#15803d;stroke-width:2}.mark-text{fill:#15803d;font-weight:bold}.end{stroke:#64748b;stroke-dasharray:4 3}\
.saves{fill:#c2410c;font-weight:bold}</style>\
<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" fill=\"#fff7ed\"/><rect width=\"2.5\" height=\"6\" fill=\"#fdba74\"/></pattern></defs>\
<rect class=\"paper\" width=\"100%\" height=\"100%\"/>";

pub(super) struct Canvas(pub(super) Svg);

impl Canvas {
    pub(super) fn into_document(self, height: f64, title: &str) -> String {
        self.0.into_document(height, title, HEAD)
    }

    /// Adds a label, cut where it would leave the picture.
    pub(super) fn text(&mut self, class: &str, size: f64, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let available = match anchor {
            Anchor::Start => self.0.width - x,
            Anchor::End => x,
            Anchor::Middle => 2.0 * x.min(self.0.width - x),
        };
        self.0.text(&format!("s{size:.0} {class}"), (x, y), anchor, &cut(text, available - 4.0, size));
    }
}

/// Width of a label. A character outside ASCII can be twice as wide.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let columns: u32 = text.chars().map(columns).sum();
    f64::from(columns) * CHARACTER * size
}

fn columns(character: char) -> u32 {
    if character.is_ascii() || matches!(character, '\u{2026}' | '\u{b7}') { 1 } else { 2 }
}

/// Cuts a text to the available width.
pub(super) fn cut(text: &str, available: f64, size: f64) -> String {
    if width(text, size) <= available {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = CHARACTER * size;
    for character in text.chars() {
        used += f64::from(columns(character)) * CHARACTER * size;
        if used > available {
            break;
        }
        short.push(character);
    }
    short.push('\u{2026}');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_cut_to_the_available_width() {
        assert_eq!(cut("kubelet.service", 200.0, SMALL), "kubelet.service");
        let short = cut("kubelet.service", 60.0, SMALL);
        assert!(short.ends_with('\u{2026}') && width(&short, SMALL) <= 60.0, "{short}");
    }
}
