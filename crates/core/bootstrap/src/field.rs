//! The table of fields: inputs that sources set, and the variables computed from them.

mod class_inputs;
mod inputs;
mod variables;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kiln_aks_formats::nbv;
use kiln_node_config::Effect;
use serde_json::Value;

use crate::provenance::{Hardcoded, SourceKind};

/// Type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    Text,
    Bool,
    Int,
    /// A list of strings.
    List,
    /// A map from string to string.
    Map,
}

impl ValueType {
    /// Returns the name of the type for messages and documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::List => "list",
            Self::Map => "map",
        }
    }

    /// Whether a value has this type.
    pub fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64() || value.is_u64(),
            Self::List => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Map => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        }
    }

    /// Parses the text of an environment variable or an argument.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(text.into()),
            Self::Bool => text.parse::<bool>().ok().map(Value::from),
            Self::Int => text.parse::<i64>().ok().map(Value::from),
            Self::List => Some(parts(text).map(Value::from).collect()),
            Self::Map => parts(text)
                .map(|pair| pair.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value))))
                .collect::<Option<serde_json::Map<_, _>>>()
                .map(Value::Object),
        }
    }

    fn empty(self) -> Value {
        match self {
            Self::Text => "".into(),
            Self::Bool => false.into(),
            Self::Int => 0.into(),
            Self::List => Value::Array(Vec::new()),
            Self::Map => Value::Object(serde_json::Map::new()),
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A field that sources may set or that is computed.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub doc: String,
    pub value_type: ValueType,
    /// Kinds of source that may set the field, lowest precedence first. Empty: the value is hardcoded or computed.
    pub kinds: &'static [SourceKind],
    /// Default value and the reason for it. Computed fields have none.
    pub default: Option<(Hardcoded, Value)>,
    /// Environment variables that set the field; the first one that is set wins.
    pub reads: &'static [&'static str],
    /// Whether the value is never displayed.
    pub secret: bool,
    /// Effect of a change on a running node.
    pub effect: Effect,
    /// Path of the `NodeConfig` field that contains the value.
    pub config: Option<&'static str>,
    /// The Node Bootstrapping Variable, for fields that are one.
    pub variable: Option<nbv::Field>,
    /// Fields that this one is computed from.
    pub from: &'static [&'static str],
}

/// A field name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown field `{name}`{suggestion}", name = .0, suggestion = suggestion(.0))]
pub struct UnknownField(pub String);

fn suggestion(name: &str) -> String {
    Field::nearest(name).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Largest edit distance at which a name counts as a typo. Field names are short; a distance of 3 often reaches a different field.
const MAX_TYPO_DISTANCE: usize = 2;

impl Field {
    /// Returns all fields: inputs first, then variables.
    pub fn all() -> &'static [Self] {
        &TABLE
    }

    /// Looks up a field by name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownField> {
        TABLE.iter().find(|field| field.name == name).ok_or_else(|| UnknownField(name.to_owned()))
    }

    /// Suggests a field for a misspelled name. Inputs come first, because variables are rarely set directly.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let wanted = name.to_ascii_lowercase();
        let candidates = TABLE.iter().map(|field| (distance(&wanted, &field.name.to_ascii_lowercase()), field.name));
        // Two edits turn a name of three letters into almost any other.
        candidates
            .filter(|(edits, _)| *edits <= MAX_TYPO_DISTANCE && edits * 3 < wanted.len())
            .min_by_key(|(edits, _)| *edits)
            .map(|(_, name)| name)
    }

    /// Whether a source may set the field.
    pub fn is_input(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Returns the kind of highest precedence that may set the field.
    pub fn highest_kind(&self) -> Option<SourceKind> {
        self.kinds.last().copied()
    }

    /// Returns all fields that are computed from this one, directly or indirectly.
    pub fn dependents(&self) -> BTreeSet<&'static str> {
        let mut dependents = BTreeSet::new();
        let mut queue = vec![self.name];
        while let Some(name) = queue.pop() {
            for field in TABLE.iter().filter(|field| field.from.contains(&name)) {
                if dependents.insert(field.name) {
                    queue.push(field.name);
                }
            }
        }
        dependents
    }
}

/// Levenshtein distance between two names.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], index + 1);
        for (column, with) in other.bytes().enumerate() {
            let changed = corner + usize::from(letter != with);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

fn effect_of_config(path: &str) -> Effect {
    let rows = kiln_node_config::reference::rows();
    rows.iter().find(|row| row.path == path).unwrap_or_else(|| panic!("NodeConfig has a field {path}")).effect
}

static TABLE: LazyLock<Vec<Field>> = LazyLock::new(|| inputs::inputs().chain(variables::variables()).collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_unique_and_dependencies_exist() {
        let names: BTreeSet<_> = Field::all().iter().map(|field| field.name).collect();
        assert_eq!(names.len(), Field::all().len());
        for field in Field::all() {
            for from in field.from {
                assert!(names.contains(from), "{} is computed from {from}", field.name);
            }
            assert!(field.kinds.is_sorted(), "{}", field.name);
        }
    }

    #[test]
    fn defaults_have_the_type_of_their_field() {
        for field in Field::all() {
            if let Some((_, value)) = &field.default {
                assert!(field.value_type.accepts(value), "{}: {value}", field.name);
            }
        }
    }

    #[test]
    fn text_is_parsed_by_field_type() {
        assert_eq!(ValueType::List.parse("a, b,,c"), Some(serde_json::json!(["a", "b", "c"])));
        assert_eq!(ValueType::Map.parse("a=1,b=x=y"), Some(serde_json::json!({"a": "1", "b": "x=y"})));
        assert_eq!(ValueType::Map.parse("a"), None);
        assert_eq!(ValueType::Int.parse("x"), None);
        assert_eq!(ValueType::Bool.parse("true"), Some(true.into()));
    }

    #[test]
    fn misspelled_names_get_a_suggestion() {
        for (typo, suggestion) in [
            ("locatoin", Some("location")),
            ("LOCATION", Some("location")),
            ("maxpod", Some("maxPods")),
            ("imageFamilly", Some("imageFamily")),
            ("a", None),
            ("something-else", None),
        ] {
            assert_eq!(Field::nearest(typo), suggestion, "{typo}");
        }
        assert_eq!(UnknownField("locatio".to_owned()).to_string(), "unknown field `locatio`; did you mean `location`?");
        assert_eq!(UnknownField("b".to_owned()).to_string(), "unknown field `b`");
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "ab")), (3, 2, 0));
    }

    #[test]
    fn dependents_include_indirect_ones() {
        let dependents = Field::named("clusterEndpoint").unwrap().dependents();
        assert!(
            dependents.contains("RouteTable")
                && dependents.contains("NetworkSecurityGroup")
                && dependents.contains("APIServerName")
        );
    }
}
