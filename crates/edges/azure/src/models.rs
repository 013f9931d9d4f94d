//! Request and response bodies, limited to the fields that kiln uses. kiln never writes a body back that it read, so unknown fields need
//! not be preserved.

#![expect(clippy::struct_field_names, reason = "fields are named as in Azure's API")]

pub(crate) mod access;
pub(crate) mod canary;
pub(crate) mod definition;
pub(crate) mod disk;
pub(crate) mod extension;
pub(crate) mod gallery;
pub(crate) mod image_reference;
pub(crate) mod instance;
pub(crate) mod landscape;
pub(crate) mod load_balancer;
pub(crate) mod machine;
pub(crate) mod patch;
pub(crate) mod published;
pub(crate) mod scale_set;
pub(crate) mod snapshot;
pub(crate) mod version;

use serde::{Deserialize, Serialize};

/// A reference to another resource. Azure also writes empty ones: the source of an image version that was created from a managed image
/// is `{}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

/// Deserializes a list of strings that may be absent or have `null` items, as the zones of a Flexible scale set's instances do.
pub(crate) fn strings<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let items: Option<Vec<Option<String>>> = Option::deserialize(deserializer)?;
    Ok(items.unwrap_or_default().into_iter().flatten().collect())
}

/// Deserializes an absent list or map, for which Azure writes `null`, an empty value, or nothing.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
