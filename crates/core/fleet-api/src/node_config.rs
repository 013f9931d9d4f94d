//! A document for nodes, as an object of the cluster.

use kiln_node_config::node_state::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A document for nodes. It never changes, so that every node can return to it; a changed document is a new NodeConfig.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "NodeConfig",
    plural = "nodeconfigs",
    shortname = "knc",
    status = "NodeConfigStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Digest", "type": "string", "jsonPath": ".status.digest"}"#,
    printcolumn = r#"{"name": "Generation", "type": "integer", "jsonPath": ".status.documentGeneration"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("self.document == oldSelf.document").message("a NodeConfig never changes; create a new one for a changed document"))]
pub struct NodeConfigSpec {
    /// The document as JSON, as `kiln bootstrap render --format node-config` prints it: with its metadata and, where nodes require one, its signature.
    #[schemars(length(min = 2, max = 900_000))]
    pub document: String,
}

/// What the operator found in the document.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeConfigStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Digest of the document, by which rollouts and nodes refer to it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// `metadata.generation` of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_generation: Option<i64>,
    /// Number of nodes on which the document is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
