//! Two documents, or two sets of inputs, side by side. Secrets are compared and not shown.

use std::collections::{BTreeMap, BTreeSet};

use kiln_aks_formats::anc::{Configuration, Host};
use kiln_aks_formats::nbv;
use kiln_node_config::{Effect, NodeConfig, changes, secrets};
use serde::Serialize;
use serde_json::Value;

use crate::bootstrapper::RenderError;
use crate::drift::Record;
use crate::field::Field;
use crate::kind::Place;
use crate::render::{node_config, node_config_from_aks};
use crate::resolve::Resolved;

/// Something to compare.
#[derive(Clone, Debug)]
pub enum Side {
    /// Layers, resolved.
    Inputs(Box<Resolved>),
    /// What a node was made of.
    Record(Box<Record>),
    /// kiln's own document.
    NodeConfig(Box<NodeConfig>),
    /// The configuration of AKS's node controller.
    NodeController(Box<Configuration>),
    /// Environment names with their texts.
    Environment(Environment),
}

/// Environment names with their texts, some of them secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, text)| (name, shown(name, Value::from(text.as_str())))))
            .finish()
    }
}

/// Two sides that have nothing in common.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One side cannot be brought to the form of the other.
    #[error("{0} and {1} cannot be compared: they have no form in common")]
    Apart(&'static str, &'static str),
    /// One side makes no document.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The field, the variable or the path.
    pub path: String,
    /// What the first side says; nothing where it is silent. A secret is `***`.
    pub from: Option<Value>,
    /// What the second side says.
    pub to: Option<Value>,
    /// Where the first side says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_place: Option<String>,
    /// Where the second side says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_place: Option<String>,
    /// What it costs to go from the first to the second on a running node, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// What stands for a secret.
const HIDDEN: &str = "***";

/// Fields of the node controller's configuration that hold secrets.
const SECRET_FIELDS: [&str; 6] = [
    "service_principal_secret",
    "tls_bootstrapping_token",
    "realm_password",
    "http_proxy",
    "https_proxy",
    "kubelet_client_key",
];

/// A value as it may be shown under a name.
pub fn shown(name: &str, value: Value) -> Value {
    let last = name.rsplit(['.', '[']).next().unwrap_or(name);
    let secret = nbv::Field::of_env(name).is_some_and(nbv::Field::is_secret)
        || Field::named(name).is_ok_and(|field| field.secret)
        || SECRET_FIELDS.contains(&last);
    let empty = value.as_str() == Some("") || value.is_null();
    if !empty && (secret || !secrets::find(&value).is_empty()) { HIDDEN.into() } else { value }
}

impl Side {
    fn word(&self) -> &'static str {
        match self {
            Self::Inputs(_) => "inputs",
            Self::Record(_) => "a record",
            Self::NodeConfig(_) => "a NodeConfig",
            Self::NodeController(_) => "an AKSNodeConfig",
            Self::Environment(_) => "an environment",
        }
    }

    fn node_config(&self) -> Result<Option<NodeConfig>, RenderError> {
        Ok(match self {
            Self::NodeConfig(config) => Some((**config).clone()),
            Self::Inputs(inputs) => Some(node_config(inputs, 1)?),
            Self::NodeController(config) => Some(node_config_from_aks(config, 1)?),
            Self::Record(_) | Self::Environment(_) => None,
        })
    }

    fn environment(&self) -> Result<Option<BTreeMap<String, String>>, RenderError> {
        Ok(match self {
            Self::Environment(environment) => Some(environment.0.clone()),
            Self::Inputs(inputs) => Some(inputs.variables()?.environment()),
            Self::NodeController(config) => Some(config.environment(&Host::default())),
            Self::Record(_) | Self::NodeConfig(_) => None,
        })
    }
}

/// What differs, in the form that both sides have: fields for inputs and records, else the document that one of them is.
pub fn compare(a: &Side, b: &Side) -> Result<Vec<Difference>, CompareError> {
    let apart = || CompareError::Apart(a.word(), b.word());
    match (a, b) {
        (Side::Inputs(a), Side::Inputs(b)) => Ok(inputs(a, b)),
        (Side::Record(a), Side::Record(b)) => Ok(records(a, b)),
        (Side::Record(a), Side::Inputs(b)) => Ok(records(a, &Record::of(b).map_err(RenderError::from)?)),
        (Side::Inputs(a), Side::Record(b)) => Ok(records(&Record::of(a).map_err(RenderError::from)?, b)),
        (Side::NodeController(a), Side::NodeController(b)) => {
            let value = |config: &Configuration| {
                serde_json::from_str::<Value>(config.to_json().expose()).expect("what is written is JSON")
            };
            let mut found = Vec::new();
            tree("", Some(&value(a)), Some(&value(b)), &mut found);
            Ok(found)
        }
        (Side::NodeConfig(_), _) | (_, Side::NodeConfig(_)) => match (a.node_config()?, b.node_config()?) {
            (Some(a), Some(b)) => Ok(node_configs(&a, &b)),
            _ => Err(apart()),
        },
        _ => match (a.environment()?, b.environment()?) {
            (Some(a), Some(b)) => Ok(texts(&a, &b)),
            _ => Err(apart()),
        },
    }
}

fn difference(path: &str, from: Option<Value>, to: Option<Value>) -> Difference {
    Difference {
        path: path.to_owned(),
        from: from.map(|value| shown(path, value)),
        to: to.map(|value| shown(path, value)),
        from_place: None,
        to_place: None,
        effect: None,
    }
}

fn names<'a, T: 'a>(a: &'a BTreeMap<String, T>, b: &'a BTreeMap<String, T>) -> BTreeSet<&'a String> {
    a.keys().chain(b.keys()).collect()
}

fn texts(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let value = |map: &BTreeMap<String, String>, name: &str| map.get(name).map(|text| Value::from(text.as_str()));
    let differ = names(a, b).into_iter().filter(|name| a.get(*name) != b.get(*name));
    differ.map(|name| difference(name, value(a, name), value(b, name))).collect()
}

fn inputs(a: &Resolved, b: &Resolved) -> Vec<Difference> {
    let (a_variables, b_variables) = (a.variables().ok(), b.variables().ok());
    let value = |side: &Resolved, variables: &Option<nbv::Variables>, field: &Field| {
        if let Some(found) = side.get(field.name) {
            return (Some(found.value.clone()), Some(found.place.to_string()));
        }
        let text = variables.as_ref().zip(field.variable).map(|(all, variable)| Value::from(all.get(variable)));
        (text, Some(Place::Fields(field.from.iter().map(|from| (*from).to_owned()).collect()).to_string()))
    };
    let mut found = Vec::new();
    for field in Field::all() {
        let ((from, from_place), (to, to_place)) = (value(a, &a_variables, field), value(b, &b_variables, field));
        if from != to {
            let effect = field.from.is_empty().then_some(field.effect);
            found.push(Difference { from_place, to_place, effect, ..difference(field.name, from, to) });
        }
    }
    found
}

fn records(a: &Record, b: &Record) -> Vec<Difference> {
    // What is computed costs what it follows from costs.
    let effect = |name: &str| Field::named(name).ok().filter(|field| field.from.is_empty()).map(|field| field.effect);
    let mut found = Vec::new();
    for name in names(&a.inputs, &b.inputs) {
        let (from, to) = (a.inputs.get(name), b.inputs.get(name));
        if from.map(|input| &input.value) != to.map(|input| &input.value) {
            let value = difference(name, from.map(|input| input.value.clone()), to.map(|input| input.value.clone()));
            let place = |side: Option<&crate::drift::Recorded>| side.map(|input| input.place.to_string());
            found.push(Difference { from_place: place(from), to_place: place(to), effect: effect(name), ..value });
        }
    }
    // What is an input and a variable at once was said above.
    let variables = texts(&a.variables, &b.variables).into_iter();
    let variables = variables.filter(|one| !a.inputs.contains_key(&one.path) && !b.inputs.contains_key(&one.path));
    found.extend(variables.map(|one| Difference { effect: effect(&one.path), ..one }));
    found
}

fn node_configs(a: &NodeConfig, b: &NodeConfig) -> Vec<Difference> {
    let metadata = |config: &NodeConfig| serde_json::to_value(&config.metadata).expect("texts for names");
    let mut found = Vec::new();
    tree("metadata", Some(&metadata(a)), Some(&metadata(b)), &mut found);
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

fn tree(path: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Difference>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (from, to) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                tree(&below(name), a.get(name), b.get(name), found);
            }
        }
        // An object that only one side has is shown field by field, so that each secret in it is known by its name.
        (Some(Value::Object(only)), None) => only.iter().for_each(|(name, v)| tree(&below(name), Some(v), None, found)),
        (None, Some(Value::Object(only))) => only.iter().for_each(|(name, v)| tree(&below(name), None, Some(v), found)),
        (a, b) if a != b => found.push(difference(path, a.cloned(), b.cloned())),
        _ => {}
    }
}
