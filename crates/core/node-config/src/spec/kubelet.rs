//! kubelet settings.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::describe::{choice, document};

document! {
    /// Settings of the kubelet.
    pub struct Kubelet {
        /// Version of the kubelet, such as `1.33.7`. The image must contain it.
        version: String = Drain,
        /// Fields of the `KubeletConfiguration` (`kubelet.config.k8s.io`).
        configuration: BTreeMap<String, Value> = Restart,
        /// Command-line flags without a field in the `KubeletConfiguration`, with leading dashes.
        flags: BTreeMap<String, String> = Restart,
        /// Labels that the node registers with. On a registered node, the cluster changes them.
        labels: BTreeMap<String, String> = Cluster,
        /// Taints that the node registers with. On a registered node, the cluster changes them.
        taints: Vec<Taint> = Cluster,
        /// Image credential providers.
        credential_providers: Vec<CredentialProvider> = Restart,
        /// IP address of the node.
        node_ip: String = Restart,
        /// Data directory of the kubelet.
        root: String = Replace,
    }
}

document! {
    /// A taint that the node registers with.
    pub struct Taint {
        /// Key of the taint.
        key: String = Cluster,
        /// Value of the taint.
        value: String = Cluster,
        /// Effect on pods that do not tolerate the taint.
        effect: TaintEffect = Cluster,
    }
}

choice! {
    /// Effect of a taint on pods that do not tolerate it.
    pub enum TaintEffect {
        NoSchedule = "NoSchedule",
        PreferNoSchedule = "PreferNoSchedule",
        NoExecute = "NoExecute",
    }
}

document! {
    /// An image credential provider of the kubelet.
    pub struct CredentialProvider {
        /// Name of the provider's executable.
        name: String = Restart,
        /// Patterns of images that the provider is called for, such as `*.azurecr.io`.
        match_images: Vec<String> = Restart,
        /// Default time for which the kubelet caches credentials, such as `10m`.
        cache_duration: String = Restart,
        /// Version of the credential provider API.
        api_version: String = Restart,
        /// Arguments of the provider.
        args: Vec<String> = Restart,
        /// Environment variables of the provider.
        env: BTreeMap<String, String> = Restart,
    }
}
