//! A small SVG writer. Shapes are styled by CSS classes, and every text is escaped.

use std::fmt::Write as _;

use kiln_types::xml::escape;

/// The point of a text that its coordinates refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture of fixed width. Shapes are drawn in the order in which they are added.
#[derive(Debug)]
pub struct Svg {
    body: String,
    pub width: f64,
}

impl Svg {
    /// An empty picture.
    pub fn new(width: f64) -> Self {
        Self { body: String::new(), width }
    }

    /// Adds a rectangle. A browser shows `hover` while the pointer is over it.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], hover: &str) {
        let title = if hover.is_empty() { String::new() } else { format!("<title>{}</title>", escape(hover)) };
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
        );
    }

    /// Adds a straight line.
    pub fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// Adds a line that goes down, then across.
    pub fn elbow(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}V{y2:.1}H{x2:.1}\"/>");
    }

    /// Adds a line of text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ =
            writeln!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>", escape(text));
    }

    /// The picture as an element of an HTML page, whose style sheet applies to it.
    pub fn into_element(self, height: f64, label: &str) -> String {
        let Self { body, width } = self;
        let label = escape(label);
        format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>\n")
    }

    /// The picture as a file. `head` is markup for the style sheet and definitions.
    pub fn into_document(self, height: f64, title: &str, head: &str) -> String {
        let Self { body, width } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\
             <title>{}</title>{head}\n{body}</svg>\n",
            escape(title)
        )
    }
}
