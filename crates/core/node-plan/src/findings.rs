//! The output of `kilnd inspect` in a task pod: one line of a log that others may read.

use serde::{Deserialize, Serialize};

use kiln_types::Inspection;

/// An inspection, and the custom data encrypted for one reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Contains no secrets.
    pub inspection: Inspection,
    /// The custom data, encrypted for the key that the caller passed; none without custom data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_custom_data: Option<String>,
}
