//! `karpenter.sh/v1` `NodeClaim`.

use serde::{Deserialize, Serialize};

use super::object::{Condition, Meta, NodeClassRef, Requirement};
use kiln_types::Taint;

/// A `NodeClaim`: the request for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    /// Its labels include those of the pool and of requirements with one value.
    pub metadata: Meta,
    pub spec: NodeClaimSpec,
    pub status: NodeClaimStatus,
}

/// Spec of a `NodeClaim`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    pub taints: Vec<Taint>,
    /// Taints that are removed once the node is ready.
    pub startup_taints: Vec<Taint>,
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
}

/// Status of a `NodeClaim`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    pub node_name: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    pub conditions: Vec<Condition>,
}
