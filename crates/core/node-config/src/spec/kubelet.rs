//! The kubelet.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::describe::{choice, document};

document! {
    /// The kubelet.
    pub struct Kubelet {
        /// Its version, `1.33.7`. It must be in the image.
        version: String = Drain,
        /// Its configuration, as `kubelet.config.k8s.io` has it.
        configuration: BTreeMap<String, Value> = Restart,
        /// Flags that its configuration has no field for, with their dashes.
        flags: BTreeMap<String, String> = Restart,
        /// Labels that the node registers with. Later the cluster changes them.
        labels: BTreeMap<String, String> = Cluster,
        /// Taints that the node registers with. Later the cluster changes them.
        taints: Vec<Taint> = Cluster,
        /// Programs that answer for registries.
        credential_providers: Vec<CredentialProvider> = Restart,
        /// The address that the node is known by.
        node_ip: String = Restart,
        /// The folder of its files.
        root: String = Replace,
    }
}

document! {
    /// A taint.
    pub struct Taint {
        /// The key.
        key: String = Cluster,
        /// The value.
        value: String = Cluster,
        /// What it does to pods that do not tolerate it.
        effect: TaintEffect = Cluster,
    }
}

choice! {
    /// What a taint does to pods that do not tolerate it.
    pub enum TaintEffect {
        /// They are not placed here.
        NoSchedule = "NoSchedule",
        /// They are placed here last.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are evicted.
        NoExecute = "NoExecute",
    }
}

document! {
    /// A program that answers for registries.
    pub struct CredentialProvider {
        /// The name of the program.
        name: String = Restart,
        /// Images that it answers for, `*.azurecr.io`.
        match_images: Vec<String> = Restart,
        /// How long an answer holds, `10m`.
        cache_duration: String = Restart,
        /// The version of the exchange.
        api_version: String = Restart,
        /// Arguments.
        args: Vec<String> = Restart,
        /// Environment.
        env: BTreeMap<String, String> = Restart,
    }
}
