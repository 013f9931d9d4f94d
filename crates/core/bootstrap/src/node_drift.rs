//! Whether a node must be replaced, by Karpenter's own rules.

use kiln_aks_formats::KubernetesVersion;
use kiln_aks_formats::karpenter::{
    AksNodeClass, HASH_ANNOTATION, HASH_VERSION_ANNOTATION, KUBELET_IDENTITY_LABEL, NodeClaim,
};
use std::collections::BTreeMap;

/// Why a node drifted; the first that holds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The class says something else than when the node was made.
    NodeClass,
    /// The node's kubelet is older than the cluster wants.
    KubernetesVersion,
    /// The node's kubelet uses another identity.
    KubeletIdentity,
    /// The node started from an image that its class no longer names.
    Image,
    /// The cloud says that the machine's configuration is out of date.
    ClusterConfig,
}

impl Reason {
    /// Karpenter's word for it.
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

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The version of its kubelet.
    pub kubelet_version: String,
    pub labels: BTreeMap<String, String>,
    /// Whether it is going.
    pub deleting: bool,
}

/// A question that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriftError {
    /// The claim has no machine.
    #[error("claim `{0}` has no provider id")]
    NoProviderId(String),
    /// The class says that its images are ready and names none.
    #[error("class `{0}` says that its images are ready and names none")]
    NoImages(String),
    /// The claim does not say which image it started from.
    #[error("claim `{0}` does not say which image it started from")]
    NoImageId(String),
}

/// Why the node of a claim drifted, if it did. Whatever is not ready yet is no drift.
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

/// What the cloud's own answer for a machine means: anything but "in step" wants a new one.
pub fn machine_reason(action: &str) -> Option<Reason> {
    match action {
        "" | "Synced" => None,
        _ => Some(Reason::ClusterConfig),
    }
}

/// All four annotations must be there, and of one version.
fn hash_differs(claim: &NodeClaim, class: &AksNodeClass) -> bool {
    let both = |key: &str| Some((claim.metadata.annotations.get(key)?, class.metadata.annotations.get(key)?));
    match (both(HASH_ANNOTATION), both(HASH_VERSION_ANNOTATION)) {
        (Some((have, want)), Some((have_version, want_version))) => have_version == want_version && have != want,
        _ => false,
    }
}

/// A node that is newer than the cluster asks for stays: replacing it would bring another of the same, for ever.
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
