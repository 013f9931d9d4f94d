//! The internal, version-independent form of the document.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::describe::{Describe as _, document, secrets_in, unknown_in};
use crate::secrets::SuspectedSecret;
use crate::signature::Signature;
use crate::spec::Spec;
use crate::validate::Invalid;
use crate::{canonical, v1alpha1};

/// Desired state of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeConfig {
    pub metadata: Metadata,
    pub spec: Spec,
    pub signature: Option<Signature>,
    /// Unknown top-level fields.
    pub extra: BTreeMap<String, Value>,
}

document! {
    /// Metadata of a document.
    pub struct Metadata {
    /// Name of the document.
    name: String = None,
    /// Sequence number of the document. A node ignores documents with a lower generation than its current one.
    generation: u64 = None,
    /// Annotations, which nodes ignore.
        annotations: BTreeMap<String, String> = None,
    }
}

/// A document of an unsupported version or kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; expected `{}` `{}`", self.description(), v1alpha1::API_VERSION, v1alpha1::KIND)]
pub struct Unsupported {
    pub api_version: String,
    pub kind: String,
}

impl Unsupported {
    fn description(&self) -> String {
        match (self.api_version.as_str(), self.kind.as_str()) {
            ("", "") => "`apiVersion` and `kind` are not set".to_owned(),
            ("", _) => "`apiVersion` is not set".to_owned(),
            (_, "") => "`kind` is not set".to_owned(),
            (version, kind) => format!("unsupported document `{version}` `{kind}`"),
        }
    }
}

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Invalid JSON, or a field with a wrong type.
    #[error("line {line}, column {column}, at `{path}`: {reason}")]
    Json {
        /// Starts at 1; 0 if unknown.
        line: usize,
        /// Starts at 1.
        column: usize,
        path: String,
        reason: String,
    },
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl NodeConfig {
    /// Parses and validates a document of any supported version.
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

    /// Serializes the document in the newest version as canonical JSON.
    pub fn to_json(&self) -> String {
        canonical::text(&v1alpha1::NodeConfigRef::from(self))
    }

    /// Returns the hash of the document without its signature.
    pub fn hash(&self) -> String {
        canonical::hash(&v1alpha1::NodeConfigRef::unsigned(self))
    }

    /// Returns the hash of the spec. It is equal for documents that differ only in metadata and signature.
    pub fn spec_hash(&self) -> String {
        canonical::hash(&self.spec)
    }

    /// Returns the bytes that a signature covers: the document and the statements of the signer. Without statements these are the bytes of
    /// the document alone, as in earlier versions.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let statements = self.signature.as_ref().filter(|signature| signature.has_statements());
        let statements = statements.map(|signature| Signature { value: String::new(), ..signature.clone() });
        canonical::text(&v1alpha1::NodeConfigRef::signed(self, statements.as_ref())).into_bytes()
    }

    /// Returns the paths of unknown fields, which are preserved and ignored.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut unknown: Vec<String> = self.extra.keys().cloned().collect();
        unknown.extend(unknown_in("metadata", &self.metadata));
        unknown.extend(unknown_in("spec", &self.spec));
        unknown.sort();
        unknown
    }

    /// Returns everything in the document that looks like a secret, except its signature.
    pub fn suspected_secrets(&self) -> Vec<SuspectedSecret> {
        let mut found = self.extra.secrets("");
        found.extend(secrets_in("metadata", &self.metadata));
        found.extend(secrets_in("spec", &self.spec));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

fn from_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ParseError> {
    // Tracking the path doubles the cost of parsing, so it is done only after an error.
    serde_json::from_slice(json).or_else(|_| with_path(json))
}

fn with_path<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ParseError> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let path = error.path().to_string();
        json_error(path, error.inner())
    })?;
    from.end().map_err(|error| json_error(".".to_owned(), &error))?;
    Ok(value)
}

fn json_error(path: String, error: &serde_json::Error) -> ParseError {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let reason = without_value(text.strip_suffix(&position).unwrap_or(&text));
    ParseError::Json { line: error.line(), column: error.column(), path, reason }
}

/// Removes the quoted value from a message, because it may be a secret in the wrong field.
fn without_value(reason: &str) -> String {
    if let Some((head, rest)) = reason.split_once("string \"")
        && let Some((_, tail)) = rest.rsplit_once("\", expected")
    {
        return format!("{head}string, expected{tail}");
    }
    match crate::secrets::classify(reason) {
        Some(looks_like) => format!("invalid value, which looks like {looks_like}"),
        None => reason.to_owned(),
    }
}
