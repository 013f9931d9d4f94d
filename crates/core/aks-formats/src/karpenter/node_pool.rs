//! `karpenter.sh/v1` `NodePool`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::{Meta, NodeClassRef, Requirement};
use kiln_types::Taint;

/// A `NodePool`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePool {
    pub metadata: Meta,
    pub spec: NodePoolSpec,
}

/// Spec of a `NodePool`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolSpec {
    pub template: NodeClaimTemplate,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Template of the pool's claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimTemplate {
    pub metadata: TemplateMetadata,
    pub spec: TemplateSpec,
}

/// Labels and annotations of a pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Spec of the pool's claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateSpec {
    pub taints: Vec<Taint>,
    /// Taints that are removed once the node is ready.
    pub startup_taints: Vec<Taint>,
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<String>,
}
