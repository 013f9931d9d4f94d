//! Resolves sources to one value per field.

use std::collections::BTreeMap;
use std::fmt;

use kiln_aks_formats::go::cluster_id;
use kiln_aks_formats::names;
use kiln_aks_formats::nbv::{Variables, rules};
use kiln_node_config::Effect;
use serde::Serialize;
use serde_json::Value as Json;

use crate::field::Field;
use crate::provenance::{SourceKind, SourcePosition};
use crate::source::{Assignment, Source};

/// The value of a field and its provenance.
#[derive(Clone, PartialEq)]
pub struct Value {
    pub value: Json,
    pub kind: SourceKind,
    pub position: SourcePosition,
    /// Assignments of lower precedence, highest first.
    pub overrode: Vec<(SourceKind, Assignment)>,
}

/// Every input with its resolved value.
#[derive(Clone, PartialEq)]
pub struct Resolved(BTreeMap<&'static str, Value>);

/// Value and provenance of one field, for display. Secrets are shown as `***`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub field: &'static str,
    pub value: Json,
    pub kind: String,
    pub position: String,
    pub overrode: Vec<Overridden>,
    /// Effect of a change on a running node.
    pub effect: Effect,
}

/// A value that a source of higher precedence overrode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overridden {
    pub value: Json,
    pub kind: String,
    pub position: String,
}

/// Resolves sources, which may be in any order. The kind of highest precedence wins; within a kind, the last assignment wins.
pub fn resolve(sources: &[Source]) -> Resolved {
    let mut by_field: BTreeMap<&'static str, Vec<(SourceKind, Assignment)>> = BTreeMap::new();
    for source in sources {
        for assignment in &source.assignments {
            by_field.entry(assignment.field).or_default().push((source.kind, assignment.clone()));
        }
    }
    let mut resolved = Resolved(BTreeMap::new());
    for field in Field::all().iter().filter(|field| field.variable.is_none() || field.from.is_empty()) {
        let mut assignments = by_field.remove(field.name).unwrap_or_default();
        // The sort is stable, so the last assignment of a kind stays last.
        assignments.sort_by_key(|(kind, _)| *kind);
        assignments.reverse();
        let mut assignments = assignments.into_iter();
        let value = match assignments.next() {
            Some((kind, winner)) => {
                Value { value: winner.value, kind, position: winner.position, overrode: assignments.collect() }
            }
            None => resolved.default_value(field),
        };
        resolved.0.insert(field.name, value);
    }
    resolved
}

impl Resolved {
    /// Returns the value of a field that no source sets: its default, or a value computed from other fields.
    fn default_value(&self, field: &Field) -> Value {
        if let Some((why, value)) = &field.default {
            return Value {
                value: value.clone(),
                kind: SourceKind::Hardcoded(*why),
                position: SourcePosition::Program,
                overrode: Vec::new(),
            };
        }
        let position = SourcePosition::Fields(field.from.iter().map(|from| (*from).to_owned()).collect());
        Value {
            value: self.computed_input(field.name).into(),
            kind: SourceKind::Computed,
            position,
            overrode: Vec::new(),
        }
    }

    fn computed_input(&self, name: &str) -> String {
        match name {
            "clusterId" => rules::api_server_name(self.text("clusterEndpoint"))
                .map_or_else(String::new, |host| cluster_id::from_fqdn(&host)),
            "securityGroup" if !self.text("clusterId").is_empty() => names::security_group(self.text("clusterId")),
            _ => String::new(),
        }
    }

    /// Returns the value of an input.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Iterates over all inputs.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Returns a string field, or an empty string if the field has a different type.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(|value| value.value.as_str()).unwrap_or_default()
    }

    /// Whether a boolean field is true.
    pub fn is_true(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value.value == true)
    }

    /// Returns an integer field, or 0 if the field has a different type.
    pub fn number(&self, name: &str) -> i64 {
        self.0.get(name).and_then(|value| value.value.as_i64()).unwrap_or_default()
    }

    /// Returns a list field.
    pub fn list(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(|value| value.value.as_array());
        list.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    }

    /// Returns a map field.
    pub fn map(&self, name: &str) -> BTreeMap<String, String> {
        let map = self.0.get(name).and_then(|value| value.value.as_object());
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Returns value and provenance of every field, inputs first, then variables. A variable is `null` while a required input is missing.
    pub fn explain(&self) -> Vec<Explanation> {
        let variables = self.variables().ok();
        Field::all().iter().map(|field| self.explanation(field, variables.as_ref())).collect()
    }

    fn explanation(&self, field: &Field, variables: Option<&Variables>) -> Explanation {
        let hide = |value: &Json| if field.secret && value.as_str() != Some("") { "***".into() } else { value.clone() };
        let explanation = |value: Json, kind: SourceKind, position: &SourcePosition, overrode| Explanation {
            field: field.name,
            value,
            kind: kind.to_string(),
            position: position.to_string(),
            overrode,
            effect: field.effect,
        };
        match (self.0.get(field.name), field.variable) {
            (Some(found), _) => {
                let overrode = found.overrode.iter().map(|(kind, overridden)| Overridden {
                    value: hide(&overridden.value),
                    kind: kind.to_string(),
                    position: overridden.position.to_string(),
                });
                explanation(hide(&found.value), found.kind, &found.position, overrode.collect())
            }
            (None, variable) => {
                let shown =
                    variable.and_then(|variable| Some(variables?.redacted(variable).into())).unwrap_or(Json::Null);
                let position = SourcePosition::Fields(field.from.iter().map(|from| (*from).to_owned()).collect());
                explanation(shown, SourceKind::Computed, &position, Vec::new())
            }
        }
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|(name, value)| {
            let secret = Field::named(name).is_ok_and(|field| field.secret);
            let shown = if secret { "***".into() } else { value.value.clone() };
            (name, format!("{shown} ({}, {})", value.kind, value.position))
        });
        f.debug_map().entries(entries).finish()
    }
}
