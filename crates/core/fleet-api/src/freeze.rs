//! The stop button.

use kiln_node_config::node_state::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// While a Freeze exists, the operator finishes the nodes in flight and starts no others. It is a resource of its own, so that its permission can be given
/// to everyone who is on call.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "Freeze",
    plural = "freezes",
    shortname = "kfz",
    status = "FreezeStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".spec.reason"}"#,
    printcolumn = r#"{"name": "Until", "type": "string", "jsonPath": ".spec.until"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct FreezeSpec {
    /// Why nothing may start. `kubectl get kfz` and every Rollout that waits for it show this text.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// Names of the frozen Pools; empty freezes all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// When the freeze ends by itself, in RFC 3339; without it, it ends when the object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

/// Effect of a Freeze.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FreezeStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names of the Rollouts that wait for its end.
    pub affected: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
