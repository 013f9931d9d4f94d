//! The document inside the program, whatever version it came in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::describe::{Describe as _, document, secrets_in, unknown_in};
use crate::secrets::Found;
use crate::spec::Spec;
use crate::validate::Invalid;
use crate::{canonical, v1alpha1};

/// What tells a node what to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeConfig {
    /// What it is called and which of its kind it is.
    pub metadata: Metadata,
    /// What the node is to be.
    pub spec: Spec,
    /// Who vouches for it.
    pub signature: Option<Signature>,
    /// Fields beside these that the version does not know.
    pub extra: BTreeMap<String, Value>,
}

document! {
    /// What a document is called and which of its kind it is.
    pub struct Metadata {
        /// Its name.
        name: String = None,
        /// Its number. Of two documents the one with the higher number wins, so that a restart never undoes a change.
        generation: u64 = None,
        /// Notes that no node reads.
        annotations: BTreeMap<String, String> = None,
    }
}

/// Who vouches for a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// Which key.
    pub key_id: String,
    /// How: `ed25519`.
    pub algorithm: String,
    /// The signature of [`NodeConfig::signed_bytes`], base64.
    pub value: String,
}

/// A document of a version that this program does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: `{}` `{}` is read here", self.said(), v1alpha1::API_VERSION, v1alpha1::KIND)]
pub struct Unsupported {
    /// The version that it says.
    pub api_version: String,
    /// The kind that it says.
    pub kind: String,
}

impl Unsupported {
    fn said(&self) -> String {
        match (self.api_version.as_str(), self.kind.as_str()) {
            ("", "") => "it has no apiVersion and no kind".to_owned(),
            ("", _) => "it has no apiVersion".to_owned(),
            (_, "") => "it has no kind".to_owned(),
            (version, kind) => format!("`{version}` `{kind}` is not known"),
        }
    }
}

/// A document that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON, or a field has another form.
    #[error("line {line}, column {column}, at `{path}`: {reason}")]
    Form {
        /// The line, from 1; 0 where the text is not at hand.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The field.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Its version is not read here.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It reads well and says what cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl NodeConfig {
    /// Reads a document of any version that is read here, and checks it.
    pub fn parse(json: &[u8]) -> Result<Self, ParseError> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Head {
            api_version: String,
            kind: String,
        }
        let head: Head = from_json(json)?;
        let config = match (head.api_version.as_str(), head.kind.as_str()) {
            (v1alpha1::API_VERSION, v1alpha1::KIND) => Self::from(from_json::<v1alpha1::NodeConfig>(json)?),
            _ => return Err(Unsupported { api_version: head.api_version, kind: head.kind }.into()),
        };
        config.check()?;
        Ok(config)
    }

    /// The document of the newest version, as canonical JSON.
    pub fn to_json(&self) -> String {
        canonical::text(&v1alpha1::Written::of(self))
    }

    /// The hash of the document without its signature.
    pub fn hash(&self) -> String {
        canonical::hash(&v1alpha1::Written::unsigned(self))
    }

    /// The hash of what the node is to be: equal for documents that differ only in name, number and signature.
    pub fn spec_hash(&self) -> String {
        canonical::hash(&self.spec)
    }

    /// What a signature vouches for.
    pub fn signed_bytes(&self) -> Vec<u8> {
        canonical::text(&v1alpha1::Written::unsigned(self)).into_bytes()
    }

    /// The paths of fields that this version does not know. They are kept and do nothing.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut unknown: Vec<String> = self.extra.keys().cloned().collect();
        unknown.extend(unknown_in("metadata", &self.metadata));
        unknown.extend(unknown_in("spec", &self.spec));
        unknown.sort();
        unknown
    }

    /// Everything in the document that looks like a secret, but for its signature.
    pub fn secrets(&self) -> Vec<Found> {
        let mut found = self.extra.secrets("");
        found.extend(secrets_in("metadata", &self.metadata));
        found.extend(secrets_in("spec", &self.spec));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

fn from_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ParseError> {
    // Which field is wrong is asked when one is: to keep it in mind all the time is half the cost of reading.
    serde_json::from_slice(json).or_else(|_| with_path(json))
}

fn with_path<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ParseError> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let path = error.path().to_string();
        form(path, error.inner())
    })?;
    from.end().map_err(|error| form(".".to_owned(), &error))?;
    Ok(value)
}

fn form(path: String, error: &serde_json::Error) -> ParseError {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = without_value(text.strip_suffix(&place).unwrap_or(&text));
    ParseError::Form { line: error.line(), column: error.column(), path, reason }
}

/// The reason without a text that the document holds: it may be a secret that stands in the wrong place.
fn without_value(reason: &str) -> String {
    if let Some((head, rest)) = reason.split_once("string \"")
        && let Some((_, tail)) = rest.rsplit_once("\", expected")
    {
        return format!("{head}a text, expected{tail}");
    }
    match crate::secrets::looks_secret(reason) {
        Some(looks) => format!("the value cannot be this, and it looks like {looks}"),
        None => reason.to_owned(),
    }
}
