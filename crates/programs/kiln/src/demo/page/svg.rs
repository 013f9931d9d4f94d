//! The few SVG elements that the charts consist of.

use std::fmt::Write as _;

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A chart that elements are added to.
pub(super) struct Picture {
    width: f64,
    height: f64,
    marks: String,
}

impl Picture {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, marks: String::new() }
    }

    /// Adds a box with a tooltip.
    pub(super) fn bar(&mut self, place: (f64, f64), size: (f64, f64), colour: &str, opacity: f64, hover: &str) {
        let ((x, y), (width, height)) = (place, size);
        let _ = write!(
            self.marks,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"var(--{colour})\" \
             fill-opacity=\"{opacity}\"><title>{}</title></rect>",
            escape(hover)
        );
    }

    pub(super) fn text(&mut self, place: (f64, f64), anchor: &str, soft: bool, text: &str) {
        let (x, y) = place;
        let class = if soft { " class=\"soft\"" } else { "" };
        let _ = write!(
            self.marks,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{}</text>",
            escape(text)
        );
    }

    pub(super) fn finish(self, label: &str) -> String {
        let Self { width, height, marks } = self;
        let label = escape(label);
        format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">{marks}</svg>")
    }
}
