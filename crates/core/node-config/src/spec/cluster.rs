//! The cluster and its network.

use crate::describe::document;

document! {
    /// The cluster that a node joins.
    pub struct Cluster {
        /// Its name.
        name: String = None,
        /// The URL of its API server.
        endpoint: String = Restart,
        /// The certificates that its API server is trusted by, PEM.
        certificate_authority: String = Restart,
        /// Its DNS.
        dns: Dns,
    }
}

document! {
    /// A cluster's DNS.
    pub struct Dns {
        /// Addresses of the service.
        service_ips: Vec<String> = Restart,
        /// The domain of its names.
        domain: String = Restart,
        /// Domains that are searched besides.
        search: Vec<String> = Restart,
    }
}

document! {
    /// The network of the node's pods.
    pub struct Network {
        /// The plugin that the node sets up: `none` where an agent in the cluster does.
        plugin: String = Drain,
        /// Its mode.
        mode: String = Drain,
        /// What forwards packets.
        dataplane: String = Drain,
        /// The network policy.
        policy: String = Drain,
        /// The largest packet of the node's interfaces.
        mtu: u32 = Drain,
        /// Whether pods that do not share the host's network are kept from the metadata service at `169.254.169.254`. The node itself
        /// reaches it all the same.
        block_metadata: Option<bool> = Reload,
    }
}
