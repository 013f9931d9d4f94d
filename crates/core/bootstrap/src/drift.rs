//! What moved since a node was made, and what it would take to follow.

use std::collections::{BTreeMap, BTreeSet};

use kiln_aks_formats::nbv;
use kiln_node_config::{Effect, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::derive::DeriveError;
use crate::field::Field;
use crate::kind::{Kind, Place};
use crate::resolve::Resolved;

/// What stands for an input where the program itself moved: no field has this name.
pub const PROGRAM: &str = "kiln";

/// What a node was made of. It holds no secret: a token that was rotated is no reason to replace a node. A proxy may carry a
/// password, so that only the digest of its address is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub inputs: BTreeMap<String, Recorded>,
    /// The variables that follow from them, by their names in the contract.
    pub variables: BTreeMap<String, String>,
    /// The hash of both values: the quick question.
    pub hash: String,
    /// The version of the kiln that computed it. It is no part of the hash: another version that computes the same is no drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One recorded input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub value: Json,
    /// The kind of source.
    pub kind: Kind,
    /// Where it stood.
    pub place: Place,
}

/// An input that moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The input, or [`PROGRAM`] for what another version of it computes from the same inputs.
    pub field: String,
    /// What it was.
    pub from: Json,
    /// What it is.
    pub to: Json,
    /// The kind of source that says so now.
    pub kind: Kind,
    /// Where it stands now.
    pub place: Place,
    /// The variables that moved with it.
    pub computed: Vec<String>,
    /// What it costs to follow on the running node.
    pub effect: Effect,
}

impl Moved {
    /// Whether only a new node can follow; otherwise a new `NodeConfig` will do.
    pub fn needs_new_node(&self) -> bool {
        self.effect == Effect::Replace
    }

    /// The input and all that may move with it.
    fn reach(&self) -> impl Iterator<Item = &'static str> + use<> {
        Field::named(&self.field).into_iter().flat_map(|field| std::iter::once(field.name).chain(field.dependents()))
    }
}

impl Record {
    /// Records what a node is made of.
    pub fn of(inputs: &Resolved) -> Result<Self, DeriveError> {
        let variables = inputs.variables()?;
        let recorded: BTreeMap<String, Recorded> = inputs
            .iter()
            .filter_map(|(name, value)| {
                let secret = Field::named(name).is_ok_and(|field| field.secret);
                let kept = if secret { outline(name, value.value.as_str()?)?.into() } else { value.value.clone() };
                Some((name.to_owned(), Recorded { value: kept, kind: value.kind, place: value.place.clone() }))
            })
            .collect();
        let written = nbv::Field::ALL.into_iter().filter_map(|field| {
            let text = variables.get(field);
            let kept = if field.is_secret() { outline(field.name(), text)? } else { text.to_owned() };
            Some((field.name().to_owned(), kept))
        });
        let mut texts: BTreeMap<String, String> = written.collect();
        // The list shows as its length; what is in it counts too.
        texts.insert(nbv::Field::CustomCATrustConfigCerts.name().to_owned(), variables.certificates().join(","));
        let values: BTreeMap<&String, &Json> = recorded.iter().map(|(name, input)| (name, &input.value)).collect();
        let hash = canonical::hash(&(values, &texts));
        Ok(Self { inputs: recorded, variables: texts, hash, version: Some(env!("CARGO_PKG_VERSION").to_owned()) })
    }

    /// What moved between this record and inputs of now. Nothing, where the values are the same: another place that says the same
    /// is no drift. What moved though no input did is the doing of another kiln, and is named as such, last.
    pub fn drift(&self, now: &Self) -> Vec<Moved> {
        let variables = differing(&self.variables, &now.variables, |was, is| was == is);
        let differ = differing(&self.inputs, &now.inputs, |was, is| was.value == is.value);
        let mut moved: Vec<Moved> = differ.iter().filter_map(|name| self.moved(name, now, &variables)).collect();
        let mut explained: BTreeSet<&str> = moved.iter().flat_map(Moved::reach).collect();
        // Some values count only where somebody says them (a pool's processor is a label then), though they are the default's.
        let said = |side: &Self, name: &str| side.inputs.get(name).is_some_and(|input| input.kind.is_said());
        for name in now.inputs.keys().filter(|name| said(self, name) != said(now, name)) {
            let left: BTreeSet<&str> = variables.difference(&explained).copied().collect();
            moved.extend(
                self.moved(name, now, &left).filter(|one| !differ.contains(name.as_str()) && !one.computed.is_empty()),
            );
            explained.extend(moved.last().into_iter().flat_map(Moved::reach));
        }
        moved.sort_by(|a, b| a.field.cmp(&b.field));
        let rest: Vec<&str> = differ.into_iter().chain(variables).filter(|name| !explained.contains(name)).collect();
        if !rest.is_empty() || (moved.is_empty() && self.hash != now.hash) {
            moved.push(self.rendered_otherwise(now, rest));
        }
        moved
    }

    /// The entry for an input. None for one that was computed then and is now: it moves with what it follows from, which is named itself.
    /// One that somebody had set, and nobody does now, is computed since: nothing else would name it.
    fn moved(&self, name: &str, now: &Self, variables: &BTreeSet<&str>) -> Option<Moved> {
        let (was, is) = (self.inputs.get(name), now.inputs.get(name)?);
        let field = Field::named(name).ok()?;
        if is.kind == Kind::Computed && was.is_none_or(|was| was.kind == Kind::Computed) {
            return None;
        }
        let follows = field.dependents();
        let computed = variables.iter().filter(|variable| follows.contains(*variable) && **variable != name);
        Some(Moved {
            field: name.to_owned(),
            from: was.map_or(Json::Null, |was| was.value.clone()),
            to: is.value.clone(),
            kind: is.kind,
            place: is.place.clone(),
            computed: computed.map(|variable| (*variable).to_owned()).collect(),
            effect: field.effect,
        })
    }

    /// The entry for what moved with the program alone.
    fn rendered_otherwise(&self, now: &Self, fields: Vec<&str>) -> Moved {
        // What this kiln has no field for may be anything, so that only a new node is sure to follow.
        let effect = |name: &&str| Field::named(name).map_or(Effect::Replace, |field| field.effect);
        Moved {
            field: PROGRAM.to_owned(),
            from: self.version.clone().map_or(Json::Null, Json::from),
            to: now.version.clone().map_or(Json::Null, Json::from),
            kind: Kind::Computed,
            place: Place::Program,
            effect: fields.iter().map(effect).max().unwrap_or(Effect::None),
            computed: fields.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The names whose values are not the same on both sides, those that only one side has among them.
fn differing<'a, T>(
    was: &'a BTreeMap<String, T>,
    is: &'a BTreeMap<String, T>,
    same: impl Fn(&T, &T) -> bool,
) -> BTreeSet<&'a str> {
    let names = was.keys().chain(is.keys()).map(String::as_str);
    names.filter(|name| !matches!((was.get(*name), is.get(*name)), (Some(was), Some(is)) if same(was, is))).collect()
}

/// What is kept of a secret field, where another value of it is another node: of a proxy the digest of its address without who asks.
/// A token, a key or a password is rotated, and nothing is kept of it.
fn outline(name: &str, text: &str) -> Option<String> {
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

/// The costliest effect of what moved.
pub fn highest(moved: &[Moved]) -> Effect {
    moved.iter().map(|moved| moved.effect).max().unwrap_or(Effect::None)
}
