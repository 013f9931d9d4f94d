//! Cluster and pod network.

use crate::describe::document;

document! {
    /// The cluster that the node joins.
    pub struct Cluster {
        /// Name of the cluster.
        name: String = None,
        /// URL of the API server.
        endpoint: String = Restart,
        /// Certificate authority of the API server, in PEM.
        certificate_authority: String = Restart,
        /// DNS settings of the cluster.
        dns: Dns,
    }
}

document! {
    /// DNS settings of a cluster.
    pub struct Dns {
        /// IP addresses of the cluster DNS service.
        service_ips: Vec<String> = Restart,
        /// Cluster domain.
        domain: String = Restart,
        /// Additional DNS search domains.
        search: Vec<String> = Restart,
    }
}

document! {
    /// Network of the node's pods.
    pub struct Network {
        /// Network plugin that the node configures: `bridge` (also named `kubenet`) or `azure`. Use `none` if an agent in the cluster
        /// configures the network. With `bridge` pods get addresses from `spec.podCIDRs` of their Node.
        plugin: String = Drain,
        /// Mode of the network plugin.
        mode: String = Drain,
        /// Network data plane.
        dataplane: String = Drain,
        /// Network policy engine.
        policy: String = Drain,
        /// MTU of the node's primary network interface and, with the plugin `bridge`, of its pods.
        mtu: u32 = Drain,
        /// Blocks access to the metadata service at `169.254.169.254` for pods that do not use the host network. The node itself is not
        /// affected. If not set, nothing is blocked. `kiln bootstrap` sets it to `true` in new documents.
        block_metadata: Option<bool> = Reload,
        /// Blocks access to the wire server's TCP ports 80 and 32526 at `168.63.129.16` for pods that do not use the host network. DNS at
        /// the same address stays reachable. The node itself is not affected. If not set, nothing is blocked. `kiln bootstrap` sets it to
        /// `true` in new documents.
        block_wire_server: Option<bool> = Reload,
    }
}
