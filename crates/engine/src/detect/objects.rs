//! Karpenter's objects as the API server has them, each found from the one before: a claim names its pool and class, a pool its class.

use kiln_bootstrap::Document;
use kiln_kubernetes::{Cluster, KarpenterKind};
use serde_json::Value;

/// Which objects are wanted. What is not named is found by the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KarpenterNames {
    pub node_pool: Option<String>,
    pub node_class: Option<String>,
    pub node_claim: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct KarpenterObjects {
    pub node_pool: Option<Document>,
    pub node_class: Option<Document>,
    pub node_claim: Option<Document>,
}

/// An object that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Cluster(#[from] kiln_kubernetes::Error),
    /// There is none of that name.
    #[error("{kind} `{name}` is not in the cluster ({call})")]
    Missing {
        kind: KarpenterKind,
        name: String,
        /// The call that said so.
        call: String,
    },
}

/// Reads what is named, and what that names.
pub async fn karpenter(cluster: &Cluster, names: &KarpenterNames) -> Result<KarpenterObjects, ObjectError> {
    let claim = one(cluster, KarpenterKind::NodeClaim, names.node_claim.as_deref()).await?;
    let label = text(claim.as_ref(), "/metadata/labels/karpenter.sh~1nodepool");
    let pool = one(cluster, KarpenterKind::NodePool, names.node_pool.as_deref().or(label.as_deref())).await?;
    let by_claim = text(claim.as_ref(), "/spec/nodeClassRef/name");
    let by_pool = text(pool.as_ref(), "/spec/template/spec/nodeClassRef/name");
    let class = names.node_class.as_deref().or(by_claim.as_deref()).or(by_pool.as_deref());
    let class = one(cluster, KarpenterKind::AksNodeClass, class).await?;
    Ok(KarpenterObjects { node_pool: pool, node_class: class, node_claim: claim })
}

async fn one(cluster: &Cluster, kind: KarpenterKind, name: Option<&str>) -> Result<Option<Document>, ObjectError> {
    let Some(name) = name else { return Ok(None) };
    let seen = cluster.karpenter(kind, name).await?;
    let value = seen.value.ok_or_else(|| ObjectError::Missing { kind, name: name.to_owned(), call: seen.call })?;
    Ok(Some(Document::object(kind.as_str(), value)))
}

fn text(document: Option<&Document>, pointer: &str) -> Option<String> {
    document?.value().pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
