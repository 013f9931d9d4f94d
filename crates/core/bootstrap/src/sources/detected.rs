//! Values detected from the cluster and the cloud.

use super::SourceError;
use crate::provenance::{SourceKind, SourcePosition};
use crate::source::Source;

/// A detected value and the API call that returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub field: &'static str,
    pub text: String,
    /// For example `GET /version`.
    pub call: String,
}

/// Returns the source of detected values.
pub fn detected(facts: &[Fact]) -> Result<Source, SourceError> {
    let mut source = Source::new(SourceKind::Detected);
    for fact in facts {
        source.set_text(fact.field, &fact.text, SourcePosition::Call(fact.call.clone()))?;
    }
    Ok(source)
}
