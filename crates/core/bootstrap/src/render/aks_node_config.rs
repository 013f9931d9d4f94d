//! Rendering of an `AKSNodeConfig`, the configuration of the AKS node controller.

use kiln_aks_formats::anc::{
    ApiServerConfig, AuthConfig, BootstrappingAuthMethod, BootstrappingConfig, ClusterConfig, ClusterJoinMethod,
    ClusterNetworkConfig, Configuration, CustomLinuxOsConfig, CustomSearchDomainConfig, GpuConfig, HttpProxyConfig,
    KubeBinaryConfig, KubeletConfig, LoadBalancerConfig, LoadBalancerSku, LocalDnsOverrides, LocalDnsProfile,
    NetworkConfig, NetworkPlugin, NetworkPolicy, SysctlConfig, VmType,
};
use kiln_aks_formats::go::duration::GoDuration;
use kiln_aks_formats::karpenter::LocalDnsZone;
use kiln_aks_formats::nbv::kubelet::PAUSE_IMAGE;
use kiln_aks_formats::nbv::{Field, InputError, Inputs, Variables, labels};
use kiln_aks_formats::{Secret, names::SubnetId};

use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;
use crate::resolve::Resolved;

/// Values that an `AKSNodeConfig` can contain and the variables cannot.
#[derive(Clone, Debug, Default)]
struct Extras {
    vm_size: String,
    dns_service_ip: String,
    streaming: bool,
    local_dns: Option<LocalDnsProfile>,
}

/// Renders an `AKSNodeConfig` of version `v1` from resolved sources.
pub fn aks_node_config(inputs: &Resolved) -> Result<Configuration, RenderError> {
    // Reports missing inputs by their field names.
    inputs.variables()?;
    let extras = Extras {
        vm_size: inputs.text("vmSize").to_owned(),
        dns_service_ip: inputs.text("dnsServiceIp").to_owned(),
        streaming: inputs.is_true("artifactStreaming"),
        local_dns: (inputs.text("localDnsMode") == "Required").then(|| local_dns(inputs)),
    };
    document(&inputs.inputs()?, &extras)
}

/// Renders an `AKSNodeConfig` from inputs that were resolved elsewhere.
pub fn aks_node_config_from_values(flat: &Inputs) -> Result<Configuration, RenderError> {
    let dns_service_ip = flat.kubelet_flags().map_err(DeriveError::from)?.remove("--cluster-dns").unwrap_or_default();
    document(flat, &Extras { dns_service_ip, ..Extras::default() })
}

fn document(flat: &Inputs, extras: &Extras) -> Result<Configuration, RenderError> {
    let variables = flat.variables().map_err(DeriveError::from)?;
    let text = |field: Field| variables.get(field).to_owned();
    let all_labels = flat.labels.clone();
    Ok(Configuration {
        version: "v1".to_owned(),
        kube_binary_config: Some(KubeBinaryConfig {
            kube_binary_url: text(Field::KubeBinaryURL),
            linux_credential_provider_url: text(Field::CredentialProviderDownloadURL),
            pod_infra_container_image_url: PAUSE_IMAGE.to_owned(),
            ..KubeBinaryConfig::default()
        }),
        api_server_config: Some(ApiServerConfig {
            api_server_name: text(Field::APIServerName),
            ..ApiServerConfig::default()
        }),
        cluster_config: Some(cluster(flat, extras, &variables)?),
        bootstrapping_config: Some(BootstrappingConfig {
            bootstrapping_auth_method: BootstrappingAuthMethod::BootstrapToken,
            cluster_join_method: ClusterJoinMethod::UseBootstrappingAuth,
            tls_bootstrapping_token: Some(Secret::new(text(Field::TLSBootstrapToken))),
            ..BootstrappingConfig::default()
        }),
        auth_config: Some(AuthConfig {
            tenant_id: text(Field::TenantID),
            subscription_id: text(Field::SubscriptionID),
            service_principal_id: text(Field::ServicePrincipalClientID),
            service_principal_secret: Secret::new(text(Field::ServicePrincipalFileContent)),
            assigned_identity_id: text(Field::UserAssignedIdentityID),
            use_managed_identity_extension: variables.is_true(Field::UseManagedIdentityExtension),
        }),
        kubelet_config: Some(KubeletConfig {
            kubelet_flags: flat.kubelet_flags().map_err(DeriveError::from)?,
            kubelet_node_labels: all_labels.into_iter().filter(|(key, _)| labels::kubelet_may_set(key)).collect(),
            ..KubeletConfig::default()
        }),
        custom_search_domain_config: Some(CustomSearchDomainConfig {
            domain_name: text(Field::CustomSearchDomainName),
            realm_user: text(Field::CustomSearchRealmUser),
            realm_password: Secret::new(text(Field::CustomSearchRealmPassword)),
        })
        .filter(|search| *search != CustomSearchDomainConfig::default()),
        custom_linux_os_config: Some(CustomLinuxOsConfig {
            enable_swap_config: variables.is_true(Field::ShouldConfigSwapFile),
            swap_file_size: variables.get(Field::SwapFileSizeMB).parse().unwrap_or_default(),
            transparent_hugepage_support: text(Field::THPEnabled),
            transparent_defrag: text(Field::THPDefrag),
            sysctl_config: Some(SysctlConfig::from_kernel(&flat.sysctls)?).filter(|_| !flat.sysctls.is_empty()),
            ..CustomLinuxOsConfig::default()
        })
        .filter(|os| *os != CustomLinuxOsConfig::default()),
        http_proxy_config: proxy(&variables),
        gpu_config: Some(GpuConfig {
            enable_nvidia: Some(variables.is_true(Field::GPUNode)),
            config_gpu_driver: variables.is_true(Field::ConfigGPUDriverIfNeeded),
            gpu_instance_profile: text(Field::GPUInstanceProfile),
            ..GpuConfig::default()
        }),
        network_config: Some(NetworkConfig {
            network_plugin: plugin(variables.get(Field::NetworkPlugin)),
            network_policy: policy(variables.get(Field::NetworkPolicy)),
            vnet_cni_plugins_url: text(Field::VNETCNILinuxPluginsURL),
            cni_plugins_url: text(Field::CNIPluginsURL),
            ..NetworkConfig::default()
        }),
        kubernetes_ca_cert: text(Field::KubeCACrt),
        kubernetes_version: text(Field::KubernetesVersion),
        vm_size: extras.vm_size.clone(),
        linux_admin_username: text(Field::AdminUsername),
        is_vhd: Some(variables.is_true(Field::IsVHD)),
        enable_ssh: Some(!variables.is_true(Field::DisableSSH)),
        enable_unattended_upgrade: variables.is_true(Field::EnableUnattendedUpgrades),
        message_of_the_day: text(Field::MessageOfTheDay),
        custom_ca_certs: variables.certificates().to_vec(),
        outbound_command: text(Field::OutboundCommand),
        azure_private_registry_server: text(Field::AzurePrivateRegistryServer),
        enable_artifact_streaming: extras.streaming,
        needs_cgroupv2: Some(variables.is_true(Field::NeedsCgroupV2)),
        local_dns_profile: extras.local_dns.clone(),
        ..Configuration::default()
    })
}

/// Returns the LocalDNS profile of the class.
fn local_dns(inputs: &Resolved) -> LocalDnsProfile {
    let zones = |field: &str| {
        let zones = inputs.map(field).into_iter();
        zones.filter_map(|(zone, json)| Some((zone, overrides(&serde_json::from_str(&json).ok()?)))).collect()
    };
    LocalDnsProfile {
        enable_local_dns: true,
        vnet_dns_overrides: zones("localDnsVnetOverrides"),
        kube_dns_overrides: zones("localDnsKubeOverrides"),
        ..LocalDnsProfile::default()
    }
}

fn overrides(zone: &LocalDnsZone) -> LocalDnsOverrides {
    let seconds = |duration: Option<GoDuration>| duration.and_then(|long| i32::try_from(long.whole_seconds()).ok());
    LocalDnsOverrides {
        query_logging: zone.query_logging.clone(),
        protocol: zone.protocol.clone(),
        forward_destination: zone.forward_destination.clone(),
        forward_policy: zone.forward_policy.clone(),
        max_concurrent: zone.max_concurrent,
        cache_duration_in_seconds: seconds(zone.cache_duration),
        serve_stale_duration_in_seconds: seconds(zone.serve_stale_duration),
        serve_stale: zone.serve_stale.clone(),
        ..LocalDnsOverrides::default()
    }
}

fn cluster(flat: &Inputs, extras: &Extras, variables: &Variables) -> Result<ClusterConfig, RenderError> {
    let subnet: SubnetId = flat.subnet_id.parse().map_err(|bad| DeriveError::Input(InputError::Subnet(bad)))?;
    Ok(ClusterConfig {
        cluster_network_config: Some(ClusterNetworkConfig {
            vnet_name: subnet.network,
            vnet_resource_group: subnet.resource_group,
            subnet: subnet.subnet,
            security_group_name: variables.get(Field::NetworkSecurityGroup).to_owned(),
            route_table: variables.get(Field::RouteTable).to_owned(),
            core_dns_service_ip: extras.dns_service_ip.clone(),
        }),
        load_balancer_config: Some(LoadBalancerConfig {
            load_balancer_sku: if variables.get(Field::LoadBalancerSKU).eq_ignore_ascii_case("basic") {
                LoadBalancerSku::Basic
            } else {
                LoadBalancerSku::Standard
            },
            exclude_master_from_standard_load_balancer: Some(variables.is_true(Field::ExcludeMasterFromStandardLB)),
            max_load_balancer_rule_count: variables.get(Field::MaximumLoadbalancerRuleCount).parse().ok(),
            disable_outbound_snat: variables.is_true(Field::LoadBalancerDisableOutboundSNAT),
        }),
        resource_group: variables.get(Field::ResourceGroup).to_owned(),
        location: variables.get(Field::Location).to_owned(),
        vm_type: if variables.get(Field::VMType) == "vmss" { VmType::Vmss } else { VmType::Standard },
        use_instance_metadata: variables.is_true(Field::UseInstanceMetadata),
        ..ClusterConfig::default()
    })
}

fn proxy(variables: &Variables) -> Option<HttpProxyConfig> {
    let no_proxy = variables.get(Field::NoProxyURLs).split(',').filter(|host| !host.is_empty());
    Some(HttpProxyConfig {
        http_proxy: Secret::new(variables.get(Field::HTTPProxyURLs)),
        https_proxy: Secret::new(variables.get(Field::HTTPSProxyURLs)),
        no_proxy_entries: no_proxy.map(str::to_owned).collect(),
        proxy_trusted_ca: variables.get(Field::HTTPProxyTrustedCA).to_owned(),
    })
    .filter(|proxy| *proxy != HttpProxyConfig::default())
}

fn plugin(name: &str) -> NetworkPlugin {
    match name {
        "none" => NetworkPlugin::None,
        "azure" => NetworkPlugin::Azure,
        "kubenet" => NetworkPlugin::Kubenet,
        _ => NetworkPlugin::Unspecified,
    }
}

/// Returns the policy. Engines that AKS has no value for, such as Cilium, run in the cluster and need nothing on the node.
fn policy(name: &str) -> NetworkPolicy {
    match name {
        "azure" => NetworkPolicy::Azure,
        "calico" => NetworkPolicy::Calico,
        "none" => NetworkPolicy::None,
        _ => NetworkPolicy::Unspecified,
    }
}
