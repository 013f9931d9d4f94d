//! Canonical JSON (RFC 8785), restricted to the values that kiln's documents contain.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Serializes a value as canonical JSON: sorted names, no whitespace.
pub fn text(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("documents serialize to JSON");
    let mut out = Vec::new();
    write(&value, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Returns the SHA-256 of the canonical JSON in lower-case hexadecimal.
pub fn hash(value: &impl Serialize) -> String {
    hex(&Sha256::digest(text(value).as_bytes()))
}

/// Formats bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            // RFC 8785 sorts by UTF-16 code units, which differs from UTF-8 outside the basic plane. The order of a serde_json map depends
            // on its features.
            entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push(b'{');
            for (index, (name, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                plain(name, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        Value::Array(list) => {
            out.push(b'[');
            for (index, value) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(value, out);
            }
            out.push(b']');
        }
        Value::Number(number) if number.is_f64() => out.extend(float(number.as_f64().unwrap_or_default()).bytes()),
        other => plain(other, out),
    }
}

/// Writes a value that has only one representation in JSON.
fn plain(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

/// Formats a number like JavaScript.
fn float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return format!("{value}");
    }
    let scientific = format!("{value:e}");
    if scientific.contains("e-") { scientific } else { scientific.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_whitespace_is_removed() {
        let value: Value = serde_json::from_str(r#"{"b": [1, {"z": null, "a": true}], "a": "x\u00f6\n"}"#).unwrap();
        assert_eq!(text(&value), r#"{"a":"xö\n","b":[1,{"a":true,"z":null}]}"#);
    }

    #[test]
    fn names_sort_by_utf_16() {
        let value = serde_json::json!({"\u{fb33}": 1, "\u{1f600}": 2});
        assert_eq!(text(&value), "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn numbers_print_like_javascript() {
        let value: Value = serde_json::from_str("[1.0, 0.5, 1e21, 1.5e-7, -0.0, 333333333.33333329]").unwrap();
        assert_eq!(text(&value), "[1,0.5,1e+21,1.5e-7,0,333333333.3333333]");
    }

    #[test]
    fn hash_is_computed_over_the_canonical_text() {
        assert_eq!(hash(&serde_json::json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
