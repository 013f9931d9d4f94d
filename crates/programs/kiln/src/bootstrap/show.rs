//! Answers, for people and for programs.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde_json::Value;

/// A value longer than this would push the columns behind it off the screen; JSON has it whole. Ids differ at their ends more
/// often than at their beginnings, so that most of what stays is the end.
const WIDEST: usize = 48;
const BEGINNING: usize = 16;

/// A table without lines.
pub(super) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
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

/// A value on one line, cut where it is long.
pub(super) fn short(value: &Value) -> String {
    cut(&whole(value))
}

/// A text on one line, cut in the middle where it is long.
pub(super) fn cut(text: &str) -> String {
    let line: Vec<char> = text.replace('\n', "\\n").chars().collect();
    if line.len() <= WIDEST {
        return line.into_iter().collect();
    }
    let end = line.len() - (WIDEST - BEGINNING - 1);
    line[..BEGINNING].iter().chain(&['…']).chain(&line[end..]).collect()
}

/// A value as text: nothing for nothing.
pub(super) fn whole(value: &Value) -> String {
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
    fn a_long_value_keeps_its_beginning_and_more_of_its_end() {
        let id = format!("/subscriptions/{}/subnets/checkout", "2".repeat(60));
        let short = short(&id.as_str().into());
        assert_eq!(short.chars().count(), WIDEST);
        assert!(short.starts_with("/subscriptions/2…") && short.ends_with("/subnets/checkout"), "{short}");
        assert_eq!(super::short(&"a\nb".into()), "a\\nb");
    }
}
