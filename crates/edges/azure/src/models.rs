//! What is read of Azure's resources and written to them: exactly what is used. Nothing that was read is ever written back whole, so that
//! unknown fields need not be kept.

#![expect(clippy::struct_field_names, reason = "the fields have the names that Azure gives them")]

pub(crate) mod access;
pub(crate) mod canary;
pub(crate) mod disk;
pub(crate) mod extension;
pub(crate) mod gallery;
pub(crate) mod image_reference;
pub(crate) mod instance;
pub(crate) mod landscape;
pub(crate) mod line;
pub(crate) mod machine;
pub(crate) mod patch;
pub(crate) mod scale_set;
pub(crate) mod shelf;
pub(crate) mod snapshot;
pub(crate) mod version;

use serde::{Deserialize, Serialize};

/// A reference to another resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) id: String,
}

/// Azure writes an absent list or map as `null`, as nothing, or as an empty one.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
