//! Text in XML.

/// Escapes text for XML and HTML. Control characters, which XML does not allow, become blanks.
pub fn escape(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect::<String>();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
