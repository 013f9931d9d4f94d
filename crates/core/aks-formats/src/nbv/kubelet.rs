//! kubelet flags per Kubernetes minor version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::labels::pairs;
use crate::KubernetesVersion;
use crate::go::duration::GoDuration;

/// Flags of all versions.
const BASE: [(&str, &str); 26] = [
    ("--address", "0.0.0.0"),
    ("--anonymous-auth", "false"),
    ("--authentication-token-webhook", "true"),
    ("--authorization-mode", "Webhook"),
    ("--cgroups-per-qos", "true"),
    ("--client-ca-file", "/etc/kubernetes/certs/ca.crt"),
    ("--cloud-provider", "external"),
    ("--cluster-dns", "10.0.0.10"),
    ("--cluster-domain", "cluster.local"),
    ("--enforce-node-allocatable", "pods"),
    ("--event-qps", "0"),
    ("--eviction-hard", "memory.available<750Mi,nodefs.available<10%,nodefs.inodesFree<5%"),
    ("--image-gc-high-threshold", "85"),
    ("--image-gc-low-threshold", "80"),
    ("--kubeconfig", "/var/lib/kubelet/kubeconfig"),
    ("--max-pods", "110"),
    ("--node-status-update-frequency", "10s"),
    ("--pod-manifest-path", "/etc/kubernetes/manifests"),
    ("--pod-max-pids", "-1"),
    ("--protect-kernel-defaults", "true"),
    ("--read-only-port", "0"),
    ("--resolv-conf", "/run/systemd/resolve/resolv.conf"),
    ("--rotate-certificates", "true"),
    ("--streaming-connection-idle-timeout", "4h"),
    ("--tls-cert-file", "/etc/kubernetes/certs/kubeletserver.crt"),
    ("--tls-private-key-file", "/etc/kubernetes/certs/kubeletserver.key"),
];

const CIPHERS: [&str; 8] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
];

/// Pause image of containerd and, before 1.35, of the kubelet.
pub const PAUSE_IMAGE: &str = "mcr.microsoft.com/oss/kubernetes/pause:3.6";

/// Flags of some minor versions: first version, end (exclusive), flag, value.
const BY_MINOR: [(u32, u32, &str, &str); 7] = [
    (0, 30, "--azure-container-registry-config", "/etc/kubernetes/azure.json"),
    (0, 30, "--feature-gates", "DisableKubeletCloudCredentialProviders=false"),
    (0, 31, "--keep-terminated-pod-volumes", "false"),
    (0, 34, "--cloud-config", "/etc/kubernetes/azure.json"),
    (0, 35, "--pod-infra-container-image", PAUSE_IMAGE),
    (30, u32::MAX, "--image-credential-provider-bin-dir", "/var/lib/kubelet/credential-provider"),
    (30, u32::MAX, "--image-credential-provider-config", "/var/lib/kubelet/credential-provider-config.yaml"),
];

/// Returns the default flags of a version.
pub fn base_flags(version: &KubernetesVersion) -> BTreeMap<String, String> {
    let minor = version.minor();
    let versioned = BY_MINOR.into_iter().filter(|(from, until, _, _)| (*from..*until).contains(&minor));
    BASE.into_iter()
        .chain(versioned.map(|(_, _, flag, value)| (flag, value)))
        .map(|(flag, value)| (flag.to_owned(), value.to_owned()))
        .chain([("--tls-cipher-suites".to_owned(), CIPHERS.join(","))])
        .collect()
}

/// Joins sorted flags with spaces. Values must not contain spaces.
pub fn joined(flags: &BTreeMap<String, String>) -> String {
    pairs(flags, " ")
}

/// kubelet settings that a node class or an instance type sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubeletSettings {
    /// `none` or `static`.
    pub cpu_manager_policy: Option<String>,
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: Option<bool>,
    /// The kubelet has no flag for it.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: Option<GoDuration>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: Option<i32>,
    pub topology_manager_policy: Option<String>,
    pub allowed_unsafe_sysctls: Vec<String>,
    pub container_log_max_size: Option<String>,
    pub container_log_max_files: Option<i32>,
    pub pod_pids_limit: Option<i64>,
    /// Not written as a flag.
    pub fail_swap_on: Option<bool>,
    pub max_pods: Option<i32>,
    pub system_reserved: BTreeMap<String, String>,
    pub kube_reserved: BTreeMap<String, String>,
    pub eviction_hard: BTreeMap<String, String>,
    pub eviction_soft: BTreeMap<String, String>,
    pub eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    /// In seconds.
    pub eviction_max_pod_grace_period: Option<i32>,
    #[serde(rename = "clusterDNSServiceIP")]
    pub cluster_dns_service_ip: Option<String>,
}

impl KubeletSettings {
    /// Returns the flags for these settings, which override those of the version.
    pub fn flags(&self) -> BTreeMap<String, String> {
        let mut flags = BTreeMap::new();
        let mut set = |flag: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                flags.insert(flag.to_owned(), value);
            }
        };
        let text = |number: Option<i32>| number.map(|n| n.to_string());
        set("--max-pods", text(self.max_pods));
        set("--system-reserved", Some(pairs(&self.system_reserved, ",")));
        set("--kube-reserved", Some(pairs(&self.kube_reserved, ",")));
        set("--eviction-hard", Some(thresholds(&self.eviction_hard)));
        set("--eviction-soft", Some(thresholds(&self.eviction_soft)));
        let grace =
            self.eviction_soft_grace_period.iter().map(|(key, period)| (key.clone(), period.to_string())).collect();
        set("--eviction-soft-grace-period", Some(pairs(&grace, ",")));
        set("--eviction-max-pod-grace-period", text(self.eviction_max_pod_grace_period));
        set("--image-gc-high-threshold", text(self.image_gc_high_threshold_percent));
        set("--image-gc-low-threshold", text(self.image_gc_low_threshold_percent));
        set("--cpu-cfs-quota", self.cpu_cfs_quota.map(|quota| quota.to_string()));
        set("--cpu-manager-policy", self.cpu_manager_policy.clone());
        set("--topology-manager-policy", self.topology_manager_policy.clone());
        set("--container-log-max-size", self.container_log_max_size.clone());
        set("--container-log-max-files", text(self.container_log_max_files));
        set("--pod-max-pids", self.pod_pids_limit.map(|limit| limit.to_string()));
        set("--allowed-unsafe-sysctls", Some(self.allowed_unsafe_sysctls.join(",")));
        set("--cluster-dns", self.cluster_dns_service_ip.clone());
        flags
    }
}

fn thresholds(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(signal, limit)| format!("{signal}<{limit}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(version: &str) -> BTreeMap<String, String> {
        base_flags(&version.parse().unwrap())
    }

    #[test]
    fn flags_follow_the_minor_version() {
        assert_eq!(flags("1.33.0").len(), 31);
        assert!(flags("1.29.2").contains_key("--azure-container-registry-config"));
        assert!(!flags("1.30.0").contains_key("--feature-gates"));
        assert!(
            flags("1.30.9").contains_key("--keep-terminated-pod-volumes")
                && !flags("1.31.0").contains_key("--keep-terminated-pod-volumes")
        );
        assert!(flags("1.33.9").contains_key("--cloud-config") && !flags("1.34.0").contains_key("--cloud-config"));
        assert!(
            flags("1.34.9").contains_key("--pod-infra-container-image")
                && !flags("1.35.0").contains_key("--pod-infra-container-image")
        );
        assert!(flags("1.35.0").contains_key("--image-credential-provider-config"));
    }

    #[test]
    fn unset_settings_have_no_flag() {
        assert!(KubeletSettings::default().flags().is_empty());
        let settings = KubeletSettings {
            fail_swap_on: Some(false),
            cpu_cfs_quota_period: Some(GoDuration::from_nanos(1)),
            ..Default::default()
        };
        assert!(settings.flags().is_empty());
    }

    #[test]
    fn grace_periods_are_go_durations() {
        let settings = KubeletSettings {
            eviction_soft_grace_period: BTreeMap::from([("memory.available".to_owned(), "90s".parse().unwrap())]),
            max_pods: Some(0),
            ..Default::default()
        };
        assert_eq!(joined(&settings.flags()), "--eviction-soft-grace-period=memory.available=1m30s --max-pods=0");
    }
}
