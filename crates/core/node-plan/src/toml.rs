//! JSON as TOML, for containerd.

use std::fmt::Write as _;

use kiln_aks_formats::toml::quote;
use serde_json::{Map, Value};

/// A value that TOML cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(crate) struct TomlError {
    pub(crate) path: String,
    pub(crate) reason: &'static str,
}

/// The text of a table, sorted by key. Values come before subtables, or they would belong to the last subtable.
pub(crate) fn text(table: &Map<String, Value>) -> Result<String, TomlError> {
    let mut out = String::new();
    write_table(&mut out, &[], table)?;
    Ok(out)
}

fn write_table(out: &mut String, path: &[&str], table: &Map<String, Value>) -> Result<(), TomlError> {
    let mut entries: Vec<(&String, &Value)> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.as_str());
    let (tables, values): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, value)| value.is_object());
    // A table that only contains tables needs no header.
    if !path.is_empty() && (!values.is_empty() || tables.is_empty()) {
        let names: Vec<String> = path.iter().map(|name| key(name)).collect();
        let _ = writeln!(out, "[{}]", names.join("."));
    }
    for (name, value) in values {
        let _ = write!(out, "{} = ", key(name));
        write_value(out, &[path, &[name]].concat(), value)?;
        out.push('\n');
    }
    for (name, value) in tables {
        let inner = value.as_object().expect("partitioned");
        write_table(out, &[path, &[name]].concat(), inner)?;
    }
    Ok(())
}

fn write_value(out: &mut String, path: &[&str], value: &Value) -> Result<(), TomlError> {
    let error = |reason| Err(TomlError { path: path.join("."), reason });
    match value {
        Value::Null => return error("TOML has no null"),
        Value::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) if number.is_u64() && number.as_i64().is_none() => {
            return error("the number is too large for TOML");
        }
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => out.push_str(&quote(text)),
        Value::Array(list) => {
            out.push('[');
            for (index, value) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_value(out, path, value)?;
            }
            out.push(']');
        }
        Value::Object(table) => {
            let mut entries: Vec<(&String, &Value)> = table.iter().collect();
            entries.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (index, (name, value)) in entries.into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                let _ = write!(out, "{} = ", key(name));
                write_value(out, &[path, &[name]].concat(), value)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_owned() } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn toml(value: &Value) -> Result<String, TomlError> {
        text(value.as_object().expect("a table"))
    }

    #[test]
    fn values_precede_tables_and_keys_are_quoted_if_needed() {
        let value = json!({"version": 3, "plugins": {"io.containerd.x": {"b": {"c": "1"}, "a": [true, "x"]}}, "z": {}});
        let wanted = "version = 3\n[plugins.\"io.containerd.x\"]\na = [true, \"x\"]\n[plugins.\"io.containerd.x\".b]\nc = \"1\"\n[z]\n";
        assert_eq!(toml(&value).expect("TOML"), wanted);
    }

    #[test]
    fn unrepresentable_values_are_rejected_with_their_path() {
        let error = toml(&json!({"a": {"b": [1, null]}})).expect_err("null");
        assert_eq!(error.to_string(), "a.b: TOML has no null");
        assert_eq!(toml(&json!({"a": u64::MAX})).expect_err("too large").path, "a");
    }

    fn read(item: &toml_edit::Item) -> Value {
        if let Some(table) = item.as_table_like() {
            return table.iter().map(|(name, item)| (name.to_owned(), read(item))).collect::<Map<_, _>>().into();
        }
        read_value(item.as_value().expect("a value"))
    }

    fn read_value(value: &toml_edit::Value) -> Value {
        use toml_edit::Value as Toml;
        match value {
            Toml::String(text) => json!(text.value()),
            Toml::Integer(number) => json!(number.value()),
            Toml::Float(number) => json!(number.value()),
            Toml::Boolean(value) => json!(value.value()),
            Toml::Array(list) => list.iter().map(read_value).collect::<Vec<_>>().into(),
            Toml::InlineTable(table) => {
                table.iter().map(|(name, value)| (name.to_owned(), read_value(value))).collect::<Map<_, _>>().into()
            }
            Toml::Datetime(_) => panic!("dates are never written"),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1.0e9..1.0e9).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "[\\x00-\\x1f\\x7f\"\\\\']{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-zA-Z0-9._\" \\\\é-]{0,6}", inner, 0..5)
                    .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn output_is_parsed_back_by_another_implementation(inner in any_value()) {
            let value = json!({"inner": inner, "last": 1});
            let text = toml(&value).expect("TOML");
            let document: toml_edit::DocumentMut = text.parse().expect(&text);
            prop_assert_eq!(read(document.as_item()), value);
        }
    }
}
