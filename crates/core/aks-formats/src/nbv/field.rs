//! The 127 fields of the Node Bootstrapping Variables, in the order of the script.

use std::fmt;
use std::str::FromStr;

/// Type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    Bool,
    Int,
    /// A list of strings. The script contains its length and one variable per element.
    List,
}

/// Where AKS takes the value of a field from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Required by the format, but nothing reads it.
    Unused,
    /// Belongs to a feature that is not supported.
    Unsupported,
    /// The same for every node.
    Static,
    /// Default of a cluster setting.
    ClusterDefault,
    /// Default of a node class setting.
    NodeClassDefault,
    /// Passed with the request for a node.
    Given,
    /// Read from the cluster.
    Detected,
    /// Computed from other values.
    Computed,
}

macro_rules! fields {
    ($($name:ident, $env:literal, $shape:ident, $code:literal, $origin:ident, $default:literal $($secret:ident)?;)*) => {
        /// A field of the Node Bootstrapping Variables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = concat!("`", $env, "`")] $name,)*
        }

        impl Field {
            /// All fields, in the order of the script.
            pub const ALL: [Self; 127] = [$(Self::$name),*];

            /// Returns the name of the field.
            pub fn name(self) -> &'static str {
                ROWS[self as usize].name
            }

            fn row(self) -> &'static Row {
                &ROWS[self as usize]
            }
        }

        const ROWS: [Row; 127] = [$(Row {
            name: stringify!($name),
            env: $env,
            shape: Shape::$shape,
            code: $code,
            origin: Origin::$origin,
            default: $default,
            secret: fields!(@secret $($secret)?),
        }),*];
    };
    (@secret secret) => { true };
    (@secret) => { false };
}

struct Row {
    name: &'static str,
    env: &'static str,
    shape: Shape,
    code: &'static str,
    origin: Origin,
    default: &'static str,
    secret: bool,
}

impl Field {
    /// Returns the environment variable. Two fields only control the script and have none.
    pub fn env(self) -> Option<&'static str> {
        Some(self.row().env).filter(|env| !env.is_empty())
    }

    /// Returns the type of the value.
    pub fn shape(self) -> Shape {
        self.row().shape
    }

    /// Returns AKS' own code for the origin: `-` unused, `n` unsupported, `s` static, `a` argument, `x` per cluster, `X` per pool,
    /// `c` cluster option, `p` pool, `t` node class, `k` computed; a trailing `d` means that it has a default.
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// Returns the origin of the value.
    pub fn origin(self) -> Origin {
        self.row().origin
    }

    /// Returns the default value.
    pub fn default_text(self) -> &'static str {
        self.row().default
    }

    /// Whether the value must not be shown. Proxy URLs are secret, because they may contain a password.
    pub fn is_secret(self) -> bool {
        self.row().secret
    }

    /// Looks up a field by its environment variable.
    pub fn from_env(env: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.env() == Some(env))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a Node Bootstrapping Variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown Node Bootstrapping Variable `{0}`")]
pub struct UnknownField(pub String);

impl FromStr for Field {
    type Err = UnknownField;

    fn from_str(name: &str) -> Result<Self, UnknownField> {
        Self::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| UnknownField(name.to_owned()))
    }
}

fields! {
    IsAKSCustomCloud, "", Bool, "n", Unsupported, "false";
    InitAKSCustomCloudFilepath, "", Text, "n", Unsupported, "";
    AKSCustomCloudRepoDepotEndpoint, "REPO_DEPOT_ENDPOINT", Text, "n", Unsupported, "";
    AdminUsername, "ADMINUSER", Text, "t", NodeClassDefault, "azureuser";
    MobyVersion, "MOBY_VERSION", Text, "-", Unused, "";
    TenantID, "TENANT_ID", Text, "p", Given, "";
    KubernetesVersion, "KUBERNETES_VERSION", Text, "?", Detected, "";
    HyperkubeURL, "HYPERKUBE_URL", Text, "-", Unused, "";
    KubeBinaryURL, "KUBE_BINARY_URL", Text, "-", Computed, "";
    CustomKubeBinaryURL, "CUSTOM_KUBE_BINARY_URL", Text, "-", Unused, "";
    CredentialProviderDownloadURL, "CREDENTIAL_PROVIDER_DOWNLOAD_URL", Text, "-", Computed, "";
    KubeproxyURL, "KUBEPROXY_URL", Text, "-", Unused, "";
    APIServerPublicKey, "APISERVER_PUBLIC_KEY", Text, "-", Unused, "";
    SubscriptionID, "SUBSCRIPTION_ID", Text, "a", Given, "";
    ResourceGroup, "RESOURCE_GROUP", Text, "a", Given, "";
    Location, "LOCATION", Text, "a", Given, "";
    VMType, "VM_TYPE", Text, "xd", ClusterDefault, "standard";
    Subnet, "SUBNET", Text, "xd", Computed, "";
    NetworkSecurityGroup, "NETWORK_SECURITY_GROUP", Text, "xk", Detected, "";
    VirtualNetwork, "VIRTUAL_NETWORK", Text, "xk", Computed, "";
    VirtualNetworkResourceGroup, "VIRTUAL_NETWORK_RESOURCE_GROUP", Text, "xd", Computed, "";
    RouteTable, "ROUTE_TABLE", Text, "xk", Computed, "";
    PrimaryAvailabilitySet, "PRIMARY_AVAILABILITY_SET", Text, "-", Unused, "";
    PrimaryScaleSet, "PRIMARY_SCALE_SET", Text, "-", Unused, "";
    ServicePrincipalClientID, "SERVICE_PRINCIPAL_CLIENT_ID", Text, "ad", ClusterDefault, "msi";
    NetworkPlugin, "NETWORK_PLUGIN", Text, "x", Computed, "";
    NetworkPolicy, "NETWORK_POLICY", Text, "x", Given, "";
    VNETCNILinuxPluginsURL, "VNET_CNI_PLUGINS_URL", Text, "-", Computed, "";
    CNIPluginsURL, "CNI_PLUGINS_URL", Text, "-", Computed, "";
    CloudProviderBackoff, "CLOUDPROVIDER_BACKOFF", Bool, "s", Static, "true";
    CloudProviderBackoffMode, "CLOUDPROVIDER_BACKOFF_MODE", Text, "s", Static, "v2";
    CloudProviderBackoffRetries, "CLOUDPROVIDER_BACKOFF_RETRIES", Text, "s", Static, "6";
    CloudProviderBackoffExponent, "CLOUDPROVIDER_BACKOFF_EXPONENT", Text, "s", Static, "0";
    CloudProviderBackoffDuration, "CLOUDPROVIDER_BACKOFF_DURATION", Text, "s", Static, "5";
    CloudProviderBackoffJitter, "CLOUDPROVIDER_BACKOFF_JITTER", Text, "s", Static, "0";
    CloudProviderRatelimit, "CLOUDPROVIDER_RATELIMIT", Bool, "s", Static, "true";
    CloudProviderRatelimitQPS, "CLOUDPROVIDER_RATELIMIT_QPS", Text, "s", Static, "10";
    CloudProviderRatelimitQPSWrite, "CLOUDPROVIDER_RATELIMIT_QPS_WRITE", Text, "s", Static, "10";
    CloudProviderRatelimitBucket, "CLOUDPROVIDER_RATELIMIT_BUCKET", Text, "s", Static, "100";
    CloudProviderRatelimitBucketWrite, "CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE", Text, "s", Static, "100";
    LoadBalancerDisableOutboundSNAT, "LOAD_BALANCER_DISABLE_OUTBOUND_SNAT", Bool, "xd", ClusterDefault, "false";
    UseManagedIdentityExtension, "USE_MANAGED_IDENTITY_EXTENSION", Bool, "s", Static, "true";
    UseInstanceMetadata, "USE_INSTANCE_METADATA", Bool, "s", Static, "true";
    LoadBalancerSKU, "LOAD_BALANCER_SKU", Text, "xd", ClusterDefault, "Standard";
    ExcludeMasterFromStandardLB, "EXCLUDE_MASTER_FROM_STANDARD_LB", Bool, "s", Static, "true";
    MaximumLoadbalancerRuleCount, "MAXIMUM_LOADBALANCER_RULE_COUNT", Int, "xd", ClusterDefault, "250";
    ContainerRuntime, "CONTAINER_RUNTIME", Text, "s", Static, "containerd";
    CLITool, "CLI_TOOL", Text, "s", Static, "ctr";
    ContainerdDownloadURLBase, "CONTAINERD_DOWNLOAD_URL_BASE", Text, "-", Unused, "";
    NetworkMode, "NETWORK_MODE", Text, "c", ClusterDefault, "";
    UserAssignedIdentityID, "USER_ASSIGNED_IDENTITY_ID", Text, "a", Given, "";
    APIServerName, "API_SERVER_NAME", Text, "x", Given, "";
    IsVHD, "IS_VHD", Bool, "s", Static, "true";
    GPUNode, "GPU_NODE", Bool, "k", Computed, "";
    SGXNode, "SGX_NODE", Bool, "-", Unused, "false";
    MIGNode, "MIG_NODE", Bool, "t", NodeClassDefault, "false";
    ConfigGPUDriverIfNeeded, "CONFIG_GPU_DRIVER_IF_NEEDED", Bool, "s", Computed, "";
    EnableGPUDevicePluginIfNeeded, "ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED", Bool, "-", Unused, "false";
    TeleportdPluginDownloadURL, "TELEPORTD_PLUGIN_DOWNLOAD_URL", Text, "-", Unused, "";
    ContainerdVersion, "CONTAINERD_VERSION", Text, "-", Unused, "";
    ContainerdPackageURL, "CONTAINERD_PACKAGE_URL", Text, "-", Unused, "";
    RuncVersion, "RUNC_VERSION", Text, "-", Unused, "";
    RuncPackageURL, "RUNC_PACKAGE_URL", Text, "-", Unused, "";
    EnableHostsConfigAgent, "ENABLE_HOSTS_CONFIG_AGENT", Bool, "n", Unsupported, "false";
    DisableSSH, "DISABLE_SSH", Bool, "t", NodeClassDefault, "false";
    NeedsContainerd, "NEEDS_CONTAINERD", Bool, "s", Static, "true";
    TeleportEnabled, "TELEPORT_ENABLED", Bool, "t", NodeClassDefault, "false";
    ShouldConfigureHTTPProxy, "SHOULD_CONFIGURE_HTTP_PROXY", Bool, "c", ClusterDefault, "false";
    ShouldConfigureHTTPProxyCA, "SHOULD_CONFIGURE_HTTP_PROXY_CA", Bool, "c", ClusterDefault, "false";
    HTTPProxyTrustedCA, "HTTP_PROXY_TRUSTED_CA", Text, "c", ClusterDefault, "";
    ShouldConfigureCustomCATrust, "SHOULD_CONFIGURE_CUSTOM_CA_TRUST", Bool, "c", ClusterDefault, "false";
    CustomCATrustConfigCerts, "CUSTOM_CA_TRUST_COUNT", List, "c", ClusterDefault, "";
    IsKrustlet, "IS_KRUSTLET", Bool, "t", NodeClassDefault, "false";
    GPUNeedsFabricManager, "GPU_NEEDS_FABRIC_MANAGER", Bool, "v", NodeClassDefault, "false";
    NeedsDockerLogin, "NEEDS_DOCKER_LOGIN", Bool, "t", NodeClassDefault, "false";
    IPv6DualStackEnabled, "IPV6_DUAL_STACK_ENABLED", Bool, "t", NodeClassDefault, "false";
    OutboundCommand, "OUTBOUND_COMMAND", Text, "s", Static, "curl -v --insecure --proxy-insecure https://mcr.microsoft.com/v2/";
    EnableUnattendedUpgrades, "ENABLE_UNATTENDED_UPGRADES", Bool, "c", ClusterDefault, "false";
    EnsureNoDupePromiscuousBridge, "ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE", Bool, "k", Computed, "false";
    ShouldConfigSwapFile, "SHOULD_CONFIG_SWAP_FILE", Bool, "t", NodeClassDefault, "false";
    ShouldConfigTransparentHugePage, "SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE", Bool, "t", NodeClassDefault, "false";
    TargetCloud, "TARGET_CLOUD", Text, "n", Unsupported, "AzurePublicCloud";
    TargetEnvironment, "TARGET_ENVIRONMENT", Text, "n", Unsupported, "AzurePublicCloud";
    CustomEnvJSON, "CUSTOM_ENV_JSON", Text, "n", Unsupported, "";
    IsCustomCloud, "IS_CUSTOM_CLOUD", Bool, "n", Unsupported, "false";
    CSEHelpersFilepath, "CSE_HELPERS_FILEPATH", Text, "s", Static, "/opt/azure/containers/provision_source.sh";
    CSEDistroHelpersFilepath, "CSE_DISTRO_HELPERS_FILEPATH", Text, "s", Static, "/opt/azure/containers/provision_source_distro.sh";
    CSEInstallFilepath, "CSE_INSTALL_FILEPATH", Text, "s", Static, "/opt/azure/containers/provision_installs.sh";
    CSEDistroInstallFilepath, "CSE_DISTRO_INSTALL_FILEPATH", Text, "s", Static, "/opt/azure/containers/provision_installs_distro.sh";
    CSEConfigFilepath, "CSE_CONFIG_FILEPATH", Text, "s", Static, "/opt/azure/containers/provision_configs.sh";
    AzurePrivateRegistryServer, "AZURE_PRIVATE_REGISTRY_SERVER", Text, "c", ClusterDefault, "";
    HasCustomSearchDomain, "HAS_CUSTOM_SEARCH_DOMAIN", Bool, "c", ClusterDefault, "false";
    CustomSearchDomainFilepath, "CUSTOM_SEARCH_DOMAIN_FILEPATH", Text, "s", Static, "/opt/azure/containers/setup-custom-search-domains.sh";
    HTTPProxyURLs, "HTTP_PROXY_URLS", Text, "c", ClusterDefault, "" secret;
    HTTPSProxyURLs, "HTTPS_PROXY_URLS", Text, "c", ClusterDefault, "" secret;
    NoProxyURLs, "NO_PROXY_URLS", Text, "c", ClusterDefault, "";
    TLSBootstrappingEnabled, "ENABLE_TLS_BOOTSTRAPPING", Bool, "s", Static, "true";
    SecureTLSBootstrappingEnabled, "ENABLE_SECURE_TLS_BOOTSTRAPPING", Bool, "s", Static, "false";
    EnableKubeletServingCertificateRotation, "ENABLE_KUBELET_SERVING_CERTIFICATE_ROTATION", Bool, "s", Static, "false";
    DHCPv6ServiceFilepath, "DHCPV6_SERVICE_FILEPATH", Text, "k", Computed, "";
    DHCPv6ConfigFilepath, "DHCPV6_CONFIG_FILEPATH", Text, "k", Computed, "";
    THPEnabled, "THP_ENABLED", Text, "c", ClusterDefault, "";
    THPDefrag, "THP_DEFRAG", Text, "c", ClusterDefault, "";
    ServicePrincipalFileContent, "SERVICE_PRINCIPAL_FILE_CONTENT", Text, "s", Static, "bXNp" secret;
    KubeletClientContent, "KUBELET_CLIENT_CONTENT", Text, "-", Unused, "" secret;
    KubeletClientCertContent, "KUBELET_CLIENT_CERT_CONTENT", Text, "-", Unused, "";
    KubeletConfigFileEnabled, "KUBELET_CONFIG_FILE_ENABLED", Bool, "s", Static, "false";
    KubeletConfigFileContent, "KUBELET_CONFIG_FILE_CONTENT", Text, "s", Static, "";
    SwapFileSizeMB, "SWAP_FILE_SIZE_MB", Int, "t", NodeClassDefault, "0";
    GPUImageSHA, "GPU_IMAGE_SHA", Text, "s", Computed, "";
    GPUDriverVersion, "GPU_DRIVER_VERSION", Text, "k", Computed, "";
    GPUDriverType, "GPU_DRIVER_TYPE", Text, "k", Computed, "";
    GPUInstanceProfile, "GPU_INSTANCE_PROFILE", Text, "t", NodeClassDefault, "";
    CustomSearchDomainName, "CUSTOM_SEARCH_DOMAIN_NAME", Text, "c", ClusterDefault, "";
    CustomSearchRealmUser, "CUSTOM_SEARCH_REALM_USER", Text, "c", ClusterDefault, "";
    CustomSearchRealmPassword, "CUSTOM_SEARCH_REALM_PASSWORD", Text, "c", ClusterDefault, "" secret;
    MessageOfTheDay, "MESSAGE_OF_THE_DAY", Text, "t", NodeClassDefault, "";
    HasKubeletDiskType, "HAS_KUBELET_DISK_TYPE", Bool, "t", NodeClassDefault, "false";
    NeedsCgroupV2, "NEEDS_CGROUPV2", Bool, "k", Computed, "true";
    SysctlContent, "SYSCTL_CONTENT", Text, "t", Computed, "";
    TLSBootstrapToken, "TLS_BOOTSTRAP_TOKEN", Text, "X", Given, "" secret;
    KubeletFlags, "KUBELET_FLAGS", Text, "psX", Computed, "";
    KubeletNodeLabels, "KUBELET_NODE_LABELS", Text, "pk", Computed, "";
    AzureEnvironmentFilepath, "AZURE_ENVIRONMENT_FILEPATH", Text, "s", Static, "";
    KubeCACrt, "KUBE_CA_CRT", Text, "x", Detected, "";
    ContainerdConfigContent, "CONTAINERD_CONFIG_CONTENT", Text, "k", Computed, "";
    IsKata, "IS_KATA", Bool, "n", Unsupported, "false";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_127_fields_with_unique_names() {
        let written: BTreeSet<_> = Field::ALL.into_iter().filter_map(Field::env).collect();
        assert_eq!(Field::ALL.len(), 127);
        assert_eq!(written.len(), 125, "124 that are always written, and one for custom clouds");
        let names: BTreeSet<_> = Field::ALL.into_iter().map(Field::name).collect();
        assert_eq!(names.len(), 127);
    }

    #[test]
    fn fields_are_found_by_name_and_environment_variable() {
        for field in Field::ALL {
            assert_eq!(field.name().parse(), Ok(field));
            if let Some(env) = field.env() {
                assert_eq!(Field::from_env(env), Some(field));
            }
        }
        assert_eq!("Nonsense".parse::<Field>(), Err(UnknownField("Nonsense".to_owned())));
    }

    #[test]
    fn defaults_have_the_type_of_their_field() {
        for field in Field::ALL {
            let text = field.default_text();
            let has_no_default = matches!(field.origin(), Origin::Given | Origin::Detected | Origin::Computed);
            match field.shape() {
                Shape::Bool => assert!(has_no_default || text == "true" || text == "false", "{field}: {text}"),
                Shape::Int => assert!(text.parse::<i64>().is_ok(), "{field}: {text}"),
                Shape::Text | Shape::List => {}
            }
        }
    }
}
