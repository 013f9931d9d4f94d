//! Variables that are copies of fields.

use super::config::Configuration;
use crate::Secret;

/// Conversion of a field to the text of a variable.
pub(super) trait Text {
    fn text(&self) -> String;
}

impl Text for String {
    fn text(&self) -> String {
        self.clone()
    }
}

impl Text for Secret {
    fn text(&self) -> String {
        self.expose().to_owned()
    }
}

impl Text for bool {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Text for i32 {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl<T: Text + Default> Text for Option<T> {
    fn text(&self) -> String {
        self.as_ref().map_or_else(|| T::default().text(), Text::text)
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn direct(config: &Configuration) -> Vec<(&'static str, String)> {
    let cluster = config.cluster_config.clone().unwrap_or_default();
    let auth = config.auth_config.clone().unwrap_or_default();
    let network = config.network_config.clone().unwrap_or_default();
    let gpu = config.gpu_config.clone().unwrap_or_default();
    let binaries = config.kube_binary_config.clone().unwrap_or_default();
    let containerd = config.containerd_config.clone().unwrap_or_default();
    let runc = config.runc_config.clone().unwrap_or_default();
    let cloud = config.custom_cloud_config.clone().unwrap_or_default();
    let server = config.api_server_config.clone().unwrap_or_default();
    let join = config.bootstrapping_config.clone().unwrap_or_default();
    let kubelet = config.kubelet_config.clone().unwrap_or_default();
    let os = config.custom_linux_os_config.clone().unwrap_or_default();
    let proxy = config.http_proxy_config.clone().unwrap_or_default();
    let search = config.custom_search_domain_config.clone().unwrap_or_default();
    let imds = config.imds_restriction_config.clone().unwrap_or_default();
    let pull = config.service_account_image_pull_profile.clone().unwrap_or_default();
    let subnet = cluster.cluster_network_config.clone().unwrap_or_default();
    let balancer = cluster.load_balancer_config.clone().unwrap_or_default();
    let file = kubelet.kubelet_config_file_config.clone().unwrap_or_default();
    vec![
        ("PROVISION_OUTPUT", "/var/log/azure/cluster-provision-cse-output.log".to_owned()),
        ("MOBY_VERSION", String::new()),
        ("CLI_TOOL", "ctr".to_owned()),
        ("NETWORK_MODE", String::new()),
        ("TENANT_ID", auth.tenant_id.text()),
        ("KUBERNETES_VERSION", config.kubernetes_version.text()),
        ("KUBE_BINARY_URL", binaries.kube_binary_url.text()),
        ("CUSTOM_KUBE_BINARY_URL", binaries.custom_kube_binary_url.text()),
        ("PRIVATE_KUBE_BINARY_URL", binaries.private_kube_binary_url.text()),
        ("KUBEPROXY_URL", config.kube_proxy_url.text()),
        ("APISERVER_PUBLIC_KEY", server.api_server_public_key.text()),
        ("SUBSCRIPTION_ID", auth.subscription_id.text()),
        ("RESOURCE_GROUP", cluster.resource_group.text()),
        ("LOCATION", cluster.location.text()),
        ("SUBNET", subnet.subnet.text()),
        ("NETWORK_SECURITY_GROUP", subnet.security_group_name.text()),
        ("VIRTUAL_NETWORK", subnet.vnet_name.text()),
        ("VIRTUAL_NETWORK_RESOURCE_GROUP", subnet.vnet_resource_group.text()),
        ("ROUTE_TABLE", subnet.route_table.text()),
        ("PRIMARY_AVAILABILITY_SET", cluster.primary_availability_set.text()),
        ("PRIMARY_SCALE_SET", cluster.primary_scale_set.text()),
        ("SERVICE_PRINCIPAL_CLIENT_ID", auth.service_principal_id.text()),
        ("VNET_CNI_PLUGINS_URL", network.vnet_cni_plugins_url.text()),
        ("LOAD_BALANCER_DISABLE_OUTBOUND_SNAT", balancer.disable_outbound_snat.text()),
        ("USE_MANAGED_IDENTITY_EXTENSION", auth.use_managed_identity_extension.text()),
        ("USE_INSTANCE_METADATA", cluster.use_instance_metadata.text()),
        ("CONTAINERD_DOWNLOAD_URL_BASE", containerd.containerd_download_url_base.text()),
        ("USER_ASSIGNED_IDENTITY_ID", auth.assigned_identity_id.text()),
        ("API_SERVER_NAME", server.api_server_name.text()),
        ("CONFIG_GPU_DRIVER_IF_NEEDED", gpu.config_gpu_driver.text()),
        ("ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED", gpu.gpu_device_plugin.text()),
        ("MANAGED_GPU_EXPERIENCE_AFEC_ENABLED", gpu.managed_gpu_experience_afec_enabled.text()),
        ("ENABLE_MANAGED_GPU", gpu.enable_managed_gpu.text()),
        ("NVIDIA_MIG_STRATEGY", gpu.mig_strategy.text()),
        ("CREDENTIAL_PROVIDER_DOWNLOAD_URL", binaries.linux_credential_provider_url.text()),
        ("CONTAINERD_VERSION", containerd.containerd_version.text()),
        ("CONTAINERD_PACKAGE_URL", containerd.containerd_package_url.text()),
        ("RUNC_VERSION", runc.runc_version.text()),
        ("RUNC_PACKAGE_URL", runc.runc_package_url.text()),
        ("ENABLE_HOSTS_CONFIG_AGENT", config.enable_hosts_config_agent.text()),
        ("IPV6_DUAL_STACK_ENABLED", config.ipv6_dual_stack_enabled.text()),
        ("OUTBOUND_COMMAND", config.outbound_command.text()),
        ("ENABLE_UNATTENDED_UPGRADES", config.enable_unattended_upgrade.text()),
        ("CUSTOM_ENV_JSON", cloud.custom_env_json_content.text()),
        ("AKS_CUSTOM_CLOUD_CONTAINER_REGISTRY_DNS_SUFFIX", cloud.container_registry_dns_suffix.text()),
        ("AZURE_PRIVATE_REGISTRY_SERVER", config.azure_private_registry_server.text()),
        ("HTTP_PROXY_URLS", proxy.http_proxy.text()),
        ("HTTPS_PROXY_URLS", proxy.https_proxy.text()),
        ("TLS_BOOTSTRAP_TOKEN", join.tls_bootstrapping_token.text()),
        ("SECURE_TLS_BOOTSTRAPPING_AAD_RESOURCE", join.secure_tls_bootstrapping_aad_resource.text()),
        (
            "SECURE_TLS_BOOTSTRAPPING_USER_ASSIGNED_IDENTITY_ID",
            join.secure_tls_bootstrapping_user_assigned_identity_id.text(),
        ),
        (
            "SECURE_TLS_BOOTSTRAPPING_VALIDATE_KUBECONFIG_TIMEOUT",
            join.secure_tls_bootstrapping_validate_kubeconfig_timeout.text(),
        ),
        (
            "SECURE_TLS_BOOTSTRAPPING_GET_ACCESS_TOKEN_TIMEOUT",
            join.secure_tls_bootstrapping_get_access_token_timeout.text(),
        ),
        (
            "SECURE_TLS_BOOTSTRAPPING_GET_INSTANCE_DATA_TIMEOUT",
            join.secure_tls_bootstrapping_get_instance_data_timeout.text(),
        ),
        ("SECURE_TLS_BOOTSTRAPPING_GET_NONCE_TIMEOUT", join.secure_tls_bootstrapping_get_nonce_timeout.text()),
        (
            "SECURE_TLS_BOOTSTRAPPING_GET_ATTESTED_DATA_TIMEOUT",
            join.secure_tls_bootstrapping_get_attested_data_timeout.text(),
        ),
        (
            "SECURE_TLS_BOOTSTRAPPING_GET_CREDENTIAL_TIMEOUT",
            join.secure_tls_bootstrapping_get_credential_timeout.text(),
        ),
        (
            "CUSTOM_SECURE_TLS_BOOTSTRAPPING_CLIENT_DOWNLOAD_URL",
            join.secure_tls_bootstrapping_custom_client_download_url.text(),
        ),
        ("ENABLE_KUBELET_SERVING_CERTIFICATE_ROTATION", file.server_tls_bootstrap.text()),
        ("THP_ENABLED", os.transparent_hugepage_support.text()),
        ("THP_DEFRAG", os.transparent_defrag.text()),
        ("SERVICE_PRINCIPAL_FILE_CONTENT", auth.service_principal_secret.text()),
        ("KUBELET_CLIENT_CONTENT", kubelet.kubelet_client_key.text()),
        ("KUBELET_CLIENT_CERT_CONTENT", kubelet.kubelet_client_cert_content.text()),
        ("KUBELET_CONFIG_FILE_ENABLED", kubelet.enable_kubelet_config_file.text()),
        ("SWAP_FILE_SIZE_MB", os.swap_file_size.text()),
        ("GPU_INSTANCE_PROFILE", gpu.gpu_instance_profile.text()),
        ("CUSTOM_SEARCH_DOMAIN_NAME", search.domain_name.text()),
        ("CUSTOM_SEARCH_REALM_USER", search.realm_user.text()),
        ("CUSTOM_SEARCH_REALM_PASSWORD", search.realm_password.text()),
        ("MESSAGE_OF_THE_DAY", config.message_of_the_day.text()),
        ("NEEDS_CGROUPV2", config.needs_cgroupv2.text()),
        ("KUBE_CA_CRT", config.kubernetes_ca_cert.text()),
        ("IS_KATA", config.is_kata.text()),
        ("ARTIFACT_STREAMING_ENABLED", config.enable_artifact_streaming.text()),
        ("PRIVATE_EGRESS_PROXY_ADDRESS", config.private_egress_proxy_address.text()),
        ("BOOTSTRAP_PROFILE_CONTAINER_REGISTRY_SERVER", config.bootstrap_profile_container_registry_server.text()),
        ("ENABLE_IMDS_RESTRICTION", imds.enable_imds_restriction.text()),
        ("INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE", imds.insert_imds_restriction_rule_to_mangle_table.text()),
        ("PRE_PROVISION_ONLY", config.pre_provision_only.text()),
        ("DISABLE_PUBKEY_AUTH", config.disable_pubkey_auth.text()),
        ("SERVICE_ACCOUNT_IMAGE_PULL_ENABLED", pull.enabled.text()),
        ("SERVICE_ACCOUNT_IMAGE_PULL_DEFAULT_CLIENT_ID", pull.default_client_id.text()),
        ("SERVICE_ACCOUNT_IMAGE_PULL_DEFAULT_TENANT_ID", pull.default_tenant_id.text()),
        ("IDENTITY_BINDINGS_LOCAL_AUTHORITY_SNI", pull.local_authority_sni.text()),
        ("SKIP_WAAGENT_HOLD", "true".to_owned()),
        ("NETWORK_ISOLATED_CLUSTER_TEST_MODE", "false".to_owned()),
        ("STANDARD_SECONDARY_NIC_COUNT", network.standard_secondary_nic_count.text()),
        ("ENABLE_MANAGED_GPU_DRA", gpu.enable_managed_gpu_dra.text()),
    ]
}
