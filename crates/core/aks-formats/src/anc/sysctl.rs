//! Sysctls by their names in `AKSNodeConfig`, in Karpenter and in the kernel.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::system::SysctlConfig;
use super::wire::{ReadState, WireValue as _};

/// An unsupported sysctl, or an invalid value for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {reason}")]
pub struct BadSysctl {
    pub name: String,
    pub reason: String,
}

impl SysctlConfig {
    /// Parses the sysctls of an `AKSNodeClass`: `netCoreSomaxconn`.
    pub fn from_class(settings: &BTreeMap<String, Value>) -> Result<Self, BadSysctl> {
        settings.iter().try_fold(Self::default(), |all, (name, value)| all.with(name, name, value.clone()))
    }

    /// Parses sysctls by kernel name: `net.core.somaxconn`.
    pub fn from_kernel(settings: &BTreeMap<String, String>) -> Result<Self, BadSysctl> {
        settings.iter().try_fold(Self::default(), |all, (name, text)| {
            // AKSNodeConfig spells one of them without the underscore.
            let field = name.replace(['.', '-'], "_").replace("tcp_keepalive_intvl", "tcpkeepalive_intvl");
            let value = match (name.as_str(), text.as_str()) {
                ("net.ipv4.tcp_tw_reuse", "0" | "1") => Value::from(text == "1"),
                _ => Value::from(text.as_str()),
            };
            all.with(name, &field, value)
        })
    }

    /// Adds one sysctl with the parser of the document.
    fn with(mut self, name: &str, field: &str, value: Value) -> Result<Self, BadSysctl> {
        let bad = |reason: &str| BadSysctl { name: name.to_owned(), reason: reason.to_owned() };
        let message = Value::Object(Map::from_iter([(field.to_owned(), value)]));
        let mut reading = ReadState::default();
        self.merge(message, &mut reading).map_err(|error| bad(&error.to_string()))?;
        if reading.ignored.is_empty() { Ok(self) } else { Err(bad("AKS does not support this sysctl")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_survive_a_round_trip_through_kernel_names() {
        let all = SysctlConfig {
            net_core_somaxconn: Some(1),
            net_core_netdev_max_backlog: Some(2),
            net_core_rmem_default: Some(3),
            net_core_rmem_max: Some(4),
            net_core_wmem_default: Some(5),
            net_core_wmem_max: Some(6),
            net_core_optmem_max: Some(7),
            net_ipv4_tcp_max_syn_backlog: Some(8),
            net_ipv4_tcp_max_tw_buckets: Some(9),
            net_ipv4_tcp_fin_timeout: Some(10),
            net_ipv4_tcp_keepalive_time: Some(11),
            net_ipv4_tcp_keepalive_probes: Some(12),
            net_ipv4_tcpkeepalive_intvl: Some(13),
            net_ipv4_tcp_tw_reuse: Some(true),
            net_ipv4_ip_local_port_range: Some("1024 65000".to_owned()),
            net_ipv4_neigh_default_gc_thresh1: Some(14),
            net_ipv4_neigh_default_gc_thresh2: Some(15),
            net_ipv4_neigh_default_gc_thresh3: Some(16),
            net_netfilter_nf_conntrack_max: Some(17),
            net_netfilter_nf_conntrack_buckets: Some(18),
            fs_inotify_max_user_watches: Some(19),
            fs_file_max: Some(20),
            fs_aio_max_nr: Some(21),
            fs_nr_open: Some(22),
            kernel_threads_max: Some(23),
            vm_max_map_count: Some(24),
            vm_swappiness: Some(25),
            vm_vfs_cache_pressure: Some(26),
        };
        let kernel: BTreeMap<String, String> =
            all.kernel_settings().into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        assert_eq!(kernel.len(), 28);
        assert_eq!(SysctlConfig::from_kernel(&kernel).unwrap(), all);
    }

    #[test]
    fn unknown_sysctls_are_rejected_by_name() {
        let class = |name: &str, value: Value| SysctlConfig::from_class(&BTreeMap::from([(name.to_owned(), value)]));
        assert_eq!(
            class("netIpv4TcpkeepaliveIntvl", 30.into()).unwrap().kernel_settings()["net.ipv4.tcp_keepalive_intvl"],
            "30"
        );
        assert_eq!(class("netIpv4TcpTwReuse", true.into()).unwrap().kernel_settings()["net.ipv4.tcp_tw_reuse"], "1");
        assert_eq!(class("vmSwappines", 1.into()).unwrap_err().name, "vmSwappines");
        assert!(class("vmSwappiness", "many".into()).is_err());
        let kernel = BTreeMap::from([("kernel.panic".to_owned(), "10".to_owned())]);
        assert_eq!(
            SysctlConfig::from_kernel(&kernel).unwrap_err().to_string(),
            "`kernel.panic`: AKS does not support this sysctl"
        );
    }
}
