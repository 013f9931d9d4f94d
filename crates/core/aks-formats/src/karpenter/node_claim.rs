//! `karpenter.sh/v1` `NodeClaim`.

use serde::{Deserialize, Serialize};

use super::object::{Condition, Meta, NodeClassRef, Requirement};
use kiln_types::Taint;

/// One node that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    /// Its metadata. Labels of the pool and of settled requirements are here.
    pub metadata: Meta,
    /// What was asked for.
    pub spec: NodeClaimSpec,
    /// What came of it.
    pub status: NodeClaimStatus,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// Taints that stay.
    pub taints: Vec<Taint>,
    /// Taints that go once the node is ready.
    pub startup_taints: Vec<Taint>,
    /// What the machine must be.
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    pub node_name: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The image that it started from.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// Conditions.
    pub conditions: Vec<Condition>,
}
