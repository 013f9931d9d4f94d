//! Sources of configuration, one module per kind.

mod argument;
mod detected;
mod environment;
mod linux_os;
mod node_class;
mod node_pool;
mod settings;

pub use argument::arguments;
pub use detected::{Fact, detected};
pub use environment::environment;
pub use node_class::node_class;
pub(crate) use node_pool::REQUIREMENT_FIELDS;
pub use node_pool::{node_claim, node_pool};
pub use settings::settings;

use serde_json::Value;

use crate::document::{BadDocument, Document};
use crate::source::{AssignmentError, Source};

/// Annotations with this prefix set fields that the schema of an object does not have: `bootstrap.kiln.dev/DisableSSH: "true"`.
pub const ANNOTATION_PREFIX: &str = "bootstrap.kiln.dev/";

/// A source that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Document(#[from] BadDocument),
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// A `--set` argument without `=`. Only its number is shown, because it may contain a secret.
    #[error("`--set` number {number}: expected `name=value`")]
    Argument { number: usize },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<SourceError>),
}

impl SourceError {
    /// Returns the individual errors.
    pub fn each(&self) -> Vec<&Self> {
        match self {
            Self::Several(all) => all.iter().flat_map(Self::each).collect(),
            one => vec![one],
        }
    }
}

/// Combines errors, so that all errors of a file are reported at once.
fn combine(mut errors: Vec<SourceError>) -> Result<(), SourceError> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(SourceError::Several(errors)),
    }
}

/// Adds the fields that the annotations of an object set.
fn annotations(document: &Document, source: &mut Source) -> Result<(), SourceError> {
    let annotations = document.value().pointer("/metadata/annotations").and_then(Value::as_object);
    let mut errors = Vec::new();
    for (key, value) in annotations.into_iter().flatten() {
        if let (Some(name), Some(text)) = (key.strip_prefix(ANNOTATION_PREFIX), value.as_str()) {
            let set = source.set_text(name, text, document.position(&format!("metadata.annotations.{key}")));
            errors.extend(set.err().map(SourceError::from));
        }
    }
    combine(errors)
}

/// Checks the kind of an object.
fn expect_kind(document: &Document, kind: &str) -> Result<(), SourceError> {
    match document.value().get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(()),
        Some(found) => Err(document.error_at("kind", format!("expected {kind}, found `{found}`")).into()),
        None => Err(document.error_at("kind", format!("expected {kind}, but `kind` is not set")).into()),
    }
}
