//! `karpenter.azure.com` `AKSNodeClass`, v1beta1 (v1alpha2 has the same fields).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::{Condition, Meta, Requirement};
use crate::go::duration::GoDuration;

/// A class of nodes on Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AksNodeClass {
    pub metadata: Meta,
    /// What its nodes are.
    pub spec: NodeClassSpec,
    /// What was found for it.
    pub status: NodeClassStatus,
}

/// What the nodes of a class are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassSpec {
    /// The subnet, where it is not the cluster's.
    #[serde(rename = "vnetSubnetID", skip_serializing_if = "Option::is_none")]
    pub vnet_subnet_id: Option<String>,
    /// The size of the OS disk.
    #[serde(rename = "osDiskSizeGB", skip_serializing_if = "Option::is_none")]
    pub os_disk_size_gb: Option<i32>,
    /// `Ubuntu`, `Ubuntu2204`, `Ubuntu2404` or `AzureLinux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// `FIPS` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips_mode: Option<String>,
    /// Tags of the machine and its parts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Choices of the kubelet's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// How many pods a node takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    /// What the firmware and the host vouch for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// The node's own DNS server.
    #[serde(rename = "localDNS", skip_serializing_if = "Option::is_none")]
    pub local_dns: Option<LocalDns>,
    /// Whether drivers are installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// Whether images are streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_streaming: Option<ArtifactStreaming>,
    /// Settings of the system.
    #[serde(rename = "linuxOSConfig", skip_serializing_if = "Option::is_none")]
    pub linux_os_config: Option<LinuxOsConfig>,
}

impl NodeClassSpec {
    /// The spec with what the API server adds where nothing is said.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        self.os_disk_size_gb.get_or_insert(128);
        self.image_family.get_or_insert_with(|| "Ubuntu".to_owned());
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.cpu_cfs_quota.get_or_insert(true);
            kubelet.cpu_cfs_quota_period.get_or_insert(GoDuration::from_nanos(100_000_000));
            kubelet.container_log_max_size.get_or_insert_with(|| "50Mi".to_owned());
            kubelet.container_log_max_files.get_or_insert(5);
        }
        self
    }
}

/// Choices of the kubelet's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// `none` or `static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_manager_policy: Option<String>,
    /// Whether limits of CPU are enforced.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    #[serde(rename = "cpuCFSQuotaPeriod", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota_period: Option<GoDuration>,
    /// The use of the disk at which images are removed.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// The use at which removal ends.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// `none`, `restricted`, `best-effort` or `single-numa-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_manager_policy: Option<String>,
    /// Kernel settings that pods may set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_unsafe_sysctls: Option<Vec<String>>,
    /// The size at which logs are rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_size: Option<String>,
    /// How many logs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_files: Option<i32>,
    /// How many processes a pod may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_pids_limit: Option<i64>,
    /// Whether kubelet refuses to run with swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_swap_on: Option<bool>,
}

/// What the firmware and the host vouch for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Security {
    /// Whether the host encrypts caches and temporary disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_at_host: Option<bool>,
    /// Measured boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_launch: Option<TrustedLaunch>,
}

/// Measured boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustedLaunch {
    /// A virtual TPM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vtpm: Option<bool>,
    /// Only signed code boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}

/// The node's own DNS server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalDns {
    /// `Preferred`, `Required` or `Disabled`.
    pub mode: String,
    /// For queries of the node.
    #[serde(rename = "vnetDNSOverrides", skip_serializing_if = "Option::is_none")]
    pub vnet_dns_overrides: Option<Vec<LocalDnsZone>>,
    /// For queries of pods.
    #[serde(rename = "kubeDNSOverrides", skip_serializing_if = "Option::is_none")]
    pub kube_dns_overrides: Option<Vec<LocalDnsZone>>,
}

/// How one zone is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalDnsZone {
    pub zone: String,
    /// `Error` or `Log`.
    pub query_logging: String,
    /// `PreferUDP` or `ForceTCP`.
    pub protocol: String,
    /// `ClusterCoreDNS` or `VnetDNS`.
    pub forward_destination: String,
    /// `Sequential`, `RoundRobin` or `Random`.
    pub forward_policy: String,
    /// How many queries may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<i32>,
    /// How long answers are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_duration: Option<GoDuration>,
    /// How long old answers may be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serve_stale_duration: Option<GoDuration>,
    /// `Verify`, `Immediate` or `Disable`.
    pub serve_stale: String,
}

/// Whether drivers are installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gpu {
    /// `Driver` or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// Whether images are streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStreaming {
    /// Whether they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Settings of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxOsConfig {
    /// The size of the swap file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_file_size: Option<String>,
    /// Settings of the kernel, by the names of the object (`netCoreSomaxconn`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, serde_json::Value>,
    /// When large pages are made room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_page_defrag: Option<String>,
    /// When large pages are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_page_enabled: Option<String>,
}

/// What was found for a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassStatus {
    /// The images that its nodes may start from.
    pub images: Vec<Image>,
    /// The version of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Whether nodes have a DNS server of their own.
    #[serde(rename = "localDNSState", skip_serializing_if = "Option::is_none")]
    pub local_dns_state: Option<String>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

impl NodeClassStatus {
    /// Whether a condition is true.
    pub fn is_true(&self, condition: &str) -> bool {
        self.conditions.iter().any(|c| c.kind == condition && c.status == "True")
    }
}

/// An image, and the machines that it suits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub id: String,
    /// What a machine must be.
    pub requirements: Vec<Requirement>,
}
