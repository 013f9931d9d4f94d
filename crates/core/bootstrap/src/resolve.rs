//! Layers to one value per field.

use std::collections::BTreeMap;
use std::fmt;

use kiln_aks_formats::go::cluster_id;
use kiln_aks_formats::names;
use kiln_aks_formats::nbv::{Variables, rules};
use kiln_node_config::Effect;
use serde::Serialize;
use serde_json::Value as Json;

use crate::field::Field;
use crate::kind::{Kind, Place};
use crate::layer::{Assignment, Layer};

/// A field's value, and where it came from.
#[derive(Clone, PartialEq)]
pub struct Value {
    pub value: Json,
    /// The kind of source.
    pub kind: Kind,
    /// Where it stands.
    pub place: Place,
    /// What it won over, strongest first.
    pub overrode: Vec<(Kind, Assignment)>,
}

/// Every input with its value.
#[derive(Clone, PartialEq)]
pub struct Resolved(BTreeMap<&'static str, Value>);

/// A line of an explanation. Secrets are `***`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    pub field: &'static str,
    pub value: Json,
    /// The kind of source.
    pub kind: String,
    /// Where it stands.
    pub place: String,
    /// What it won over.
    pub overrode: Vec<Overridden>,
    /// What a change costs on a running node.
    pub effect: Effect,
}

/// A value that lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overridden {
    pub value: Json,
    /// The kind of source.
    pub kind: String,
    /// Where it stands.
    pub place: String,
}

/// Resolves layers, in any order: the strongest kind wins, and of one kind what was said last.
pub fn resolve(layers: &[Layer]) -> Resolved {
    let mut given: BTreeMap<&'static str, Vec<(Kind, Assignment)>> = BTreeMap::new();
    for layer in layers {
        for assignment in &layer.assignments {
            given.entry(assignment.field).or_default().push((layer.kind, assignment.clone()));
        }
    }
    let mut resolved = Resolved(BTreeMap::new());
    for field in Field::all().iter().filter(|field| field.variable.is_none() || field.from.is_empty()) {
        let mut said = given.remove(field.name).unwrap_or_default();
        // Stable, so that what was said last stays last among its kind.
        said.sort_by_key(|(kind, _)| *kind);
        said.reverse();
        let mut said = said.into_iter();
        let value = match said.next() {
            Some((kind, winner)) => Value { value: winner.value, kind, place: winner.place, overrode: said.collect() },
            None => resolved.unset(field),
        };
        resolved.0.insert(field.name, value);
    }
    resolved
}

impl Resolved {
    /// The value of a field that nobody set: computed, or in the program.
    fn unset(&self, field: &Field) -> Value {
        if let Some((why, value)) = &field.default {
            return Value {
                value: value.clone(),
                kind: Kind::Hardcoded(*why),
                place: Place::Program,
                overrode: Vec::new(),
            };
        }
        let place = Place::Fields(field.from.iter().map(|from| (*from).to_owned()).collect());
        Value { value: self.computed_input(field.name).into(), kind: Kind::Computed, place, overrode: Vec::new() }
    }

    fn computed_input(&self, name: &str) -> String {
        match name {
            "clusterId" => rules::api_server_name(self.text("clusterEndpoint"))
                .map_or_else(String::new, |host| cluster_id::from_fqdn(&host)),
            "securityGroup" if !self.text("clusterId").is_empty() => names::security_group(self.text("clusterId")),
            _ => String::new(),
        }
    }

    /// The value of an input.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All inputs.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// A text, empty where the field has another form.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(|value| value.value.as_str()).unwrap_or_default()
    }

    /// Whether a field is true.
    pub fn is_true(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value.value == true)
    }

    /// A number, 0 where the field has another form.
    pub fn number(&self, name: &str) -> i64 {
        self.0.get(name).and_then(|value| value.value.as_i64()).unwrap_or_default()
    }

    /// A list of texts.
    pub fn list(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(|value| value.value.as_array());
        list.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    }

    /// Names to texts.
    pub fn map(&self, name: &str) -> BTreeMap<String, String> {
        let map = self.0.get(name).and_then(|value| value.value.as_object());
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Where every field's value came from: inputs, then variables. While an input is missing, what follows from it is `null`.
    pub fn explain(&self) -> Vec<Explained> {
        let variables = self.variables().ok();
        Field::all().iter().map(|field| self.explained(field, variables.as_ref())).collect()
    }

    fn explained(&self, field: &Field, variables: Option<&Variables>) -> Explained {
        let hide = |value: &Json| if field.secret && value.as_str() != Some("") { "***".into() } else { value.clone() };
        let line = |value: Json, kind: Kind, place: &Place, overrode| Explained {
            field: field.name,
            value,
            kind: kind.to_string(),
            place: place.to_string(),
            overrode,
            effect: field.effect,
        };
        match (self.0.get(field.name), field.variable) {
            (Some(found), _) => {
                let lost = found.overrode.iter().map(|(kind, lost)| Overridden {
                    value: hide(&lost.value),
                    kind: kind.to_string(),
                    place: lost.place.to_string(),
                });
                line(hide(&found.value), found.kind, &found.place, lost.collect())
            }
            (None, variable) => {
                let shown = variable.and_then(|variable| Some(variables?.shown(variable).into())).unwrap_or(Json::Null);
                let place = Place::Fields(field.from.iter().map(|from| (*from).to_owned()).collect());
                line(shown, Kind::Computed, &place, Vec::new())
            }
        }
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|(name, value)| {
            let secret = Field::named(name).is_ok_and(|field| field.secret);
            let shown = if secret { "***".into() } else { value.value.clone() };
            (name, format!("{shown} ({}, {})", value.kind, value.place))
        });
        f.debug_map().entries(entries).finish()
    }
}
