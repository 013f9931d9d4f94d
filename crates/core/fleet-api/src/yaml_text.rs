//! Writes JSON values as YAML for people. The workspace's YAML crate is a reader.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns a value as a YAML document in block style, with a line break at the end.
pub(crate) fn write(value: &Value) -> String {
    let mut text = String::new();
    write_below(&mut text, value, 0);
    text.trim_start_matches('\n').to_owned()
}

/// Writes a value after `key:` or `-`: a scalar on the same line, a collection on the next ones.
fn write_below(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            for (key, field) in fields {
                let _ = write!(text, "{:indent$}{}:", "", scalar(key), indent = depth * 2);
                write_below(text, field, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                let mut below = String::new();
                write_below(&mut below, item, depth + 1);
                // The first field of an item is on the line of its dash.
                let below = below.trim_start();
                let _ = writeln!(text, "{:indent$}- {}", "", below.trim_end(), indent = depth * 2);
            }
        }
        Value::String(string) => {
            let _ = writeln!(text, " {}", scalar(string));
        }
        Value::Number(number) => {
            // 100.0 is how a limit of type float looks; the API server returns 100.
            let _ = writeln!(text, " {}", number.to_string().trim_end_matches(".0"));
        }
        other => {
            let _ = writeln!(text, " {other}");
        }
    }
}

/// A string without quotes where every YAML version reads it as the same string, else with JSON's quotes, which are YAML's too.
fn scalar(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || " _-./,;()`'%=".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        // YAML 1.1 has these words for booleans and null; longer texts cannot be one of them.
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_read_as_the_same_value() {
        let value = json!({
            "plain": "A sentence, with `code` (and more); 10% of it.",
            "quoted": ["yes", "No", "null", "1", "1.5", "-", "", "a: b", "a #b", "#", "key:", " x", "x ", "a\nb", "\"", "ä", "*x", "[a]"],
            "true": true,
            "nothing": null,
            "numbers": [0, -1, 900_000, 0.5],
            "empty": {"list": [], "map": {}},
            "nested": [[1, [2]], [{"a": [{"b": 1, "c": {"d": "e"}}]}], {"x": {"y": []}}],
        });
        let read: Value = serde_saphyr::from_str(&write(&value)).expect("YAML");
        assert_eq!(read, value);
    }

    #[test]
    fn collections_are_in_block_style() {
        let value = json!({"spec": {"names": ["a", "b c"], "versions": [{"name": "v1", "max": 100.0}]}});
        let text = "spec:\n  names:\n    - a\n    - b c\n  versions:\n    - max: 100\n      name: v1\n";
        assert_eq!(write(&value), text);
    }
}
