//! A pool of nodes.

use std::collections::BTreeMap;

use kiln_node_config::node_state::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes that are changed together, chosen by their labels.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "Pool",
    plural = "pools",
    shortname = "kpool",
    status = "PoolStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "UpToDate", "type": "integer", "jsonPath": ".status.upToDate"}"#,
    printcolumn = r#"{"name": "Unavailable", "type": "integer", "jsonPath": ".status.unavailable"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".status.target.nodeConfig"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".status.image.version"}"#,
    printcolumn = r#"{"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("size(self.nodeSelector) > 0").message("`nodeSelector` must have at least one label, or the pool would contain every node"))]
pub struct PoolSpec {
    /// Labels of its nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Name of the NodeConfig for its nodes when no Rollout has completed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_config: Option<String>,
    /// Where its machines come from. Needed for prototype runs and for rollouts with an image version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory: Option<PoolFactory>,
    /// Name of the RolloutPolicy for rollouts that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<String>,
    /// While it is set, no rollout starts a node of this pool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Where the machines of a pool come from.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolFactory {
    /// Name of a Uniform scale set in the resource group that `kiln operator --images` works with.
    #[schemars(length(min = 1, max = 80))]
    pub azure_scale_set: String,
}

/// The image of a pool's new machines.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolImage {
    /// The pool's own image definition, as `GALLERY/DEFINITION`. It may not exist before the first prototype run.
    pub definition: String,
    /// The version of that definition that new machines get; none if they get another image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why no prototype run starts: a rollback paused the pool. `kiln prototype rollback --unpause` ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Requested number of machines.
    pub capacity: i64,
}

/// What the operator observes of a pool.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of nodes.
    pub nodes: i64,
    /// Nodes on which the target is in force and committed.
    pub up_to_date: i64,
    /// Nodes that are not Ready or are cordoned, for any reason.
    pub unavailable: i64,
    /// The last complete target, which new nodes get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<crate::rollout::Target>,
    /// The image of new machines, if the operator works with images and the pool has a factory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PoolImage>,
    /// Digests of documents that failed on this pool. No rollout assigns them again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
