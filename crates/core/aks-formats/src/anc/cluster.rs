//! Cluster, network and authentication messages.

use super::declare::message;
use super::enums::{BootstrappingAuthMethod, ClusterJoinMethod, LoadBalancerSku, NetworkPlugin, NetworkPolicy, VmType};
use crate::Secret;

message! {
    /// The API server.
    ApiServerConfig {
        api_server_public_key "apiServerPublicKey": String,
        api_server_name "apiServerName": String,
    }
}

message! {
    /// Azure identity of the node.
    AuthConfig {
        tenant_id "tenantId": String,
        subscription_id "subscriptionId": String,
        service_principal_id "servicePrincipalId": String,
        service_principal_secret "servicePrincipalSecret": Secret,
        assigned_identity_id "assignedIdentityId": String,
        use_managed_identity_extension "useManagedIdentityExtension": bool,
    }
}

message! {
    /// How the node joins the cluster.
    BootstrappingConfig {
        bootstrapping_auth_method "bootstrappingAuthMethod": BootstrappingAuthMethod,
        cluster_join_method "clusterJoinMethod": ClusterJoinMethod,
        tls_bootstrapping_token "tlsBootstrappingToken": Option<Secret>,
        secure_tls_bootstrapping_aad_resource "secureTlsBootstrappingAadResource": Option<String>,
        secure_tls_bootstrapping_user_assigned_identity_id "secureTlsBootstrappingUserAssignedIdentityId": Option<String>,
        secure_tls_bootstrapping_custom_client_download_url "secureTlsBootstrappingCustomClientDownloadUrl": Option<String>,
        secure_tls_bootstrapping_validate_kubeconfig_timeout "secureTlsBootstrappingValidateKubeconfigTimeout": Option<String>,
        secure_tls_bootstrapping_get_access_token_timeout "secureTlsBootstrappingGetAccessTokenTimeout": Option<String>,
        secure_tls_bootstrapping_get_instance_data_timeout "secureTlsBootstrappingGetInstanceDataTimeout": Option<String>,
        secure_tls_bootstrapping_get_nonce_timeout "secureTlsBootstrappingGetNonceTimeout": Option<String>,
        secure_tls_bootstrapping_get_attested_data_timeout "secureTlsBootstrappingGetAttestedDataTimeout": Option<String>,
        secure_tls_bootstrapping_get_credential_timeout "secureTlsBootstrappingGetCredentialTimeout": Option<String>,
    }
}

message! {
    /// The cluster that the node joins.
    ClusterConfig {
        cluster_network_config "clusterNetworkConfig": Option<ClusterNetworkConfig>,
        load_balancer_config "loadBalancerConfig": Option<LoadBalancerConfig>,
        resource_group "resourceGroup": String,
        location "location": String,
        vm_type "vmType": VmType,
        primary_availability_set "primaryAvailabilitySet": String,
        primary_scale_set "primaryScaleSet": String,
        use_instance_metadata "useInstanceMetadata": bool,
        cloud_provider_config "cloudProviderConfig": Option<CloudProviderConfig>,
    }
}

message! {
    ClusterNetworkConfig {
        vnet_name "vnetName": String,
        vnet_resource_group "vnetResourceGroup": String,
        subnet "subnet": String,
        security_group_name "securityGroupName": String,
        route_table "routeTable": String,
        core_dns_service_ip "coreDnsServiceIp": String,
    }
}

message! {
    /// The cluster's load balancer.
    LoadBalancerConfig {
        load_balancer_sku "loadBalancerSku": LoadBalancerSku,
        exclude_master_from_standard_load_balancer "excludeMasterFromStandardLoadBalancer": Option<bool>,
        max_load_balancer_rule_count "maxLoadBalancerRuleCount": Option<i32>,
        disable_outbound_snat "disableOutboundSnat": bool,
    }
}

message! {
    /// Backoff and rate limits of the Azure cloud provider.
    CloudProviderConfig {
        backoff "backoff": Option<bool>,
        backoff_mode "backoffMode": String,
        backoff_retries "backoffRetries": Option<i32>,
        backoff_exponent "backoffExponent": Option<f64>,
        backoff_duration "backoffDuration": Option<i32>,
        backoff_jitter "backoffJitter": Option<f64>,
        rate_limit "rateLimit": Option<bool>,
        rate_limit_qps "rateLimitQps": Option<f64>,
        rate_limit_qps_write "rateLimitQpsWrite": Option<f64>,
        rate_limit_bucket "rateLimitBucket": Option<i32>,
        rate_limit_bucket_write "rateLimitBucketWrite": Option<i32>,
    }
}

message! {
    /// A cloud other than the public Azure clouds.
    CustomCloudConfig {
        custom_cloud_env_name "customCloudEnvName": String,
        repo_depot_endpoint "repoDepotEndpoint": String,
        custom_env_json_content "customEnvJsonContent": String,
        container_registry_dns_suffix "containerRegistryDnsSuffix": String,
    }
}

message! {
    /// Restriction of pods' access to the metadata service.
    ImdsRestrictionConfig {
        enable_imds_restriction "enableImdsRestriction": bool,
        insert_imds_restriction_rule_to_mangle_table "insertImdsRestrictionRuleToMangleTable": bool,
    }
}

message! {
    /// The network plugin.
    NetworkConfig {
        network_plugin "networkPlugin": NetworkPlugin,
        network_policy "networkPolicy": NetworkPolicy,
        vnet_cni_plugins_url "vnetCniPluginsUrl": String,
        cni_plugins_url "cniPluginsUrl": String,
        standard_secondary_nic_count "standardSecondaryNicCount": i32,
    }
}

message! {
    /// Image pulls with the identity of a service account.
    ServiceAccountImagePullProfile {
        enabled "enabled": bool,
        default_client_id "defaultClientId": String,
        default_tenant_id "defaultTenantId": String,
        local_authority_sni "localAuthoritySni": String,
    }
}
