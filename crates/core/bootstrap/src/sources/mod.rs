//! Where values come from: each source becomes a layer.

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
pub(crate) use node_pool::SETTLING;
pub use node_pool::{node_claim, node_pool};
pub use settings::settings;

use serde_json::Value;

use crate::document::{BadDocument, Document};
use crate::layer::{AssignmentError, Layer};

/// Annotations with this prefix set fields that an object has no place for: `bootstrap.kiln.dev/DisableSSH: "true"`.
pub const ANNOTATION_PREFIX: &str = "bootstrap.kiln.dev/";

/// A source that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The document has another form.
    #[error(transparent)]
    Document(#[from] BadDocument),
    /// It sets what it may not.
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// An argument is no assignment.
    #[error("the {} `--set` is not `name=value`", ordinal(*.number))]
    Argument {
        /// Which one, from 1.
        number: usize,
    },
    /// More than one mistake.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<SourceError>),
}

impl SourceError {
    /// Every single mistake.
    pub fn each(&self) -> Vec<&Self> {
        match self {
            Self::Several(all) => all.iter().flat_map(Self::each).collect(),
            one => vec![one],
        }
    }
}

fn ordinal(number: usize) -> String {
    match number {
        1 => "1st".to_owned(),
        2 => "2nd".to_owned(),
        3 => "3rd".to_owned(),
        other => format!("{other}th"),
    }
}

/// All mistakes at once: who mends a file wants to see them together.
fn all_well(mut mistakes: Vec<SourceError>) -> Result<(), SourceError> {
    match mistakes.len() {
        0 => Ok(()),
        1 => Err(mistakes.remove(0)),
        _ => Err(SourceError::Several(mistakes)),
    }
}

/// Adds what an object's annotations set.
fn annotations(document: &Document, layer: &mut Layer) -> Result<(), SourceError> {
    let annotations = document.value().pointer("/metadata/annotations").and_then(Value::as_object);
    let mut mistakes = Vec::new();
    for (key, value) in annotations.into_iter().flatten() {
        if let (Some(name), Some(text)) = (key.strip_prefix(ANNOTATION_PREFIX), value.as_str()) {
            let set = layer.set_text(name, text, document.place(&format!("metadata.annotations.{key}")));
            mistakes.extend(set.err().map(SourceError::from));
        }
    }
    all_well(mistakes)
}

/// Checks the kind of an object.
fn expect_kind(document: &Document, kind: &str) -> Result<(), SourceError> {
    match document.value().get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(()),
        Some(found) => Err(document.wrong("kind", format!("`{found}` is not {kind}")).into()),
        None => Err(document.wrong("kind", format!("this is no {kind}: it has no kind")).into()),
    }
}
