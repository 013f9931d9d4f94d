//! One text for one value: RFC 8785, as far as our documents go.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The canonical text: names sorted, no spaces.
pub fn text(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("documents have text for names");
    let mut out = Vec::new();
    write(&value, &mut out);
    String::from_utf8(out).expect("texts are UTF-8")
}

/// SHA-256 of the canonical text, in lower-case hexadecimal.
pub fn hash(value: &impl Serialize) -> String {
    hex(&Sha256::digest(text(value).as_bytes()))
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            // By UTF-16, which differs from UTF-8 beyond the first plane. A map's own order depends on how serde_json was built.
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

/// What JSON writes in one way only.
fn plain(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("memory takes everything");
}

/// A number as JavaScript writes it.
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
    fn names_are_sorted_at_every_depth_and_spaces_are_gone() {
        let value: Value = serde_json::from_str(r#"{"b": [1, {"z": null, "a": true}], "a": "x\u00f6\n"}"#).unwrap();
        assert_eq!(text(&value), r#"{"a":"xö\n","b":[1,{"a":true,"z":null}]}"#);
    }

    #[test]
    fn names_beyond_the_first_plane_sort_as_utf_16() {
        let value = serde_json::json!({"\u{fb33}": 1, "\u{1f600}": 2});
        assert_eq!(text(&value), "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        let value: Value = serde_json::from_str("[1.0, 0.5, 1e21, 1.5e-7, -0.0, 333333333.33333329]").unwrap();
        assert_eq!(text(&value), "[1,0.5,1e+21,1.5e-7,0,333333333.3333333]");
    }

    #[test]
    fn the_hash_is_that_of_the_text() {
        assert_eq!(hash(&serde_json::json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
