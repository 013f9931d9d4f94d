//! Drift: fields that changed since a node was created, and the effect of applying each change.

use std::collections::{BTreeMap, BTreeSet};

use kiln_aks_formats::nbv;
use kiln_node_config::{Effect, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::derive::DeriveError;
use crate::field::Field;
use crate::provenance::{SourceKind, SourcePosition};
use crate::resolve::Resolved;

/// Field name in a drift entry for changes that a different kiln version computed from the same inputs.
pub const PROGRAM: &str = "kiln";

/// The values a node was created from. It contains no secrets, so a rotated token is not drift. A proxy URL may contain a password;
/// only the digest of its address is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub inputs: BTreeMap<String, Recorded>,
    /// The Node Bootstrapping Variables computed from the inputs, by name.
    pub variables: BTreeMap<String, String>,
    /// Hash of inputs and variables. Equal hashes mean no drift.
    pub hash: String,
    /// Version of kiln that computed the record. Not part of the hash: a different version that computes the same values is not drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One recorded input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub value: Json,
    pub kind: SourceKind,
    pub position: SourcePosition,
}

/// An input whose value changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriftedField {
    /// The input, or [`PROGRAM`] for changes caused by a different kiln version.
    pub field: String,
    pub from: Json,
    pub to: Json,
    /// Kind of source that sets the current value.
    pub kind: SourceKind,
    /// Position of the current value.
    pub position: SourcePosition,
    /// Variables that changed because of this input.
    pub computed: Vec<String>,
    /// Effect of applying the change to the running node.
    pub effect: Effect,
}

impl DriftedField {
    /// Whether the change requires a new node. Other changes are applied by a new `NodeConfig`.
    pub fn needs_replacement(&self) -> bool {
        self.effect == Effect::Replace
    }

    /// The input and every field that depends on it.
    fn affected_fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        Field::named(&self.field).into_iter().flat_map(|field| std::iter::once(field.name).chain(field.dependents()))
    }
}

impl Record {
    /// Creates the record of a node with these inputs.
    pub fn from_inputs(inputs: &Resolved) -> Result<Self, DeriveError> {
        let variables = inputs.variables()?;
        let recorded: BTreeMap<String, Recorded> = inputs
            .iter()
            .filter_map(|(name, value)| {
                let secret = Field::named(name).is_ok_and(|field| field.secret);
                let stored =
                    if secret { secret_digest(name, value.value.as_str()?)?.into() } else { value.value.clone() };
                Some((name.to_owned(), Recorded { value: stored, kind: value.kind, position: value.position.clone() }))
            })
            .collect();
        let stored = nbv::Field::ALL.into_iter().filter_map(|field| {
            let text = variables.get(field);
            let stored = if field.is_secret() { secret_digest(field.name(), text)? } else { text.to_owned() };
            Some((field.name().to_owned(), stored))
        });
        let mut texts: BTreeMap<String, String> = stored.collect();
        // The variable only contains the number of certificates; a changed certificate is drift too.
        texts.insert(nbv::Field::CustomCATrustConfigCerts.name().to_owned(), variables.certificates().join(","));
        let values: BTreeMap<&String, &Json> = recorded.iter().map(|(name, input)| (name, &input.value)).collect();
        let hash = canonical::hash(&(values, &texts));
        Ok(Self { inputs: recorded, variables: texts, hash, version: Some(env!("CARGO_PKG_VERSION").to_owned()) })
    }

    /// Returns the fields that changed between this record and the current one. The same value from a different source is not drift.
    /// Changes that no input explains come from a different kiln version; they are the last entry, named [`PROGRAM`].
    pub fn drift(&self, now: &Self) -> Vec<DriftedField> {
        let variables = differing(&self.variables, &now.variables, |was, is| was == is);
        let differ = differing(&self.inputs, &now.inputs, |was, is| was.value == is.value);
        let mut drifted: Vec<DriftedField> =
            differ.iter().filter_map(|name| self.drifted(name, now, &variables)).collect();
        let mut explained: BTreeSet<&str> = drifted.iter().flat_map(DriftedField::affected_fields).collect();
        // Setting a field explicitly to its default can change a variable: an explicit architecture becomes a node label.
        let set = |side: &Self, name: &str| side.inputs.get(name).is_some_and(|input| input.kind.is_external());
        for name in now.inputs.keys().filter(|name| set(self, name) != set(now, name)) {
            let left: BTreeSet<&str> = variables.difference(&explained).copied().collect();
            drifted.extend(
                self.drifted(name, now, &left)
                    .filter(|one| !differ.contains(name.as_str()) && !one.computed.is_empty()),
            );
            explained.extend(drifted.last().into_iter().flat_map(DriftedField::affected_fields));
        }
        drifted.sort_by(|a, b| a.field.cmp(&b.field));
        let rest: Vec<&str> = differ.into_iter().chain(variables).filter(|name| !explained.contains(name)).collect();
        if !rest.is_empty() || (drifted.is_empty() && self.hash != now.hash) {
            drifted.push(self.changed_by_program(now, rest));
        }
        drifted
    }

    /// Creates the entry for an input. An input that was and is computed has none, because the fields it is computed from have their own.
    /// An input that was set and is computed now has one; no other entry would mention it.
    fn drifted(&self, name: &str, now: &Self, variables: &BTreeSet<&str>) -> Option<DriftedField> {
        let (was, is) = (self.inputs.get(name), now.inputs.get(name)?);
        let field = Field::named(name).ok()?;
        if is.kind == SourceKind::Computed && was.is_none_or(|was| was.kind == SourceKind::Computed) {
            return None;
        }
        let dependents = field.dependents();
        let computed = variables.iter().filter(|variable| dependents.contains(*variable) && **variable != name);
        Some(DriftedField {
            field: name.to_owned(),
            from: was.map_or(Json::Null, |was| was.value.clone()),
            to: is.value.clone(),
            kind: is.kind,
            position: is.position.clone(),
            computed: computed.map(|variable| (*variable).to_owned()).collect(),
            effect: field.effect,
        })
    }

    /// Creates the entry for changes that a different kiln version computes from the same inputs.
    fn changed_by_program(&self, now: &Self, fields: Vec<&str>) -> DriftedField {
        // The effect of a field that this version does not know is unknown; only a new node certainly has the new value.
        let effect = |name: &&str| Field::named(name).map_or(Effect::Replace, |field| field.effect);
        DriftedField {
            field: PROGRAM.to_owned(),
            from: self.version.clone().map_or(Json::Null, Json::from),
            to: now.version.clone().map_or(Json::Null, Json::from),
            kind: SourceKind::Computed,
            position: SourcePosition::Program,
            effect: fields.iter().map(effect).max().unwrap_or(Effect::None),
            computed: fields.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Returns the names whose values differ, including names that only one side has.
fn differing<'a, T>(
    was: &'a BTreeMap<String, T>,
    is: &'a BTreeMap<String, T>,
    same: impl Fn(&T, &T) -> bool,
) -> BTreeSet<&'a str> {
    let names = was.keys().chain(is.keys()).map(String::as_str);
    names.filter(|name| !matches!((was.get(*name), is.get(*name)), (Some(was), Some(is)) if same(was, is))).collect()
}

/// Returns what a record stores of a secret field. A changed proxy address is drift, so the digest of the address without credentials
/// is stored. Tokens, keys and passwords are rotated; nothing of them is stored.
fn secret_digest(name: &str, text: &str) -> Option<String> {
    if ![nbv::Field::HTTPProxyURLs, nbv::Field::HTTPSProxyURLs].iter().any(|proxy| proxy.name() == name) {
        return None;
    }
    if text.is_empty() {
        return Some(String::new());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    Some(canonical::hash(&(scheme, address)))
}

/// Returns the most disruptive effect of all entries.
pub fn highest_effect(drifted: &[DriftedField]) -> Effect {
    drifted.iter().map(|field| field.effect).max().unwrap_or(Effect::None)
}
