//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager and, when asked for,
//! kube-scheduler, with certificates, RBAC, the Node authoriser, `NodeRestriction` and `PodSecurity` on.
//!
//! Most tests take [`shared`] and keep to their own namespace and node names ([`unique`]). A test that stops a server, or that
//! looks at the whole cluster, starts its own by [`ControlPlane::start`].
//!
//! Whoever uses a control plane holds a lock on a file in its folder. The kernel lets go of it when the process ends, however it
//! ends; then each server is stopped by its keeper (`keep.sh`) and the folder is removed.

mod authority;
mod clock;
mod component;
mod crds;
mod error;
mod folder;
mod keeper;
mod kubeconfig;
mod kubectl;
mod options;
mod plane;
mod ports;
mod shared;
mod standing;
mod unique;

pub use authority::{Credential, Identity};
pub use component::Component;
pub use crds::karpenter_crds;
pub use error::Error;
pub use options::Options;
pub use plane::ControlPlane;
pub use shared::shared;
pub use standing::Standing;
pub use unique::unique;
