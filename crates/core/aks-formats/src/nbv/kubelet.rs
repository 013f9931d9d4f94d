//! The kubelet's flags, per minor version of Kubernetes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::labels::pairs;
use crate::KubernetesVersion;
use crate::go::duration::GoDuration;

/// The flags that every version has.
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

/// The pause image that containerd and, before 1.35, kubelet name.
pub const PAUSE_IMAGE: &str = "mcr.microsoft.com/oss/kubernetes/pause:3.6";

/// A flag that some minor versions have: from the first on, up to but without the second.
const BY_MINOR: [(u32, u32, &str, &str); 7] = [
    (0, 30, "--azure-container-registry-config", "/etc/kubernetes/azure.json"),
    (0, 30, "--feature-gates", "DisableKubeletCloudCredentialProviders=false"),
    (0, 31, "--keep-terminated-pod-volumes", "false"),
    (0, 34, "--cloud-config", "/etc/kubernetes/azure.json"),
    (0, 35, "--pod-infra-container-image", PAUSE_IMAGE),
    (30, u32::MAX, "--image-credential-provider-bin-dir", "/var/lib/kubelet/credential-provider"),
    (30, u32::MAX, "--image-credential-provider-config", "/var/lib/kubelet/credential-provider-config.yaml"),
];

/// The flags of a version before anybody chose anything.
pub fn base_flags(version: &KubernetesVersion) -> BTreeMap<String, String> {
    let minor = version.minor();
    let versioned = BY_MINOR.into_iter().filter(|(from, until, _, _)| (*from..*until).contains(&minor));
    BASE.into_iter()
        .chain(versioned.map(|(_, _, flag, value)| (flag, value)))
        .map(|(flag, value)| (flag.to_owned(), value.to_owned()))
        .chain([("--tls-cipher-suites".to_owned(), CIPHERS.join(","))])
        .collect()
}

/// The flags as one text: sorted, with spaces between. A value with a space in it cannot be written this way.
pub fn joined(flags: &BTreeMap<String, String>) -> String {
    pairs(flags, " ")
}

/// What a class of nodes or an instance type chooses of the kubelet's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubeletSettings {
    /// How CPUs are given to containers: `none` or `static`.
    pub cpu_manager_policy: Option<String>,
    /// Whether limits of CPU are enforced.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: Option<bool>,
    /// The period of that limit; kubelet has no flag for it.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: Option<GoDuration>,
    /// The use of the disk in percent at which images are removed.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// The use of the disk in percent at which removal ends.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// How containers are placed near their devices.
    pub topology_manager_policy: Option<String>,
    /// Kernel settings that pods may set though they are not safe.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// The size at which a container's log is rotated.
    pub container_log_max_size: Option<String>,
    /// How many logs of a container are kept.
    pub container_log_max_files: Option<i32>,
    /// How many processes a pod may have.
    pub pod_pids_limit: Option<i64>,
    /// Whether kubelet refuses to run with swap; it has no flag here.
    pub fail_swap_on: Option<bool>,
    /// How many pods the node takes.
    pub max_pods: Option<i32>,
    /// What is kept for the system.
    pub system_reserved: BTreeMap<String, String>,
    /// What is kept for Kubernetes.
    pub kube_reserved: BTreeMap<String, String>,
    /// When pods are evicted at once.
    pub eviction_hard: BTreeMap<String, String>,
    /// When pods are evicted after a while.
    pub eviction_soft: BTreeMap<String, String>,
    /// After what while.
    pub eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    /// How many seconds such a pod may take to end.
    pub eviction_max_pod_grace_period: Option<i32>,
    /// The address of the cluster's DNS.
    #[serde(rename = "clusterDNSServiceIP")]
    pub cluster_dns_service_ip: Option<String>,
}

impl KubeletSettings {
    /// The flags for these choices. They win over the version's.
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
    fn each_minor_version_has_the_flags_that_it_knows() {
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
    fn unset_choices_make_no_flag() {
        assert!(KubeletSettings::default().flags().is_empty());
        let choices = KubeletSettings {
            fail_swap_on: Some(false),
            cpu_cfs_quota_period: Some(GoDuration::from_nanos(1)),
            ..Default::default()
        };
        assert!(choices.flags().is_empty());
    }

    #[test]
    fn a_grace_period_is_written_as_go_writes_it() {
        let choices = KubeletSettings {
            eviction_soft_grace_period: BTreeMap::from([("memory.available".to_owned(), "90s".parse().unwrap())]),
            max_pods: Some(0),
            ..Default::default()
        };
        assert_eq!(joined(&choices.flags()), "--eviction-soft-grace-period=memory.available=1m30s --max-pods=0");
    }
}
