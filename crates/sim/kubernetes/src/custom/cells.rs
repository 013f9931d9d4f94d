//! Printer columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::path::Path;
use crate::meta;
use crate::table::age;

/// A column of `kubectl get`.
#[derive(Debug)]
pub(crate) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<Path>,
}

impl Column {
    /// The columns of a version after the name: the declared ones, else the age.
    pub(super) fn of_version(version: &Value) -> Vec<Self> {
        let declared = meta::list(version, "/additionalPrinterColumns");
        if declared.is_empty() {
            return vec![Self::new(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": "CreationTimestamp is a timestamp representing the server time when this object was created.",
            }))];
        }
        declared.iter().map(Self::new).collect()
    }

    fn new(column: &Value) -> Self {
        let text = |pointer: &str| meta::text(column, pointer).to_owned();
        Self {
            name: text("/name"),
            kind: text("/type"),
            format: text("/format"),
            description: match meta::text(column, "/description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("/jsonPath")),
                given => given.to_owned(),
            },
            priority: column["priority"].as_i64().unwrap_or_default(),
            path: Path::parse(meta::text(column, "/jsonPath")),
        }
    }

    pub(crate) fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }

    /// The cell of an object; null if it has no value of the column's type.
    pub(crate) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = self.path.as_ref().map(|path| path.find(object)).unwrap_or_default();
        let Some(first) = found.first() else {
            return Value::Null;
        };
        match self.kind.as_str() {
            "string" => json!(found.iter().map(|value| plain(value)).collect::<Vec<_>>().join(" ")),
            "integer" => first.as_i64().or_else(|| whole(first)).map_or(Value::Null, |number| json!(number)),
            "number" => first.as_f64().map_or(Value::Null, |number| json!(number)),
            "boolean" => first.as_bool().map_or(Value::Null, |value| json!(value)),
            "date" => first.as_str().map_or(Value::Null, |text| json!(age(text, now))),
            _ => Value::Null,
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a fraction is cut off, as by the real server")]
fn whole(value: &Value) -> Option<i64> {
    value.as_f64().map(|number| number as i64)
}
