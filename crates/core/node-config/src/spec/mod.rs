//! What a node is to be.

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
    /// What a node is to be.
    pub struct Spec {
        /// The cluster that the node joins.
        cluster: Cluster,
        /// The kubelet.
        kubelet: Kubelet,
        /// The container runtime.
        runtime: Runtime,
        /// Registries that are reached in another way than by their name. The runtime reads them at each pull.
        registries: Vec<Registry> = None,
        /// The network plugin.
        network: Network,
        /// The operating system.
        os: Os,
        /// What the node does for its platform.
        platform: Platform,
        /// Files.
        files: Vec<File> = Reload,
        /// Units of systemd.
        units: Vec<Unit> = Restart,
        /// Where the node gets the credential that it joins with. A node that has joined has its own and does not look here again.
        credential_from: CredentialFrom = None,
        /// What must hold before a generation counts as good.
        health: Health,
        /// When and how far the node may change itself.
        update: Update,
    }
}
