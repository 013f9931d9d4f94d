//! What a program inside a node hands out to who asked from outside: one line of a log that anybody may read.

use serde::{Deserialize, Serialize};

use kiln_types::Inspection;

/// An inspection, and the custom data closed for one reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// What is inside. It holds no secret.
    pub inspection: Inspection,
    /// The bytes of the custom data that the inspection speaks of, for whoever gave the key; none where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_custom_data: Option<String>,
}
