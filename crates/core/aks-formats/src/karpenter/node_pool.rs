//! `karpenter.sh/v1` `NodePool`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::{Meta, NodeClassRef, Requirement};
use kiln_types::Taint;

/// A pool of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePool {
    pub metadata: Meta,
    /// What its nodes are.
    pub spec: NodePoolSpec,
}

/// What a pool's nodes are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolSpec {
    /// The template of its claims.
    pub template: NodeClaimTemplate,
    /// Which pool is tried first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// The template of a pool's claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the nodes.
    pub metadata: TemplateMetadata,
    pub spec: TemplateSpec,
}

/// Labels and annotations of a pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What a claim of a pool asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateSpec {
    /// Taints that stay.
    pub taints: Vec<Taint>,
    /// Taints that go once the node is ready.
    pub startup_taints: Vec<Taint>,
    /// What the machine must be.
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
    /// After what time it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<String>,
}
