//! Sets of field paths, as in `managedFields`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

/// One step of a path. Keys and values are kept as JSON text, which is how the API writes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    Field(String),
    /// An element of a list that is a map, by its key.
    Key(String),
    /// An element of a list that is a set.
    Value(String),
}

impl Element {
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => Some(Self::Key(rest.to_owned())),
            "v" => Some(Self::Value(rest.to_owned())),
            _ => None,
        }
    }
}

pub(super) type Path = Vec<Element>;

/// A path in messages, such as `.spec.parts[name="a"].n`.
pub(super) struct Display<'a>(pub(super) &'a [Element]);

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for element in self.0 {
            match element {
                Element::Field(name) => write!(f, ".{name}")?,
                Element::Value(value) => write!(f, "[={value}]")?,
                Element::Key(key) => {
                    let parts: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                    let parts: Vec<String> = parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    write!(f, "[{}]", parts.join(","))?;
                }
            }
        }
        Ok(())
    }
}

/// The fields that a manager owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet(pub(super) BTreeSet<Path>);

impl FieldSet {
    /// Whether it has a path or one below it.
    pub(super) fn reaches(&self, path: &[Element]) -> bool {
        self.0.range(path.to_vec()..).next().is_some_and(|next| next.starts_with(path))
    }

    pub(super) fn intersection(&self, other: &Self) -> Vec<Path> {
        self.0.intersection(&other.0).cloned().collect()
    }

    pub(super) fn remove_all(&mut self, other: &Self) {
        self.0.retain(|path| !other.0.contains(path));
    }

    /// Removes what the server itself sets, and fields below `field`.
    pub(super) fn strip(&mut self, field: Option<&str>) {
        const OWN: [&str; 9] = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
            "deletionTimestamp",
        ];
        self.0.retain(|path| match path.as_slice() {
            [] => false,
            [Element::Field(top)] if matches!(top.as_str(), "apiVersion" | "kind" | "metadata") => false,
            [Element::Field(top), Element::Field(inner), ..] if top == "metadata" => !OWN.contains(&inner.as_str()),
            [Element::Field(top), ..] => Some(top.as_str()) != field,
            _ => true,
        });
    }

    /// The format `FieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut root = Node::default();
        for path in &self.0 {
            let mut node = &mut root;
            for element in path {
                node = node.children.entry(element).or_default();
            }
            node.owned = true;
        }
        root.to_json()
    }

    pub(super) fn from_json(value: &Value) -> Self {
        let mut set = Self::default();
        set.read(value, &mut Vec::new());
        set
    }

    fn read(&mut self, value: &Value, path: &mut Path) {
        let Value::Object(fields) = value else { return };
        if !path.is_empty() && (fields.is_empty() || fields.contains_key(".")) {
            self.0.insert(path.clone());
        }
        for (field, value) in fields {
            if let Some(element) = Element::decode(field) {
                path.push(element);
                self.read(value, path);
                path.pop();
            }
        }
    }
}

#[derive(Default)]
struct Node<'a> {
    owned: bool,
    children: BTreeMap<&'a Element, Node<'a>>,
}

impl Node<'_> {
    fn to_json(&self) -> Value {
        let mut fields: Map<String, Value> =
            self.children.iter().map(|(element, node)| (element.encode(), node.to_json())).collect();
        if self.owned && !fields.is_empty() {
            fields.insert(".".to_owned(), json!({}));
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_round_trip_and_paths_are_printed_like_kubernetes() {
        let fields = json!({"f:spec": {
            ".": {}, "f:size": {}, "f:tags": {"v:\"x\"": {}},
            "f:parts": {"k:{\"name\":\"a\"}": {".": {}, "f:n": {}}},
        }});
        let set = FieldSet::from_json(&fields);
        assert_eq!(set.to_json(), fields);
        let mut paths: Vec<String> = set.0.iter().map(|path| Display(path).to_string()).collect();
        paths.sort();
        assert_eq!(
            paths,
            [".spec", ".spec.parts[name=\"a\"]", ".spec.parts[name=\"a\"].n", ".spec.size", ".spec.tags[=\"x\"]"]
        );
        let field = |name: &str| Element::Field(name.to_owned());
        assert!(set.reaches(&[field("spec"), field("parts")]) && !set.reaches(&[field("spec"), field("part")]));
    }
}
