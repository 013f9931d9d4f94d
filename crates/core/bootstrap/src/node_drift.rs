//! Drift of a node by Karpenter's rules: decides whether Karpenter would replace it.

use kiln_aks_formats::KubernetesVersion;
use kiln_aks_formats::karpenter::{
    AksNodeClass, HASH_ANNOTATION, HASH_VERSION_ANNOTATION, KUBELET_IDENTITY_LABEL, NodeClaim,
};
use std::collections::BTreeMap;

/// Drift reason, in the order of evaluation; the first match is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The hash of the class changed since the node was created.
    NodeClass,
    /// The kubelet is older than the version of the class.
    KubernetesVersion,
    /// The kubelet uses a different identity.
    KubeletIdentity,
    /// The class no longer lists the image of the node.
    Image,
    /// The cloud reports the configuration of the machine as out of date.
    ClusterConfig,
}

impl Reason {
    /// Returns Karpenter's name of the reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodeClass => "NodeClassDrift",
            Self::KubernetesVersion => "K8sVersionDrift",
            Self::KubeletIdentity => "KubeletIdentityDrift",
            Self::Image => "ImageDrift",
            Self::ClusterConfig => "ClusterConfigDrift",
        }
    }
}

/// State of a node that drift depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub kubelet_version: String,
    pub labels: BTreeMap<String, String>,
    pub deleting: bool,
}

/// Drift cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriftError {
    #[error("NodeClaim `{0}` has no provider ID")]
    NoProviderId(String),
    #[error("AKSNodeClass `{0}` has condition ImagesReady but lists no images")]
    NoImages(String),
    #[error("NodeClaim `{0}` has no image ID")]
    NoImageId(String),
}

/// Returns why the node of a claim drifted. A class that is not ready yet is not drift.
pub fn reason(
    claim: &NodeClaim,
    class: Option<&AksNodeClass>,
    node: Option<&Node>,
    kubelet_identity: &str,
) -> Result<Option<Reason>, DriftError> {
    let name = &claim.metadata.name;
    if claim.status.provider_id.is_empty() {
        return Err(DriftError::NoProviderId(name.clone()));
    }
    let Some(class) = class else { return Ok(None) };
    if hash_differs(claim, class) {
        return Ok(Some(Reason::NodeClass));
    }
    let node = node.filter(|node| !node.deleting && !claim.status.node_name.is_empty());
    if node.is_some_and(|node| is_behind(node, class)) {
        return Ok(Some(Reason::KubernetesVersion));
    }
    let identity = node.and_then(|node| node.labels.get(KUBELET_IDENTITY_LABEL));
    if identity.is_some_and(|identity| identity != kubelet_identity) {
        return Ok(Some(Reason::KubeletIdentity));
    }
    if !class.status.is_true("ImagesReady") {
        return Ok(None);
    }
    if class.status.images.is_empty() {
        return Err(DriftError::NoImages(class.metadata.name.clone()));
    }
    if claim.status.image_id.is_empty() {
        return Err(DriftError::NoImageId(name.clone()));
    }
    let known = class.status.images.iter().any(|image| image.id == claim.status.image_id);
    Ok((!known).then_some(Reason::Image))
}

/// Returns the drift reason for the action that the cloud reports for a machine: everything but `Synced` requires a new machine.
pub fn machine_reason(action: &str) -> Option<Reason> {
    match action {
        "" | "Synced" => None,
        _ => Some(Reason::ClusterConfig),
    }
}

/// Whether the hashes of claim and class differ. All four annotations must exist and have the same version.
fn hash_differs(claim: &NodeClaim, class: &AksNodeClass) -> bool {
    let both = |key: &str| Some((claim.metadata.annotations.get(key)?, class.metadata.annotations.get(key)?));
    match (both(HASH_ANNOTATION), both(HASH_VERSION_ANNOTATION)) {
        (Some((have, want)), Some((have_version, want_version))) => have_version == want_version && have != want,
        _ => false,
    }
}

/// Whether the node is older than its class requires. A newer node is not drift; replacing it would create the same node again and again.
fn is_behind(node: &Node, class: &AksNodeClass) -> bool {
    let wanted = class.status.kubernetes_version.as_deref().unwrap_or_default();
    if !class.status.is_true("KubernetesVersionReady") || wanted.is_empty() {
        return false;
    }
    match (node.kubelet_version.parse::<KubernetesVersion>(), wanted.parse::<KubernetesVersion>()) {
        (Ok(have), Ok(want)) => have < want,
        _ => node.kubelet_version.trim_start_matches('v') != wanted.trim_start_matches('v'),
    }
}
