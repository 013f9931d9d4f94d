//! kubelet messages.

use std::collections::BTreeMap;

use super::declare::message;
use super::enums::KubeletDisk;
use crate::Secret;

message! {
    KubeletConfig {
        kubelet_flags "kubeletFlags": BTreeMap<String, String>,
        kubelet_node_labels "kubeletNodeLabels": BTreeMap<String, String>,
        kubelet_disk_type "kubeletDiskType": KubeletDisk,
        enable_kubelet_config_file "enableKubeletConfigFile": bool,
        kubelet_config_file_config "kubeletConfigFileConfig": Option<KubeletConfigFileConfig>,
        kubelet_client_key "kubeletClientKey": Secret,
        kubelet_client_cert_content "kubeletClientCertContent": String,
        container_data_dir "containerDataDir": String,
    }
}

message! {
    /// The kubelet's configuration file.
    KubeletConfigFileConfig {
        kind "kind": String,
        api_version "apiVersion": String,
        static_pod_path "staticPodPath": String,
        address "address": String,
        read_only_port "readOnlyPort": i32,
        tls_cert_file "tlsCertFile": String,
        tls_private_key_file "tlsPrivateKeyFile": String,
        tls_cipher_suites "tlsCipherSuites": Vec<String>,
        rotate_certificates "rotateCertificates": bool,
        server_tls_bootstrap "serverTLSBootstrap": bool,
        authentication "authentication": Option<KubeletAuthentication>,
        authorization "authorization": Option<KubeletAuthorization>,
        event_record_qps "eventRecordQPS": Option<i32>,
        cluster_domain "clusterDomain": String,
        cluster_dns "clusterDNS": Vec<String>,
        streaming_connection_idle_timeout "streamingConnectionIdleTimeout": String,
        node_status_update_frequency "nodeStatusUpdateFrequency": String,
        node_status_report_frequency "nodeStatusReportFrequency": String,
        image_gc_high_threshold_percent "imageGCHighThresholdPercent": Option<i32>,
        image_gc_low_threshold_percent "imageGCLowThresholdPercent": Option<i32>,
        cgroups_per_qos "cgroupsPerQOS": Option<bool>,
        cpu_manager_policy "cpuManagerPolicy": String,
        topology_manager_policy "topologyManagerPolicy": String,
        max_pods "maxPods": Option<i32>,
        pod_pids_limit "podPidsLimit": Option<i32>,
        resolv_conf "resolvConf": String,
        cpu_cfs_quota "cpuCFSQuota": Option<bool>,
        cpu_cfs_quota_period "cpuCFSQuotaPeriod": String,
        eviction_hard "evictionHard": BTreeMap<String, String>,
        protect_kernel_defaults "protectKernelDefaults": bool,
        feature_gates "featureGates": BTreeMap<String, bool>,
        fail_swap_on "failSwapOn": Option<bool>,
        container_log_max_size "containerLogMaxSize": String,
        container_log_max_files "containerLogMaxFiles": Option<i32>,
        system_reserved "systemReserved": BTreeMap<String, String>,
        kube_reserved "kubeReserved": BTreeMap<String, String>,
        enforce_node_allocatable "enforceNodeAllocatable": Vec<String>,
        allowed_unsafe_sysctls "allowedUnsafeSysctls": Vec<String>,
        serialize_image_pulls "serializeImagePulls": Option<bool>,
        seccomp_default "seccompDefault": bool,
        eviction_soft "evictionSoft": BTreeMap<String, String>,
        eviction_soft_grace_period "evictionSoftGracePeriod": BTreeMap<String, String>,
        eviction_max_pod_grace_period "evictionMaxPodGracePeriod": i32,
        kube_reserved_cgroup "kubeReservedCgroup": String,
        system_reserved_cgroup "systemReservedCgroup": String,
    }
}

message! {
    /// Authentication of requests to the kubelet.
    KubeletAuthentication {
        x509 "x509": Option<KubeletX509Authentication>,
        webhook "webhook": Option<KubeletWebhookAuthentication>,
        anonymous "anonymous": Option<KubeletAnonymousAuthentication>,
    }
}

message! {
    /// Authentication by client certificate.
    KubeletX509Authentication {
        client_ca_file "clientCAFile": String,
    }
}

message! {
    /// Authentication by token review.
    KubeletWebhookAuthentication {
        enabled "enabled": bool,
        cache_ttl "cacheTtl": String,
    }
}

message! {
    /// Anonymous access.
    KubeletAnonymousAuthentication {
        enabled "enabled": bool,
    }
}

message! {
    /// Authorization of requests to the kubelet.
    KubeletAuthorization {
        mode "mode": String,
        webhook "webhook": Option<KubeletWebhookAuthorization>,
    }
}

message! {
    /// Cache of authorization decisions.
    KubeletWebhookAuthorization {
        cache_authorized_ttl "cacheAuthorizedTtl": String,
        cache_unauthorized_ttl "cacheUnauthorizedTtl": String,
    }
}
