//! What moved since a node was made, and what it would take to follow.

use std::collections::BTreeMap;

use kiln_api::{Effect, canonical};
use kiln_contracts::nbv;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::derive::DeriveError;
use crate::field::Field;
use crate::kind::{Kind, Place};
use crate::resolve::Resolved;

/// What a node was made of. It holds no secret: a token that was rotated is no reason to replace a node. A proxy may carry a
/// password, so that only the digest of its address is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The inputs.
    pub inputs: BTreeMap<String, Recorded>,
    /// The variables that follow from them, by their names in the contract.
    pub variables: BTreeMap<String, String>,
    /// The hash of both values: the quick question.
    pub hash: String,
}

/// One recorded input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The value.
    pub value: Json,
    /// The kind of source.
    pub kind: Kind,
    /// Where it stood.
    pub place: Place,
}

/// An input that moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The input.
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
        Ok(Self { inputs: recorded, variables: texts, hash })
    }

    /// What moved between this record and inputs of now. Nothing, where the values are the same: another place that says the same
    /// is no drift.
    pub fn drift(&self, now: &Self) -> Vec<Moved> {
        if self.hash == now.hash {
            return Vec::new();
        }
        let moved_variables: Vec<&String> = now
            .variables
            .iter()
            .filter(|(name, text)| self.variables.get(*name) != Some(text))
            .map(|(name, _)| name)
            .collect();
        let mut moved: Vec<Moved> = Vec::new();
        for (name, input) in &now.inputs {
            let before = self.inputs.get(name).map_or(Json::Null, |recorded| recorded.value.clone());
            // A computed input moves with what it follows from, which is named itself.
            if before == input.value || input.kind == Kind::Computed {
                continue;
            }
            let Ok(field) = Field::named(name) else { continue };
            let follows = field.dependents();
            let own = |variable: &&String| follows.contains(variable.as_str()) || variable.as_str() == name;
            moved.push(Moved {
                field: name.clone(),
                from: before,
                to: input.value.clone(),
                kind: input.kind,
                place: input.place.clone(),
                computed: moved_variables
                    .iter()
                    .copied()
                    .filter(own)
                    .filter(|variable| *variable != name)
                    .cloned()
                    .collect(),
                effect: field.effect,
            });
        }
        moved
    }
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
