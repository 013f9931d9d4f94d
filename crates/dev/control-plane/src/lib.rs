//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager and, optionally, kube-scheduler, with
//! certificates, RBAC, the Node authorizer, `NodeRestriction` and `PodSecurity`.
//!
//! Most tests use [`shared`] with their own namespace and node names ([`unique`]). A test that stops a server, or that lists the whole
//! cluster, starts its own with [`ControlPlane::start`].
//!
//! Every user of a control plane holds a lock on a file in its folder. The kernel releases it when the process ends, however it ends; then
//! each server is stopped by its supervisor (`supervise.sh`) and the folder is removed.

mod authority;
mod clock;
mod component;
mod crds;
mod error;
mod folder;
mod kubeconfig;
mod kubectl;
mod options;
mod plane;
mod planes;
mod ports;
mod shared;
mod supervisor;
mod unique;

pub use authority::{Credential, Identity};
pub use component::Component;
pub use crds::karpenter_crds;
pub use error::Error;
pub use options::Options;
pub use plane::ControlPlane;
pub use planes::NamedPlanes;
pub use shared::shared;
pub use unique::unique;
