//! Where values come from: each source becomes a layer.

mod argument;
mod detected;
mod environment;
mod node_class;
mod node_pool;
mod settings;

pub use argument::arguments;
pub use detected::{Fact, detected};
pub use environment::environment;
pub use node_class::node_class;
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
}

/// Adds what an object's annotations set.
fn annotations(document: &Document, layer: &mut Layer) -> Result<(), SourceError> {
    let annotations = document.value().pointer("/metadata/annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        if let (Some(name), Some(text)) = (key.strip_prefix(ANNOTATION_PREFIX), value.as_str()) {
            layer.set_text(name, text, document.place(&format!("metadata.annotations.{key}")))?;
        }
    }
    Ok(())
}

/// Checks the kind of an object.
fn expect_kind(document: &Document, kind: &str) -> Result<(), SourceError> {
    match document.value().get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(()),
        Some(found) => Err(document.wrong("kind", format!("`{found}` is not {kind}")).into()),
        None => Err(document.wrong("kind", format!("this is not a {kind}: it has no kind")).into()),
    }
}
