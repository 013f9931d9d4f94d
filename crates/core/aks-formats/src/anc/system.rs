//! Operating-system, runtime and DNS messages.

use std::collections::BTreeMap;

use super::declare::message;
use crate::Secret;

message! {
    /// Operating-system settings.
    CustomLinuxOsConfig {
        sysctl_config "sysctlConfig": Option<SysctlConfig>,
        ulimit_config "ulimitConfig": Option<UlimitConfig>,
        enable_swap_config "enableSwapConfig": bool,
        swap_file_size "swapFileSize": i32,
        transparent_hugepage_support "transparentHugepageSupport": String,
        transparent_defrag "transparentDefrag": String,
    }
}

message! {
    /// Sysctls.
    SysctlConfig {
        net_core_somaxconn "netCoreSomaxconn": Option<i32>,
        net_core_netdev_max_backlog "netCoreNetdevMaxBacklog": Option<i32>,
        net_core_rmem_default "netCoreRmemDefault": Option<i32>,
        net_core_rmem_max "netCoreRmemMax": Option<i32>,
        net_core_wmem_default "netCoreWmemDefault": Option<i32>,
        net_core_wmem_max "netCoreWmemMax": Option<i32>,
        net_core_optmem_max "netCoreOptmemMax": Option<i32>,
        net_ipv4_tcp_max_syn_backlog "netIpv4TcpMaxSynBacklog": Option<i32>,
        net_ipv4_tcp_max_tw_buckets "netIpv4TcpMaxTwBuckets": Option<i32>,
        net_ipv4_tcp_fin_timeout "netIpv4TcpFinTimeout": Option<i32>,
        net_ipv4_tcp_keepalive_time "netIpv4TcpKeepaliveTime": Option<i32>,
        net_ipv4_tcp_keepalive_probes "netIpv4TcpKeepaliveProbes": Option<i32>,
        net_ipv4_tcpkeepalive_intvl "netIpv4TcpkeepaliveIntvl": Option<i32>,
        net_ipv4_tcp_tw_reuse "netIpv4TcpTwReuse": Option<bool>,
        net_ipv4_ip_local_port_range "netIpv4IpLocalPortRange": Option<String>,
        net_ipv4_neigh_default_gc_thresh1 "netIpv4NeighDefaultGcThresh1": Option<i32>,
        net_ipv4_neigh_default_gc_thresh2 "netIpv4NeighDefaultGcThresh2": Option<i32>,
        net_ipv4_neigh_default_gc_thresh3 "netIpv4NeighDefaultGcThresh3": Option<i32>,
        net_netfilter_nf_conntrack_max "netNetfilterNfConntrackMax": Option<i32>,
        net_netfilter_nf_conntrack_buckets "netNetfilterNfConntrackBuckets": Option<i32>,
        fs_inotify_max_user_watches "fsInotifyMaxUserWatches": Option<i32>,
        fs_file_max "fsFileMax": Option<i32>,
        fs_aio_max_nr "fsAioMaxNr": Option<i32>,
        fs_nr_open "fsNrOpen": Option<i32>,
        kernel_threads_max "kernelThreadsMax": Option<i32>,
        vm_max_map_count "vmMaxMapCount": Option<i32>,
        vm_swappiness "vmSwappiness": Option<i32>,
        vm_vfs_cache_pressure "vmVfsCachePressure": Option<i32>,
    }
}

message! {
    /// Resource limits of containerd.
    UlimitConfig {
        no_file "noFile": Option<String>,
        max_locked_memory "maxLockedMemory": Option<String>,
    }
}

message! {
    /// DNS search domain and realm.
    CustomSearchDomainConfig {
        domain_name "domainName": String,
        realm_user "realmUser": String,
        realm_password "realmPassword": Secret,
    }
}

message! {
    /// HTTP proxies.
    HttpProxyConfig {
        http_proxy "httpProxy": Secret,
        https_proxy "httpsProxy": Secret,
        no_proxy_entries "noProxyEntries": Vec<String>,
        proxy_trusted_ca "proxyTrustedCa": String,
    }
}

message! {
    /// Version and download of containerd.
    ContainerdConfig {
        containerd_download_url_base "containerdDownloadUrlBase": String,
        containerd_version "containerdVersion": String,
        containerd_package_url "containerdPackageUrl": String,
    }
}

message! {
    /// Version and download of runc.
    RuncConfig {
        runc_version "runcVersion": String,
        runc_package_url "runcPackageUrl": String,
    }
}

message! {
    GpuConfig {
        enable_nvidia "enableNvidia": Option<bool>,
        config_gpu_driver "configGpuDriver": bool,
        gpu_device_plugin "gpuDevicePlugin": bool,
        gpu_instance_profile "gpuInstanceProfile": String,
        enable_amd_gpu "enableAmdGpu": Option<bool>,
        managed_gpu_experience_afec_enabled "managedGpuExperienceAfecEnabled": bool,
        enable_managed_gpu "enableManagedGpu": bool,
        mig_strategy "migStrategy": String,
        mig_profile_layout "migProfileLayout": Vec<String>,
        enable_managed_gpu_dra "enableManagedGpuDra": bool,
    }
}

message! {
    /// Downloads of Kubernetes binaries.
    KubeBinaryConfig {
        kube_binary_url "kubeBinaryUrl": String,
        custom_kube_binary_url "customKubeBinaryUrl": String,
        private_kube_binary_url "privateKubeBinaryUrl": String,
        pod_infra_container_image_url "podInfraContainerImageUrl": String,
        linux_credential_provider_url "linuxCredentialProviderUrl": String,
    }
}

message! {
    /// LocalDNS, the DNS server on the node.
    LocalDnsProfile {
        enable_local_dns "enableLocalDns": bool,
        cpu_limit_in_milli_cores "cpuLimitInMilliCores": Option<i32>,
        memory_limit_in_mb "memoryLimitInMb": Option<i32>,
        vnet_dns_overrides "vnetDnsOverrides": BTreeMap<String, LocalDnsOverrides>,
        kube_dns_overrides "kubeDnsOverrides": BTreeMap<String, LocalDnsOverrides>,
        enable_hosts_plugin "enableHostsPlugin": bool,
        critical_fqdns "criticalFqdns": Vec<String>,
        hosts_plugin_refresh_interval_in_seconds "hostsPluginRefreshIntervalInSeconds": Option<i32>,
    }
}

message! {
    /// LocalDNS overrides of one zone.
    LocalDnsOverrides {
        query_logging "queryLogging": String,
        protocol "protocol": String,
        forward_destination "forwardDestination": String,
        forward_policy "forwardPolicy": String,
        max_concurrent "maxConcurrent": Option<i32>,
        cache_duration_in_seconds "cacheDurationInSeconds": Option<i32>,
        serve_stale_duration_in_seconds "serveStaleDurationInSeconds": Option<i32>,
        serve_stale "serveStale": String,
        failfast_all_unhealthy_upstreams "failfastAllUnhealthyUpstreams": Option<bool>,
        health_check "healthCheck": Option<LocalDnsHealthCheck>,
    }
}

message! {
    /// Health check of upstream servers.
    LocalDnsHealthCheck {
        duration "duration": Option<String>,
        no_rec "noRec": Option<bool>,
        domain "domain": Option<String>,
    }
}
