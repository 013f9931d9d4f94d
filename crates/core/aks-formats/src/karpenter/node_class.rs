//! `karpenter.azure.com` `AKSNodeClass`, v1beta1 (v1alpha2 has the same fields).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::{Condition, Meta, Requirement};
use crate::go::duration::GoDuration;

/// An `AKSNodeClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AksNodeClass {
    pub metadata: Meta,
    pub spec: NodeClassSpec,
    pub status: NodeClassStatus,
}

/// Spec of an `AKSNodeClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassSpec {
    /// Subnet, if it differs from the cluster's.
    #[serde(rename = "vnetSubnetID", skip_serializing_if = "Option::is_none")]
    pub vnet_subnet_id: Option<String>,
    #[serde(rename = "osDiskSizeGB", skip_serializing_if = "Option::is_none")]
    pub os_disk_size_gb: Option<i32>,
    /// `Ubuntu`, `Ubuntu2204`, `Ubuntu2404` or `AzureLinux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// `FIPS` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips_mode: Option<String>,
    /// Tags of the machine, its disk and its network interface.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    #[serde(rename = "localDNS", skip_serializing_if = "Option::is_none")]
    pub local_dns: Option<LocalDns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_streaming: Option<ArtifactStreaming>,
    #[serde(rename = "linuxOSConfig", skip_serializing_if = "Option::is_none")]
    pub linux_os_config: Option<LinuxOsConfig>,
}

impl NodeClassSpec {
    /// Returns the spec with the defaults that the API server adds.
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

/// kubelet settings of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// `none` or `static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_manager_policy: Option<String>,
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    #[serde(rename = "cpuCFSQuotaPeriod", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota_period: Option<GoDuration>,
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// `none`, `restricted`, `best-effort` or `single-numa-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_manager_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_unsafe_sysctls: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_files: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_pids_limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_swap_on: Option<bool>,
}

/// Security settings of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Security {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_at_host: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_launch: Option<TrustedLaunch>,
}

/// Trusted launch settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustedLaunch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vtpm: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}

/// LocalDNS, the DNS server on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalDns {
    /// `Preferred`, `Required` or `Disabled`.
    pub mode: String,
    /// Overrides for queries that use VNet DNS.
    #[serde(rename = "vnetDNSOverrides", skip_serializing_if = "Option::is_none")]
    pub vnet_dns_overrides: Option<Vec<LocalDnsZone>>,
    /// Overrides for queries that use cluster DNS.
    #[serde(rename = "kubeDNSOverrides", skip_serializing_if = "Option::is_none")]
    pub kube_dns_overrides: Option<Vec<LocalDnsZone>>,
}

/// LocalDNS overrides of one zone.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serve_stale_duration: Option<GoDuration>,
    /// `Verify`, `Immediate` or `Disable`.
    pub serve_stale: String,
}

/// GPU settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gpu {
    /// `Driver` or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// Artifact streaming settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStreaming {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Operating-system settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxOsConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_file_size: Option<String>,
    /// Sysctls by their name in the object (`netCoreSomaxconn`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_page_defrag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_page_enabled: Option<String>,
}

/// Status of an `AKSNodeClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassStatus {
    pub images: Vec<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    #[serde(rename = "localDNSState", skip_serializing_if = "Option::is_none")]
    pub local_dns_state: Option<String>,
    pub conditions: Vec<Condition>,
}

impl NodeClassStatus {
    /// Whether a condition has status `True`.
    pub fn is_true(&self, condition: &str) -> bool {
        self.conditions.iter().any(|c| c.kind == condition && c.status == "True")
    }
}

/// An image and the requirements of machines that can use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub id: String,
    pub requirements: Vec<Requirement>,
}
