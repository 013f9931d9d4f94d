//! Every field that a source may set, and every variable that follows.

mod class_inputs;
mod inputs;
mod variables;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kiln_aks_formats::nbv;
use kiln_node_config::Effect;
use serde_json::Value;

use crate::kind::{Hardcoded, Kind};

/// What a field's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// A list of texts.
    List,
    /// Names to texts.
    Map,
}

impl Form {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bool => "boolean",
            Self::Int => "whole number",
            Self::List => "list",
            Self::Map => "map",
        }
    }

    /// Whether a value has the form.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64() || value.is_u64(),
            Self::List => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Map => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        }
    }

    /// The value that a text means: an environment variable or an argument has nothing else.
    pub fn read(self, text: &str) -> Option<Value> {
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

/// A field.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    /// What it is.
    pub doc: String,
    /// What its value looks like.
    pub form: Form,
    /// The kinds of source that may set it, weakest first. None: only the program does.
    pub kinds: &'static [Kind],
    /// What it is when nobody sets it, and why that stands in the program. Fields that follow from others have none.
    pub default: Option<(Hardcoded, Value)>,
    /// Environment variables that set it; the first that is there wins.
    pub reads: &'static [&'static str],
    /// Whether its value is never shown.
    pub secret: bool,
    /// What a change costs on a running node.
    pub effect: Effect,
    /// The field of the `NodeConfig` that carries it.
    pub config: Option<&'static str>,
    /// The variable that it is.
    pub variable: Option<nbv::Field>,
    /// The fields that it follows from.
    pub from: &'static [&'static str],
}

/// A name that no field has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no field `{name}`{near}", name = .0, near = meant(.0))]
pub struct UnknownField(pub String);

fn meant(name: &str) -> String {
    Field::nearest(name).map_or_else(String::new, |near| format!("; `{near}` may be meant"))
}

/// How many letters may be wrong, missing or too many for a name to be taken for a slip of the pen. Of names as short as ours three would
/// already lead to another field.
const SLIP: usize = 2;

impl Field {
    /// All fields: those that sources set, then the variables.
    pub fn all() -> &'static [Self] {
        &TABLE
    }

    /// The field of that name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownField> {
        TABLE.iter().find(|field| field.name == name).ok_or_else(|| UnknownField(name.to_owned()))
    }

    /// The name that is likely meant by one that no field has. Inputs come first: a variable is rarely what somebody wants to set.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let wanted = name.to_ascii_lowercase();
        let far = |field: &Self| distance(&wanted, &field.name.to_ascii_lowercase());
        let near = TABLE.iter().map(|field| (far(field), field.name));
        // A name of three letters is two slips away from every other one.
        near.filter(|(far, _)| *far <= SLIP && far * 3 < wanted.len()).min_by_key(|(far, _)| *far).map(|(_, name)| name)
    }

    /// Whether some source may set it.
    pub fn is_input(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The strongest kind that may set it.
    pub fn strongest(&self) -> Option<Kind> {
        self.kinds.last().copied()
    }

    /// All fields that follow from this one, directly or through others.
    pub fn dependents(&self) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        let mut look = vec![self.name];
        while let Some(name) = look.pop() {
            for field in TABLE.iter().filter(|field| field.from.contains(&name)) {
                if found.insert(field.name) {
                    look.push(field.name);
                }
            }
        }
        found
    }
}

/// How many letters must be put in, taken out or changed to make one name of another.
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
    fn every_name_is_there_once_and_every_source_of_a_field_exists() {
        let names: BTreeSet<_> = Field::all().iter().map(|field| field.name).collect();
        assert_eq!(names.len(), Field::all().len());
        for field in Field::all() {
            for from in field.from {
                assert!(names.contains(from), "{} follows from {from}", field.name);
            }
            assert!(field.kinds.is_sorted(), "{}", field.name);
        }
    }

    #[test]
    fn every_default_has_the_form_of_its_field() {
        for field in Field::all() {
            if let Some((_, value)) = &field.default {
                assert!(field.form.admits(value), "{}: {value}", field.name);
            }
        }
    }

    #[test]
    fn a_text_is_read_by_the_form_of_its_field() {
        assert_eq!(Form::List.read("a, b,,c"), Some(serde_json::json!(["a", "b", "c"])));
        assert_eq!(Form::Map.read("a=1,b=x=y"), Some(serde_json::json!({"a": "1", "b": "x=y"})));
        assert_eq!(Form::Map.read("a"), None);
        assert_eq!(Form::Int.read("x"), None);
        assert_eq!(Form::Bool.read("true"), Some(true.into()));
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_with_the_name_that_is_meant() {
        for (slip, meant) in [
            ("locatoin", Some("location")),
            ("LOCATION", Some("location")),
            ("maxpod", Some("maxPods")),
            ("imageFamilly", Some("imageFamily")),
            ("a", None),
            ("something-else", None),
        ] {
            assert_eq!(Field::nearest(slip), meant, "{slip}");
        }
        assert_eq!(
            UnknownField("locatio".to_owned()).to_string(),
            "there is no field `locatio`; `location` may be meant"
        );
        assert_eq!(UnknownField("b".to_owned()).to_string(), "there is no field `b`");
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "ab")), (3, 2, 0));
    }

    #[test]
    fn what_follows_from_a_field_is_found_through_others() {
        let dependents = Field::named("clusterEndpoint").unwrap().dependents();
        assert!(
            dependents.contains("RouteTable")
                && dependents.contains("NetworkSecurityGroup")
                && dependents.contains("APIServerName")
        );
    }
}
