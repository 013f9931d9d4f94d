//! The spec: desired state of a node.

mod cluster;
mod content;
mod kubelet;
mod os;
mod platform;
mod policy;
mod runtime;

pub use cluster::{Cluster, Dns, Network};
pub use content::{DropIn, File, Unit};
pub use kubelet::{CredentialProvider, Kubelet, Taint, TaintEffect};
pub use os::{HugePages, Os, Proxy, Swap, TimeSync};
pub use platform::{Platform, TemporaryDisk, User};
pub use policy::{CredentialFrom, CredentialKind, Gate, GateKind, Health, Update};
pub use runtime::{Registry, Runtime};

use crate::describe::document;

document! {
    /// Desired state of a node.
    pub struct Spec {
        /// The cluster that the node joins.
        cluster: Cluster,
        /// Settings of the kubelet.
        kubelet: Kubelet,
        /// Settings of the container runtime.
        runtime: Runtime,
        /// Registry mirrors. The runtime reads them at each pull.
        registries: Vec<Registry> = None,
        /// Network of the node's pods.
        network: Network,
        /// Settings of the operating system.
        os: Os,
        /// Platform-specific settings of the machine.
        platform: Platform,
        /// Files on the node.
        files: Vec<File> = Reload,
        /// systemd units.
        units: Vec<Unit> = Restart,
        /// Source of the credential that the node joins the cluster with. It is not used again after the node has joined.
        credential_from: CredentialFrom = None,
        /// Health gates that a new generation must pass.
        health: Health,
        /// Restrictions on changes that the node applies by itself.
        update: Update,
    }
}
