//! Text formatting of results.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde_json::Value;

/// Maximum width of a value in a table; JSON output contains the full value. Resource IDs differ more often at their end than at their
/// start, so most of the remaining characters are from the end.
const MAX_WIDTH: usize = 48;
const START_WIDTH: usize = 16;

/// Formats a table without borders.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table.to_string().lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{}", line.trim_end());
        text
    })
}

/// Formats a value on one line, shortened if it is long.
pub(crate) fn short(value: &Value) -> String {
    shorten(&full(value))
}

/// Shortens a text in the middle and puts it on one line.
pub(super) fn shorten(text: &str) -> String {
    let line: Vec<char> = text.replace('\n', "\\n").chars().collect();
    if line.len() <= MAX_WIDTH {
        return line.into_iter().collect();
    }
    let end = line.len() - (MAX_WIDTH - START_WIDTH - 1);
    line[..START_WIDTH].iter().chain(&['…']).chain(&line[end..]).collect()
}

/// Formats a value; `-` for null.
pub(super) fn full(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_keeps_its_start_and_more_of_its_end() {
        let id = format!("/subscriptions/{}/subnets/checkout", "2".repeat(60));
        let short = short(&id.as_str().into());
        assert_eq!(short.chars().count(), MAX_WIDTH);
        assert!(short.starts_with("/subscriptions/2…") && short.ends_with("/subnets/checkout"), "{short}");
        assert_eq!(super::short(&"a\nb".into()), "a\\nb");
    }
}
