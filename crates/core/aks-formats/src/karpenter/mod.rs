//! Karpenter objects, with the fields that a node depends on. Other fields are ignored.

mod hash;
mod node_claim;
mod node_class;
mod node_pool;
mod object;

pub use hash::{HASH_VERSION, in_place_update_hash, node_class_hash};
pub use kiln_types::Taint;
pub use node_claim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use node_class::{
    AksNodeClass, ArtifactStreaming, Gpu, Image, KubeletConfiguration, LinuxOsConfig, LocalDns, LocalDnsZone,
    NodeClassSpec, NodeClassStatus, Security, TrustedLaunch,
};
pub use node_pool::{NodeClaimTemplate, NodePool, NodePoolSpec, TemplateMetadata, TemplateSpec};
pub use object::{Condition, Meta, NodeClassRef, Requirement};

/// Annotation of an `AKSNodeClass`, and of each `NodeClaim` with the hash of the class at its creation.
pub const HASH_ANNOTATION: &str = "karpenter.azure.com/aksnodeclass-hash";

/// Annotation with the version of the hash.
pub const HASH_VERSION_ANNOTATION: &str = "karpenter.azure.com/aksnodeclass-hash-version";

/// Node label with the client ID of the kubelet identity.
pub const KUBELET_IDENTITY_LABEL: &str = "kubernetes.azure.com/kubelet-identity-client-id";
