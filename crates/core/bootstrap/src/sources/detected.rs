//! What the cluster and the cloud say.

use super::SourceError;
use crate::kind::{Kind, Place};
use crate::layer::Layer;

/// One detected value, with the call that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub field: &'static str,
    /// The value as text.
    pub text: String,
    /// The call, `GET /version`.
    pub call: String,
}

/// The layer of what was detected.
pub fn detected(facts: &[Fact]) -> Result<Layer, SourceError> {
    let mut layer = Layer::new(Kind::Detected);
    for fact in facts {
        layer.set_text(fact.field, &fact.text, Place::Call(fact.call.clone()))?;
    }
    Ok(layer)
}
