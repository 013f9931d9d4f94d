//! Comparison of two documents or two sets of inputs. Secrets are compared but not shown.

use std::collections::{BTreeMap, BTreeSet};

use kiln_aks_formats::anc::{Configuration, Host};
use kiln_aks_formats::nbv;
use kiln_node_config::{Effect, NodeConfig, changes, secrets};
use serde::Serialize;
use serde_json::Value;

use crate::bootstrapper::RenderError;
use crate::drift::Record;
use crate::field::Field;
use crate::provenance::SourcePosition;
use crate::render::{node_config, node_config_from_aks};
use crate::resolve::Resolved;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    Inputs(Box<Resolved>),
    Record(Box<Record>),
    NodeConfig(Box<NodeConfig>),
    AksNodeConfig(Box<Configuration>),
    Environment(Environment),
}

/// Environment variables, some of them secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, text)| (name, redact(name, Value::from(text.as_str())))))
            .finish()
    }
}

/// The sides cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("cannot compare {0} with {1}: they have no common format")]
    NoCommonFormat(&'static str, &'static str),
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// A value that differs between two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Field, variable or path.
    pub path: String,
    /// Value of the first side, if it has one. Secrets are `***`.
    pub from: Option<Value>,
    /// Value of the second side, if it has one. Secrets are `***`.
    pub to: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_position: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_position: Option<String>,
    /// Effect of changing a running node from the first to the second value, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// Replacement for secret values.
const HIDDEN: &str = "***";

/// Fields of an `AKSNodeConfig` that contain secrets.
const SECRET_FIELDS: [&str; 6] = [
    "service_principal_secret",
    "tls_bootstrapping_token",
    "realm_password",
    "http_proxy",
    "https_proxy",
    "kubelet_client_key",
];

/// Replaces a value with `***` if it is secret, judged by its name and its content.
pub fn redact(name: &str, value: Value) -> Value {
    let last = name.rsplit(['.', '[']).next().unwrap_or(name);
    let secret = nbv::Field::from_env(name).is_some_and(nbv::Field::is_secret)
        || Field::named(name).is_ok_and(|field| field.secret)
        || SECRET_FIELDS.contains(&last);
    let empty = value.as_str() == Some("") || value.is_null();
    if !empty && (secret || !secrets::find(&value).is_empty()) { HIDDEN.into() } else { value }
}

impl Side {
    fn description(&self) -> &'static str {
        match self {
            Self::Inputs(_) => "inputs",
            Self::Record(_) => "a record",
            Self::NodeConfig(_) => "a NodeConfig",
            Self::AksNodeConfig(_) => "an AKSNodeConfig",
            Self::Environment(_) => "an environment",
        }
    }

    fn node_config(&self) -> Result<Option<NodeConfig>, RenderError> {
        Ok(match self {
            Self::NodeConfig(config) => Some((**config).clone()),
            Self::Inputs(inputs) => Some(node_config(inputs, 1)?),
            Self::AksNodeConfig(config) => Some(node_config_from_aks(config, 1)?),
            Self::Record(_) | Self::Environment(_) => None,
        })
    }

    fn environment(&self) -> Result<Option<BTreeMap<String, String>>, RenderError> {
        Ok(match self {
            Self::Environment(environment) => Some(environment.0.clone()),
            Self::Inputs(inputs) => Some(inputs.variables()?.environment()),
            Self::AksNodeConfig(config) => Some(config.environment(&Host::default())),
            Self::Record(_) | Self::NodeConfig(_) => None,
        })
    }
}

/// Compares two sides in their common format: fields for inputs and records, otherwise the format of one of the documents.
pub fn compare(a: &Side, b: &Side) -> Result<Vec<Difference>, CompareError> {
    let no_common_format = || CompareError::NoCommonFormat(a.description(), b.description());
    match (a, b) {
        (Side::Inputs(a), Side::Inputs(b)) => Ok(compare_inputs(a, b)),
        (Side::Record(a), Side::Record(b)) => Ok(compare_records(a, b)),
        (Side::Record(a), Side::Inputs(b)) => {
            Ok(compare_records(a, &Record::from_inputs(b).map_err(RenderError::from)?))
        }
        (Side::Inputs(a), Side::Record(b)) => {
            Ok(compare_records(&Record::from_inputs(a).map_err(RenderError::from)?, b))
        }
        (Side::AksNodeConfig(a), Side::AksNodeConfig(b)) => {
            let value = |config: &Configuration| {
                serde_json::from_str::<Value>(config.to_json().expose()).expect("`to_json` returns JSON")
            };
            let mut found = Vec::new();
            compare_trees("", Some(&value(a)), Some(&value(b)), &mut found);
            Ok(found)
        }
        (Side::NodeConfig(_), _) | (_, Side::NodeConfig(_)) => match (a.node_config()?, b.node_config()?) {
            (Some(a), Some(b)) => Ok(compare_node_configs(&a, &b)),
            _ => Err(no_common_format()),
        },
        _ => match (a.environment()?, b.environment()?) {
            (Some(a), Some(b)) => Ok(compare_texts(&a, &b)),
            _ => Err(no_common_format()),
        },
    }
}

fn difference(path: &str, from: Option<Value>, to: Option<Value>) -> Difference {
    Difference {
        path: path.to_owned(),
        from: from.map(|value| redact(path, value)),
        to: to.map(|value| redact(path, value)),
        from_position: None,
        to_position: None,
        effect: None,
    }
}

fn names<'a, T: 'a>(a: &'a BTreeMap<String, T>, b: &'a BTreeMap<String, T>) -> BTreeSet<&'a String> {
    a.keys().chain(b.keys()).collect()
}

fn compare_texts(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let value = |map: &BTreeMap<String, String>, name: &str| map.get(name).map(|text| Value::from(text.as_str()));
    let differ = names(a, b).into_iter().filter(|name| a.get(*name) != b.get(*name));
    differ.map(|name| difference(name, value(a, name), value(b, name))).collect()
}

fn compare_inputs(a: &Resolved, b: &Resolved) -> Vec<Difference> {
    let (a_variables, b_variables) = (a.variables().ok(), b.variables().ok());
    let value = |side: &Resolved, variables: &Option<nbv::Variables>, field: &Field| {
        if let Some(found) = side.get(field.name) {
            return (Some(found.value.clone()), Some(found.position.to_string()));
        }
        let text = variables.as_ref().zip(field.variable).map(|(all, variable)| Value::from(all.get(variable)));
        (text, Some(SourcePosition::Fields(field.from.iter().map(|from| (*from).to_owned()).collect()).to_string()))
    };
    let mut found = Vec::new();
    for field in Field::all() {
        let ((from, from_position), (to, to_position)) = (value(a, &a_variables, field), value(b, &b_variables, field));
        if from != to {
            let effect = field.from.is_empty().then_some(field.effect);
            found.push(Difference { from_position, to_position, effect, ..difference(field.name, from, to) });
        }
    }
    found
}

fn compare_records(a: &Record, b: &Record) -> Vec<Difference> {
    // The effect of a computed field is reported with the fields that it is computed from.
    let effect = |name: &str| Field::named(name).ok().filter(|field| field.from.is_empty()).map(|field| field.effect);
    let mut found = Vec::new();
    for name in names(&a.inputs, &b.inputs) {
        let (from, to) = (a.inputs.get(name), b.inputs.get(name));
        if from.map(|input| &input.value) != to.map(|input| &input.value) {
            let value = difference(name, from.map(|input| input.value.clone()), to.map(|input| input.value.clone()));
            let position = |side: Option<&crate::drift::Recorded>| side.map(|input| input.position.to_string());
            found.push(Difference {
                from_position: position(from),
                to_position: position(to),
                effect: effect(name),
                ..value
            });
        }
    }
    // A field that is both an input and a variable is already reported as an input.
    let variables = compare_texts(&a.variables, &b.variables).into_iter();
    let variables = variables.filter(|one| !a.inputs.contains_key(&one.path) && !b.inputs.contains_key(&one.path));
    found.extend(variables.map(|one| Difference { effect: effect(&one.path), ..one }));
    found
}

fn compare_node_configs(a: &NodeConfig, b: &NodeConfig) -> Vec<Difference> {
    let metadata = |config: &NodeConfig| serde_json::to_value(&config.metadata).expect("metadata serializes to JSON");
    let mut found = Vec::new();
    compare_trees("metadata", Some(&metadata(a)), Some(&metadata(b)), &mut found);
    for one in &mut found {
        one.effect = Some(Effect::None);
    }
    found.extend(
        changes::between(a, b).into_iter().map(|change| Difference {
            effect: Some(change.effect),
            ..difference(&change.path, change.from, change.to)
        }),
    );
    found
}

fn compare_trees(path: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Difference>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (from, to) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                compare_trees(&below(name), a.get(name), b.get(name), found);
            }
        }
        // An object that only one side has is listed field by field, so secrets in it are recognized by name.
        (Some(Value::Object(only)), None) => {
            only.iter().for_each(|(name, v)| compare_trees(&below(name), Some(v), None, found));
        }
        (None, Some(Value::Object(only))) => {
            only.iter().for_each(|(name, v)| compare_trees(&below(name), None, Some(v), found));
        }
        (a, b) if a != b => found.push(difference(path, a.cloned(), b.cloned())),
        _ => {}
    }
}
