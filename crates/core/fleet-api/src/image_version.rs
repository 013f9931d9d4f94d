//! A record of an image version.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A version of a pool's image definition. The operator creates one for each version that exists, and deletes it with the version; the source is the image
/// gallery, so changing an ImageVersion changes nothing. Its name is `POOL-VERSION`.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "ImageVersion",
    plural = "imageversions",
    shortname = "kiv",
    status = "ImageVersionStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Pool", "type": "string", "jsonPath": ".spec.pool"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.version"}"#,
    printcolumn = r#"{"name": "Donor", "type": "string", "jsonPath": ".spec.donor"}"#,
    printcolumn = r#"{"name": "Proven", "type": "boolean", "jsonPath": ".status.proven"}"#,
    printcolumn = r#"{"name": "Included", "type": "boolean", "jsonPath": ".status.included"}"#,
    printcolumn = r#"{"name": "Rejected", "type": "string", "jsonPath": ".status.rejected.why"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ImageVersionSpec {
    /// Name of the Pool.
    pub pool: String,
    /// The image definition, as `GALLERY/DEFINITION`.
    pub definition: String,
    /// Number of the version, such as `2026.11.15`.
    pub version: String,
    /// The node that it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub donor: Option<String>,
    /// The version that the donor was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When the donor's disk was copied, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Id of the prototype run that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// What the operator knows about an image version.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageVersionStatus {
    /// Whether it is complete in the region of the pool.
    pub replicated: bool,
    /// Whether a canary created from it became Ready and passed its tests.
    pub proven: bool,
    /// Whether `latest` of the image definition can resolve to it.
    pub included: bool,
    /// Set if the version failed its canary or was rolled back. New machines do not get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
    /// Number of machines of the pool that run it.
    pub nodes: i64,
}

/// Why a version was rejected.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rejection {
    /// The reason of the canary, of the rollback or of the rollout.
    pub why: String,
}
