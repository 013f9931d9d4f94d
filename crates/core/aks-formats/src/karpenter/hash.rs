//! Hashes that Karpenter compares to detect drift.

use std::collections::{BTreeMap, BTreeSet};

use super::node_class::{
    KubeletConfiguration, LinuxOsConfig, LocalDns, LocalDnsZone, NodeClassSpec, Security, TrustedLaunch,
};
use crate::go::duration::GoDuration;
use crate::go::structure::{Fields, GoValue};
use kiln_types::hash::fnv1a_32;

/// Version of [`node_class_hash`].
pub const HASH_VERSION: &str = "v3";

/// Computes the hash of a class, in decimal. Tags are excluded, because Karpenter updates them in place.
pub fn node_class_hash(spec: &NodeClassSpec) -> String {
    Fields::default()
        .with("VNETSubnetID", text(spec.vnet_subnet_id.as_ref()))
        .with("OSDiskSizeGB", spec.os_disk_size_gb.map(GoValue::Int32))
        .with("ImageFamily", text(spec.image_family.as_ref()))
        .with("FIPSMode", text(spec.fips_mode.as_ref()))
        .with("Kubelet", spec.kubelet.as_ref().map(kubelet))
        .with("MaxPods", spec.max_pods.map(GoValue::Int32))
        .with("Security", spec.security.as_ref().map(security))
        .with("LocalDNS", spec.local_dns.as_ref().map(local_dns))
        .with("GPU", spec.gpu.as_ref().map(|gpu| Fields::default().with("Mode", text(gpu.mode.as_ref())).build("GPU")))
        .with(
            "ArtifactStreaming",
            spec.artifact_streaming.as_ref().map(|streaming| {
                Fields::default().with("Enabled", boolean(streaming.enabled)).build("ArtifactStreaming")
            }),
        )
        .with("LinuxOSConfig", spec.linux_os_config.as_ref().map(linux_os))
        .build("AKSNodeClassSpec")
        .hash()
        .to_string()
}

/// Computes the hash of the properties that Karpenter updates on a running machine: identities and tags.
pub fn in_place_update_hash(identities: &BTreeSet<String>, tags: &BTreeMap<String, String>) -> String {
    let mut document = serde_json::Map::new();
    if !identities.is_empty() {
        let map = identities.iter().map(|id| (id.clone(), serde_json::Value::Object(serde_json::Map::new()))).collect();
        document.insert("identities".to_owned(), serde_json::Value::Object(map));
    }
    if !tags.is_empty() {
        let map = tags.iter().map(|(key, value)| (key.clone(), serde_json::Value::from(value.as_str()))).collect();
        document.insert("tags".to_owned(), serde_json::Value::Object(map));
    }
    fnv1a_32(go_json(&serde_json::Value::Object(document)).as_bytes()).to_string()
}

/// Formats JSON like Go, which escapes `<`, `>` and `&`.
fn go_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn text(value: Option<&String>) -> Option<GoValue> {
    value.map(|value| GoValue::Text(value.clone()))
}

fn plain(value: &str) -> Option<GoValue> {
    (!value.is_empty()).then(|| GoValue::Text(value.to_owned()))
}

fn boolean(value: Option<bool>) -> Option<GoValue> {
    value.map(GoValue::Bool)
}

fn texts(values: Option<&Vec<String>>) -> Option<GoValue> {
    values.map(|values| GoValue::List(values.iter().map(|value| GoValue::Text(value.clone())).collect()))
}

/// A duration field that is not a pointer, so zero means unset.
fn duration(value: Option<GoDuration>) -> Option<GoValue> {
    value
        .filter(|value| value.nanos() != 0)
        .map(|value| Fields::default().with("Duration", Some(GoValue::Int64(value.nanos()))).build("Duration"))
}

fn nillable_duration(value: Option<GoDuration>) -> Option<GoValue> {
    value.map(|value| Fields::default().with("Duration", Some(GoValue::Int64(value.nanos()))).build("NillableDuration"))
}

fn kubelet(kubelet: &KubeletConfiguration) -> GoValue {
    Fields::default()
        .with("CPUManagerPolicy", kubelet.cpu_manager_policy.as_deref().and_then(plain))
        .with("CPUCFSQuota", boolean(kubelet.cpu_cfs_quota))
        .with("CPUCFSQuotaPeriod", duration(kubelet.cpu_cfs_quota_period))
        .with("ImageGCHighThresholdPercent", kubelet.image_gc_high_threshold_percent.map(GoValue::Int32))
        .with("ImageGCLowThresholdPercent", kubelet.image_gc_low_threshold_percent.map(GoValue::Int32))
        .with("TopologyManagerPolicy", kubelet.topology_manager_policy.as_deref().and_then(plain))
        .with("AllowedUnsafeSysctls", texts(kubelet.allowed_unsafe_sysctls.as_ref()))
        .with("ContainerLogMaxSize", kubelet.container_log_max_size.as_deref().and_then(plain))
        .with("ContainerLogMaxFiles", kubelet.container_log_max_files.map(GoValue::Int32))
        .with("PodPidsLimit", kubelet.pod_pids_limit.map(GoValue::Int64))
        .with("FailSwapOn", boolean(kubelet.fail_swap_on))
        .build("KubeletConfiguration")
}

fn security(security: &Security) -> GoValue {
    let launch = |launch: &TrustedLaunch| {
        Fields::default()
            .with("VTPM", boolean(launch.vtpm))
            .with("SecureBoot", boolean(launch.secure_boot))
            .build("TrustedLaunch")
    };
    Fields::default()
        .with("EncryptionAtHost", boolean(security.encryption_at_host))
        .with("TrustedLaunch", security.trusted_launch.as_ref().map(launch))
        .build("Security")
}

fn local_dns(dns: &LocalDns) -> GoValue {
    let zones = |zones: &Vec<LocalDnsZone>| GoValue::List(zones.iter().map(zone).collect());
    Fields::default()
        .with("Mode", plain(&dns.mode))
        .with("VnetDNSOverrides", dns.vnet_dns_overrides.as_ref().map(zones))
        .with("KubeDNSOverrides", dns.kube_dns_overrides.as_ref().map(zones))
        .build("LocalDNS")
}

fn zone(zone: &LocalDnsZone) -> GoValue {
    Fields::default()
        .with("Zone", plain(&zone.zone))
        .with("QueryLogging", plain(&zone.query_logging))
        .with("Protocol", plain(&zone.protocol))
        .with("ForwardDestination", plain(&zone.forward_destination))
        .with("ForwardPolicy", plain(&zone.forward_policy))
        .with("MaxConcurrent", zone.max_concurrent.map(GoValue::Int32))
        .with("CacheDuration", nillable_duration(zone.cache_duration))
        .with("ServeStaleDuration", nillable_duration(zone.serve_stale_duration))
        .with("ServeStale", plain(&zone.serve_stale))
        .build("LocalDNSZoneOverride")
}

/// Sysctls in the order of their declaration in Karpenter, which the hash depends on.
const SYSCTLS: [(&str, &str); 28] = [
    ("netCoreSomaxconn", "NetCoreSomaxconn"),
    ("netCoreNetdevMaxBacklog", "NetCoreNetdevMaxBacklog"),
    ("netCoreRmemDefault", "NetCoreRmemDefault"),
    ("netCoreRmemMax", "NetCoreRmemMax"),
    ("netCoreWmemDefault", "NetCoreWmemDefault"),
    ("netCoreWmemMax", "NetCoreWmemMax"),
    ("netCoreOptmemMax", "NetCoreOptmemMax"),
    ("netIpv4TcpMaxSynBacklog", "NetIpv4TcpMaxSynBacklog"),
    ("netIpv4TcpMaxTwBuckets", "NetIpv4TcpMaxTwBuckets"),
    ("netIpv4TcpFinTimeout", "NetIpv4TcpFinTimeout"),
    ("netIpv4TcpKeepaliveTime", "NetIpv4TcpKeepaliveTime"),
    ("netIpv4TcpKeepaliveProbes", "NetIpv4TcpKeepaliveProbes"),
    ("netIpv4TcpkeepaliveIntvl", "NetIpv4TcpkeepaliveIntvl"),
    ("netIpv4TcpTwReuse", "NetIpv4TcpTwReuse"),
    ("netIpv4IpLocalPortRange", "NetIpv4IpLocalPortRange"),
    ("netIpv4NeighDefaultGcThresh1", "NetIpv4NeighDefaultGcThresh1"),
    ("netIpv4NeighDefaultGcThresh2", "NetIpv4NeighDefaultGcThresh2"),
    ("netIpv4NeighDefaultGcThresh3", "NetIpv4NeighDefaultGcThresh3"),
    ("netNetfilterNfConntrackMax", "NetNetfilterNfConntrackMax"),
    ("netNetfilterNfConntrackBuckets", "NetNetfilterNfConntrackBuckets"),
    ("fsInotifyMaxUserWatches", "FsInotifyMaxUserWatches"),
    ("fsFileMax", "FsFileMax"),
    ("fsAioMaxNr", "FsAioMaxNr"),
    ("fsNrOpen", "FsNrOpen"),
    ("kernelThreadsMax", "KernelThreadsMax"),
    ("vmMaxMapCount", "VMMaxMapCount"),
    ("vmSwappiness", "VMSwappiness"),
    ("vmVfsCachePressure", "VMVfsCachePressure"),
];

fn linux_os(os: &LinuxOsConfig) -> GoValue {
    let sysctls = SYSCTLS.iter().fold(Fields::default(), |fields, (json, go)| {
        let value = os.sysctls.get(*json).and_then(|value| match value {
            serde_json::Value::Bool(value) => Some(GoValue::Bool(*value)),
            serde_json::Value::String(value) => Some(GoValue::Text(value.clone())),
            other => other.as_i64().and_then(|value| i32::try_from(value).ok()).map(GoValue::Int32),
        });
        fields.with(go, value)
    });
    let sysctls = (!os.sysctls.is_empty()).then(|| sysctls.build("SysctlConfig"));
    Fields::default()
        .with("SwapFileSize", text(os.swap_file_size.as_ref()))
        .with("Sysctls", sysctls)
        .with("TransparentHugePageDefrag", text(os.transparent_huge_page_defrag.as_ref()))
        .with("TransparentHugePageEnabled", text(os.transparent_huge_page_enabled.as_ref()))
        .build("LinuxOSConfiguration")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> NodeClassSpec {
        serde_json::from_str(
            r#"{"vnetSubnetID": "subnet-id", "osDiskSizeGB": 30, "imageFamily": "Ubuntu2204", "tags": {"a": "b"},
                "kubelet": {"cpuManagerPolicy": "static", "cpuCFSQuota": true, "cpuCFSQuotaPeriod": "100ms",
                            "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "topologyManagerPolicy": "none",
                            "allowedUnsafeSysctls": ["net.core.somaxconn"], "containerLogMaxSize": "10Mi", "containerLogMaxFiles": 10},
                "maxPods": 100}"#,
        )
        .unwrap()
    }

    #[test]
    fn class_hash_matches_karpenter() {
        assert_eq!(node_class_hash(&spec()), "4108492229247269128");
        assert_eq!(
            node_class_hash(&NodeClassSpec { vnet_subnet_id: Some("subnet-id-2".to_owned()), ..spec() }),
            "13971920214979852468"
        );
    }

    #[test]
    fn every_field_except_tags_changes_the_hash() {
        let base = node_class_hash(&spec());
        let with = |json: &str| {
            let mut value = serde_json::to_value(spec()).unwrap();
            value.as_object_mut().unwrap().extend(serde_json::from_str::<serde_json::Map<_, _>>(json).unwrap());
            node_class_hash(&serde_json::from_value(value).unwrap())
        };
        assert_eq!(with(r#"{"tags": {"other": "x"}}"#), base);
        for change in [
            r#"{"osDiskSizeGB": 31}"#,
            r#"{"fipsMode": "FIPS"}"#,
            r#"{"maxPods": 101}"#,
            r#"{"security": {"encryptionAtHost": false}}"#,
            r#"{"localDNS": {"mode": "Required", "vnetDNSOverrides": [{"zone": ".", "cacheDuration": "1h"}]}}"#,
            r#"{"gpu": {"mode": "None"}}"#,
            r#"{"artifactStreaming": {"enabled": true}}"#,
            r#"{"linuxOSConfig": {"sysctls": {"vmSwappiness": 10}}}"#,
            r#"{"linuxOSConfig": {"swapFileSize": "1Gi"}}"#,
        ] {
            assert_ne!(with(change), base, "{change}");
        }
    }

    #[test]
    fn server_defaults_change_the_hash() {
        let class = NodeClassSpec::default();
        assert_ne!(node_class_hash(&class.clone().with_defaults()), node_class_hash(&class));
    }

    #[test]
    fn in_place_hash_omits_empty_parts() {
        let empty = in_place_update_hash(&BTreeSet::new(), &BTreeMap::new());
        assert_eq!(empty, fnv1a_32(b"{}").to_string());
        let tags = BTreeMap::from([("a".to_owned(), "x&y".to_owned())]);
        assert_eq!(
            in_place_update_hash(&BTreeSet::new(), &tags),
            fnv1a_32(br#"{"tags":{"a":"x\u0026y"}}"#).to_string()
        );
    }
}
