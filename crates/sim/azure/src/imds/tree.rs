//! Instance metadata by path: a branch as a JSON document or a list of names, a leaf as text.

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use super::{Refusal, document, with_type};

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a path below `/metadata/instance`. Names are case-sensitive.
pub(super) fn answer(tree: &Value, below: &str, format: Option<&str>) -> Result<Response<Bytes>, Refusal> {
    let mut node = tree;
    for part in below.split('/').filter(|part| !part.is_empty()) {
        let next = match node {
            Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            node => node.get(part),
        };
        node = next.ok_or_else(|| Refusal::not_found("Not found"))?;
    }
    let text = match format {
        None | Some("json") => false,
        Some("text") => true,
        Some(_) => return Err(Refusal::bad("Bad request. Invalid format specified")),
    };
    match (node, text) {
        (Value::Object(_) | Value::Array(_), false) => Ok(document(node)),
        (Value::Object(object), true) => {
            Ok(with_type(object.iter().map(|(name, value)| list_entry(name, value)).collect(), TEXT))
        }
        (Value::Array(items), true) => Ok(with_type(
            items.iter().enumerate().map(|(index, value)| list_entry(&index.to_string(), value)).collect(),
            TEXT,
        )),
        (Value::String(leaf), true) => Ok(with_type(leaf.clone(), TEXT)),
        // A leaf is not a JSON document. Azure's message is not published.
        _ => Err(Refusal::bad("Bad request. A leaf has no JSON format; use format=text")),
    }
}

fn list_entry(name: &str, value: &Value) -> String {
    format!("{name}{}\n", if value.is_string() { "" } else { "/" })
}
