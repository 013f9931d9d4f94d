//! A YAML or JSON document that knows the line and column of each of its values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use crate::provenance::SourcePosition;

/// A parsed document with the line and column of each value. `Debug` prints only the file name, because values may be secret.
#[derive(Clone, PartialEq)]
pub struct Document {
    origin: Origin,
    value: Value,
    positions: BTreeMap<String, (u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Origin {
    File(String),
    Object(String),
}

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {}{reason}", at(.path))]
pub struct BadDocument {
    pub file: String,
    /// Starts at 1.
    pub line: u64,
    /// Starts at 1.
    pub column: u64,
    pub path: String,
    /// Never contains the value, which may be secret.
    pub reason: String,
}

/// Formats the path inside a file; empty for the whole document.
pub(crate) fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("at `{path}`: ") }
}

enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(Value::Null))
            }

            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(Value::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
                Node::deserialize(from)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                }
                Ok(Node::List(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, Spanned<Node>>()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
        }
        from.deserialize_any(Any)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Document").field(&self.origin).finish()
    }
}

impl Document {
    /// Parses the text of a file.
    pub fn read(file: &str, text: &str) -> Result<Self, BadDocument> {
        // YAML 1.1 also reads `no` (Norway) and `on` as booleans; only `true` and `false` are accepted here.
        let options = serde_saphyr::options! { strict_booleans: true };
        let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let error = error.without_snippet();
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
            BadDocument { file: file.to_owned(), line, column, path: ".".to_owned(), reason }
        })?;
        let mut positions = BTreeMap::new();
        let value = flatten(root, "", &mut positions);
        Ok(Self { origin: Origin::File(file.to_owned()), value, positions })
    }

    /// Wraps an object that was read from the API server.
    pub fn object(kind: &str, value: Value) -> Self {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Self { origin: Origin::Object(format!("{kind}/{name}")), value, positions: BTreeMap::new() }
    }

    /// Returns the value of the whole document.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the position of a path, `spec.kubelet.maxPods`.
    pub fn position(&self, path: &str) -> SourcePosition {
        match &self.origin {
            Origin::File(file) => {
                let (line, column) = self.line_and_column(path);
                SourcePosition::File { file: file.clone(), line, column, path: path.to_owned() }
            }
            Origin::Object(object) => SourcePosition::Object { object: object.clone(), path: path.to_owned() },
        }
    }

    /// Returns line and column of a path, or of its nearest parent that exists.
    pub fn line_and_column(&self, path: &str) -> (u64, u64) {
        let mut path = path;
        loop {
            if let Some(position) = self.positions.get(path) {
                return *position;
            }
            match path.rfind(['.', '[']) {
                Some(cut) => path = &path[..cut],
                None => return self.positions.get("").copied().unwrap_or((1, 1)),
            }
        }
    }

    /// Deserializes the value. Errors contain line, column and path.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, BadDocument> {
        serde_path_to_error::deserialize(&self.value).map_err(|error| {
            let path = error.path().to_string();
            let reason = error.inner().to_string();
            // serde quotes the value, which may be a secret in the wrong field.
            let reason = match (reason.split_once("string \""), reason.rsplit_once("\", expected")) {
                (Some((head, _)), Some((_, tail))) => format!("{head}string, expected{tail}"),
                _ => reason,
            };
            self.error_at(&path, reason)
        })
    }

    /// Creates an error for a path.
    pub fn error_at(&self, path: &str, reason: impl Into<String>) -> BadDocument {
        let (line, column) = self.line_and_column(path);
        let file = match &self.origin {
            Origin::File(name) | Origin::Object(name) => name.clone(),
        };
        BadDocument { file, line, column, path: path.to_owned(), reason: reason.into() }
    }
}

fn flatten(node: Spanned<Node>, path: &str, positions: &mut BTreeMap<String, (u64, u64)>) -> Value {
    let at = node.referenced;
    positions.insert(path.to_owned(), (at.line(), at.column()));
    match node.value {
        Node::Scalar(value) => value,
        Node::List(list) => {
            let elements = list.into_iter().enumerate();
            elements.map(|(index, element)| flatten(element, &format!("{path}[{index}]"), positions)).collect()
        }
        Node::Map(entries) => {
            let mut map = Map::new();
            for (name, value) in entries {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                map.insert(name, flatten(value, &path, positions));
            }
            Value::Object(map)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "a: 1\nb:\n  c: [x, y]\n  d:\n    - e: true\n";

    #[test]
    fn position_of_each_value_is_known() {
        let document = Document::read("f.yaml", TEXT).unwrap();
        assert_eq!(document.value(), &serde_json::json!({"a": 1, "b": {"c": ["x", "y"], "d": [{"e": true}]}}));
        assert_eq!(document.line_and_column("b.c[1]").0, 3);
        assert_eq!(document.line_and_column("b.d[0].e").0, 5);
        assert_eq!(document.line_and_column("b.c[7].x").0, 3);
        assert_eq!(document.position("a").to_string(), "f.yaml:1 a");
    }

    #[test]
    fn type_mismatch_is_reported_with_position_and_without_the_value() {
        #[derive(Debug, Deserialize)]
        struct Inner {
            #[serde(rename = "c")]
            _c: u32,
        }
        #[derive(Debug, Deserialize)]
        struct Outer {
            #[serde(rename = "b")]
            _b: Inner,
        }
        let document = Document::read("f.yaml", "a: 1\nb:\n  c: hunter2\n").unwrap();
        let error = document.parse::<Outer>().unwrap_err();
        assert_eq!((error.line, error.column, error.path.as_str()), (3, 6, "b.c"));
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_line() {
        let error = Document::read("f.yaml", "a: 1\nb: [1,\n").unwrap_err();
        assert!(error.line >= 2 && error.to_string().starts_with("f.yaml:"), "{error}");
    }

    #[test]
    fn json_is_accepted() {
        let document = Document::read("f.json", "{\"a\":\n {\"b\": null}}").unwrap();
        assert_eq!(document.line_and_column("a.b").0, 2);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[-a-z0-9:{}\\[\\]&*!|>'\"%@`#, \n\t]{0,60}") {
            let _ = Document::read("f", &text);
        }
    }
}
