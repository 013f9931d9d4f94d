//! The root message.

use std::collections::BTreeMap;

use super::cluster::{
    ApiServerConfig, AuthConfig, BootstrappingConfig, ClusterConfig, CustomCloudConfig, ImdsRestrictionConfig,
    NetworkConfig, ServiceAccountImagePullProfile,
};
use super::declare::message;
use super::enums::WorkloadRuntime;
use super::kubelet::KubeletConfig;
use super::system::{
    ContainerdConfig, CustomLinuxOsConfig, CustomSearchDomainConfig, GpuConfig, HttpProxyConfig, KubeBinaryConfig,
    LocalDnsProfile, RuncConfig,
};

message! {
    /// Root message of an `AKSNodeConfig`.
Configuration {
        version "version": String,
        kube_binary_config "kubeBinaryConfig": Option<KubeBinaryConfig>,
        custom_cloud_config "customCloudConfig": Option<CustomCloudConfig>,
        api_server_config "apiServerConfig": Option<ApiServerConfig>,
        cluster_config "clusterConfig": Option<ClusterConfig>,
        bootstrapping_config "bootstrappingConfig": Option<BootstrappingConfig>,
        auth_config "authConfig": Option<AuthConfig>,
        runc_config "runcConfig": Option<RuncConfig>,
        containerd_config "containerdConfig": Option<ContainerdConfig>,
        kubelet_config "kubeletConfig": Option<KubeletConfig>,
        custom_search_domain_config "customSearchDomainConfig": Option<CustomSearchDomainConfig>,
        custom_linux_os_config "customLinuxOsConfig": Option<CustomLinuxOsConfig>,
        http_proxy_config "httpProxyConfig": Option<HttpProxyConfig>,
        gpu_config "gpuConfig": Option<GpuConfig>,
        network_config "networkConfig": Option<NetworkConfig>,
        kubernetes_ca_cert "kubernetesCaCert": String,
        kubernetes_version "kubernetesVersion": String,
        kube_proxy_url "kubeProxyUrl": String,
        vm_size "vmSize": String,
        linux_admin_username "linuxAdminUsername": String,
        is_vhd "isVhd": Option<bool>,
        enable_ssh "enableSsh": Option<bool>,
        enable_unattended_upgrade "enableUnattendedUpgrade": bool,
        message_of_the_day "messageOfTheDay": String,
        enable_hosts_config_agent "enableHostsConfigAgent": bool,
        custom_ca_certs "customCaCerts": Vec<String>,
        provision_output "provisionOutput": String,
        workload_runtime "workloadRuntime": WorkloadRuntime,
        ipv6_dual_stack_enabled "ipv6DualStackEnabled": bool,
        outbound_command "outboundCommand": String,
        azure_private_registry_server "azurePrivateRegistryServer": String,
        private_egress_proxy_address "privateEgressProxyAddress": String,
        enable_artifact_streaming "enableArtifactStreaming": bool,
        is_kata "isKata": bool,
        needs_cgroupv2 "needsCgroupv2": Option<bool>,
        disable_custom_data "disableCustomData": bool,
        bootstrap_profile_container_registry_server "bootstrapProfileContainerRegistryServer": String,
        imds_restriction_config "imdsRestrictionConfig": Option<ImdsRestrictionConfig>,
        pre_provision_only "preProvisionOnly": bool,
        local_dns_profile "localDnsProfile": Option<LocalDnsProfile>,
        disable_pubkey_auth "disablePubkeyAuth": Option<bool>,
        service_account_image_pull_profile "serviceAccountImagePullProfile": Option<ServiceAccountImagePullProfile>,
        cse_timeout "cseTimeout": Option<i32>,
        enabled_features "enabledFeatures": BTreeMap<String, String>,
    }
}
