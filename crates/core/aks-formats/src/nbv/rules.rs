//! Rules that compute values from other values.

use crate::{Arch, KubernetesVersion};

const MIRROR: &str = "https://acs-mirror.azureedge.net";

/// Returns the download URL of the Kubernetes binaries, which images contain since 1.34.
pub fn kube_binary_url(version: &KubernetesVersion, arch: Arch) -> String {
    if version.at_least(34) {
        return String::new();
    }
    format!("{MIRROR}/kubernetes/v{version}/binaries/kubernetes-node-linux-{arch}.tar.gz")
}

/// Returns the download URL of the credential provider, which exists since 1.30.
pub fn credential_provider_url(version: &KubernetesVersion, arch: Arch) -> String {
    let provider = match version.minor() {
        ..30 => return String::new(),
        30 => "1.30.12",
        31 => "1.31.6",
        32 => "1.32.5",
        33.. => "1.33.0",
    };
    format!(
        "{MIRROR}/cloud-provider-azure/v{provider}/binaries/azure-acr-credential-provider-linux-{arch}-v{provider}.tar.gz"
    )
}

/// Returns the download URL of the Azure CNI plugin.
pub fn azure_cni_url(arch: Arch) -> String {
    format!("{MIRROR}/azure-cni/v1.4.32/binaries/azure-vnet-cni-linux-{arch}-v1.4.32.tgz")
}

/// Returns the download URL of the standard CNI plugins.
pub fn cni_plugins_url(arch: Arch) -> String {
    format!("{MIRROR}/cni-plugins/v1.1.1/binaries/cni-plugins-linux-{arch}-v1.1.1.tgz")
}

/// Returns the network plugin that the node itself configures. It is `none` if an agent in the cluster does.
pub fn network_plugin_of_node(plugin: &str, mode: &str, dataplane: &str) -> &'static str {
    match (plugin, mode, dataplane) {
        ("none", _, _) | ("azure", "overlay", _) | ("azure", "", "cilium") => "none",
        _ => "azure",
    }
}

/// Returns the default maximum number of pods per node.
pub fn default_max_pods(plugin: &str, mode: &str) -> u32 {
    match (plugin, mode) {
        ("none", _) | ("azure", "overlay") => 250,
        ("azure", "") => 30,
        _ => 110,
    }
}

/// Returns the host of an API server URL, without scheme and port.
pub fn api_server_name(endpoint: &str) -> Option<String> {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None => host.split(':').next()?,
    };
    let is_host = name.chars().all(|c| c.is_ascii_alphanumeric() || ".-:_".contains(c));
    (!name.is_empty() && is_host).then(|| name.to_owned())
}

/// Whether kubenet's bridge would deliver duplicate packets. Node Bootstrapping Variables do not support kubenet; `AKSNodeConfig` does.
pub fn no_duplicate_promiscuous_bridge(plugin: &str, policy: &str) -> bool {
    plugin == "kubenet" && policy != "calico"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_contain_kubernetes_since_1_34() {
        let url = |version: &str| kube_binary_url(&version.parse().unwrap(), Arch::Amd64);
        assert!(url("1.33.7").ends_with("/kubernetes/v1.33.7/binaries/kubernetes-node-linux-amd64.tar.gz"));
        assert_eq!(url("1.34.0"), "");
    }

    #[test]
    fn credential_provider_follows_the_minor_version() {
        let url = |version: &str| credential_provider_url(&version.parse().unwrap(), Arch::Arm64);
        assert_eq!(url("1.29.9"), "");
        for (version, provider) in
            [("1.30.0", "1.30.12"), ("1.31.1", "1.31.6"), ("1.32.0", "1.32.5"), ("1.40.0", "1.33.0")]
        {
            assert!(url(version).ends_with(&format!("azure-acr-credential-provider-linux-arm64-v{provider}.tar.gz")));
        }
    }

    #[test]
    fn node_does_not_configure_a_network_that_an_agent_configures() {
        assert_eq!(network_plugin_of_node("azure", "overlay", ""), "none");
        assert_eq!(network_plugin_of_node("azure", "", "cilium"), "none");
        assert_eq!(network_plugin_of_node("none", "", ""), "none");
        assert_eq!(network_plugin_of_node("azure", "", "azure"), "azure");
    }

    #[test]
    fn default_max_pods_follows_the_network_plugin() {
        assert_eq!(
            [default_max_pods("azure", "overlay"), default_max_pods("azure", ""), default_max_pods("kubenet", "")],
            [250, 30, 110]
        );
    }

    #[test]
    fn host_is_extracted_from_the_endpoint() {
        assert_eq!(api_server_name("https://a.hcp.eastus.azmk8s.io:443/x").as_deref(), Some("a.hcp.eastus.azmk8s.io"));
        assert_eq!(api_server_name("https://[::1]:6443").as_deref(), Some("::1"));
        assert_eq!(api_server_name("a.example").as_deref(), Some("a.example"));
        assert_eq!(api_server_name("https://"), None);
        assert_eq!(api_server_name("https://a b/"), None);
    }
}
