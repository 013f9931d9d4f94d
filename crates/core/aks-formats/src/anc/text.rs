//! Text values of single fields, as the node's scripts expect them.

use std::collections::BTreeMap;

use super::enums::{LoadBalancerSku, NetworkPlugin, NetworkPolicy, VmType};
use super::system::{HttpProxyConfig, SysctlConfig, UlimitConfig};

pub(super) fn vm_type(kind: VmType) -> &'static str {
    match kind {
        VmType::Standard => "standard",
        VmType::Vmss => "vmss",
        VmType::Unspecified | VmType::Other(_) => "",
    }
}

pub(super) fn sku(sku: LoadBalancerSku) -> &'static str {
    match sku {
        LoadBalancerSku::Basic => "basic",
        LoadBalancerSku::Standard => "standard",
        LoadBalancerSku::Unspecified | LoadBalancerSku::Other(_) => "",
    }
}

impl NetworkPlugin {
    /// Returns the value that the node's scripts expect.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Azure => "azure",
            Self::Kubenet => "kubenet",
            Self::Unspecified | Self::Other(_) => "",
        }
    }
}

impl NetworkPolicy {
    /// Returns the value that the node's scripts expect.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Azure => "azure",
            Self::Calico => "calico",
            Self::Unspecified | Self::Other(_) => "",
        }
    }
}

impl HttpProxyConfig {
    /// Whether an HTTP or HTTPS proxy is set.
    pub fn is_configured(&self) -> bool {
        !self.http_proxy.is_empty() || !self.https_proxy.is_empty()
    }

    /// Returns shell commands that export the proxies, with escaped values.
    pub(super) fn exports(&self) -> String {
        let no_proxy = self.no_proxy_entries.join(",");
        [
            ("NO_PROXY", no_proxy.as_str()),
            ("HTTPS_PROXY", self.https_proxy.expose()),
            ("http_proxy", self.http_proxy.expose()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`");
            format!("export {name}=\"{escaped}\";")
        })
        .collect::<Vec<_>>()
        .join(" ")
    }
}

impl UlimitConfig {
    /// `CONTAINERD_ULIMITS`.
    pub fn content(&self) -> String {
        let line = |name: &str, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!("{name}={value} "))
        };
        format!("[Service] {}{}", line("LimitMEMLOCK", &self.max_locked_memory), line("LimitNOFILE", &self.no_file))
    }
}

impl SysctlConfig {
    /// Returns the sysctls that are set, by kernel name.
    pub fn kernel_settings(&self) -> BTreeMap<&'static str, String> {
        let number = |value: Option<i32>| value.map(|value| value.to_string());
        [
            ("net.core.somaxconn", number(self.net_core_somaxconn)),
            ("net.core.netdev_max_backlog", number(self.net_core_netdev_max_backlog)),
            ("net.core.rmem_default", number(self.net_core_rmem_default)),
            ("net.core.rmem_max", number(self.net_core_rmem_max)),
            ("net.core.wmem_default", number(self.net_core_wmem_default)),
            ("net.core.wmem_max", number(self.net_core_wmem_max)),
            ("net.core.optmem_max", number(self.net_core_optmem_max)),
            ("net.ipv4.tcp_max_syn_backlog", number(self.net_ipv4_tcp_max_syn_backlog)),
            ("net.ipv4.tcp_max_tw_buckets", number(self.net_ipv4_tcp_max_tw_buckets)),
            ("net.ipv4.tcp_fin_timeout", number(self.net_ipv4_tcp_fin_timeout)),
            ("net.ipv4.tcp_keepalive_time", number(self.net_ipv4_tcp_keepalive_time)),
            ("net.ipv4.tcp_keepalive_probes", number(self.net_ipv4_tcp_keepalive_probes)),
            ("net.ipv4.tcp_keepalive_intvl", number(self.net_ipv4_tcpkeepalive_intvl)),
            ("net.ipv4.tcp_tw_reuse", self.net_ipv4_tcp_tw_reuse.map(|reuse| u8::from(reuse).to_string())),
            ("net.ipv4.ip_local_port_range", self.net_ipv4_ip_local_port_range.clone()),
            ("net.ipv4.neigh.default.gc_thresh1", number(self.net_ipv4_neigh_default_gc_thresh1)),
            ("net.ipv4.neigh.default.gc_thresh2", number(self.net_ipv4_neigh_default_gc_thresh2)),
            ("net.ipv4.neigh.default.gc_thresh3", number(self.net_ipv4_neigh_default_gc_thresh3)),
            ("net.netfilter.nf_conntrack_max", number(self.net_netfilter_nf_conntrack_max)),
            ("net.netfilter.nf_conntrack_buckets", number(self.net_netfilter_nf_conntrack_buckets)),
            ("fs.inotify.max_user_watches", number(self.fs_inotify_max_user_watches)),
            ("fs.file-max", number(self.fs_file_max)),
            ("fs.aio-max-nr", number(self.fs_aio_max_nr)),
            ("fs.nr_open", number(self.fs_nr_open)),
            ("kernel.threads-max", number(self.kernel_threads_max)),
            ("vm.max_map_count", number(self.vm_max_map_count)),
            ("vm.swappiness", number(self.vm_swappiness)),
            ("vm.vfs_cache_pressure", number(self.vm_vfs_cache_pressure)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}
