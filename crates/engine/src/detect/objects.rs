//! Reading Karpenter's objects: a NodeClaim refers to its NodePool and AKSNodeClass, a NodePool to its AKSNodeClass.

use kiln_bootstrap::Document;
use kiln_kubernetes::{Cluster, KarpenterKind};
use serde_json::Value;

/// The names of objects. Missing names are taken from the references of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KarpenterNames {
    pub node_pool: Option<String>,
    pub node_class: Option<String>,
    pub node_claim: Option<String>,
}

/// The objects that were found.
#[derive(Debug, Clone, Default)]
pub struct KarpenterObjects {
    pub node_pool: Option<Document>,
    pub node_class: Option<Document>,
    pub node_claim: Option<Document>,
}

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error(transparent)]
    Cluster(#[from] kiln_kubernetes::Error),
    #[error("{kind} `{name}` does not exist ({call})")]
    Missing { kind: KarpenterKind, name: String, call: String },
}

/// Reads the named objects and those that they refer to.
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
    let response = cluster.karpenter(kind, name).await?;
    let value =
        response.value.ok_or_else(|| ObjectError::Missing { kind, name: name.to_owned(), call: response.call })?;
    Ok(Some(Document::object(kind.as_str(), value)))
}

fn text(document: Option<&Document>, pointer: &str) -> Option<String> {
    document?.value().pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
