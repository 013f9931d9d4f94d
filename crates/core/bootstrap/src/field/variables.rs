//! Node Bootstrapping Variables as fields: which sources may set them and what they are computed from.

use kiln_aks_formats::nbv;
use kiln_node_config::Effect;

use super::{Field, ValueType, effect_of_config};
use crate::provenance::{Hardcoded, SourceKind};

const SETTINGS: &[SourceKind] = &[SourceKind::Settings];
const CLASS: &[SourceKind] = &[SourceKind::NodeClass];
const BOTH: &[SourceKind] = &[SourceKind::Settings, SourceKind::NodeClass];

const LABEL_SOURCES: &[&str] = &[
    "labels",
    "requirementLabels",
    "vmSize",
    "zone",
    "resourceGroup",
    "kubeletIdentityClientId",
    "imageFamily",
    "fipsMode",
    "trustedLaunch",
    "kubernetesVersion",
    "vnetSubnetId",
    "vnetGuid",
    "networkPlugin",
    "networkPluginMode",
    "networkDataplane",
    "artifactStreaming",
    "arch",
    "localDnsMode",
    "capacityType",
];

const FLAG_SOURCES: &[&str] = &[
    "kubernetesVersion",
    "taints",
    "startupTaints",
    "maxPods",
    "networkPlugin",
    "networkPluginMode",
    "dnsServiceIp",
    "kubelet.cpuManagerPolicy",
    "kubelet.cpuCFSQuota",
    "kubelet.imageGCHighThresholdPercent",
    "kubelet.imageGCLowThresholdPercent",
    "kubelet.topologyManagerPolicy",
    "kubelet.allowedUnsafeSysctls",
    "kubelet.containerLogMaxSize",
    "kubelet.containerLogMaxFiles",
    "kubelet.podPidsLimit",
];

/// Returns the inputs that a variable is computed from.
fn computed_from(field: nbv::Field) -> &'static [&'static str] {
    use nbv::Field as V;
    match field {
        V::AdminUsername => &["adminUsername"],
        V::TenantID => &["tenantId"],
        V::SubscriptionID => &["subscriptionId"],
        V::ResourceGroup => &["resourceGroup"],
        V::Location => &["location"],
        V::KubernetesVersion => &["kubernetesVersion"],
        V::KubeBinaryURL | V::CredentialProviderDownloadURL => &["kubernetesVersion", "arch"],
        V::VNETCNILinuxPluginsURL | V::CNIPluginsURL => &["arch"],
        V::Subnet | V::VirtualNetwork | V::VirtualNetworkResourceGroup => &["vnetSubnetId"],
        V::NetworkSecurityGroup => &["securityGroup"],
        V::RouteTable => &["clusterId"],
        V::NetworkPlugin => &["networkPlugin", "networkPluginMode", "networkDataplane"],
        V::NetworkPolicy => &["networkPolicy"],
        V::UserAssignedIdentityID => &["kubeletIdentityClientId"],
        V::APIServerName => &["clusterEndpoint"],
        V::TLSBootstrapToken => &["bootstrapToken"],
        V::KubeCACrt => &["caBundle"],
        V::GPUNode | V::ConfigGPUDriverIfNeeded | V::GPUImageSHA | V::GPUDriverVersion | V::GPUDriverType => {
            &["vmSize", "gpuMode"]
        }
        V::ContainerdConfigContent => &["vmSize", "gpuMode"],
        V::KubeletFlags => FLAG_SOURCES,
        V::KubeletNodeLabels => LABEL_SOURCES,
        V::SysctlContent => &["sysctls"],
        V::CustomCATrustConfigCerts | V::ShouldConfigureCustomCATrust => &["customCaCerts"],
        _ => &[],
    }
}

/// Returns the `NodeConfig` field that contains a variable which sources may set.
fn config_path(field: nbv::Field) -> Option<&'static str> {
    use nbv::Field as V;
    match field {
        V::HTTPProxyURLs => Some("spec.os.proxy.http"),
        V::HTTPSProxyURLs => Some("spec.os.proxy.https"),
        V::NoProxyURLs => Some("spec.os.proxy.noProxy"),
        V::HTTPProxyTrustedCA => Some("spec.os.proxy.certificateAuthority"),
        V::SwapFileSizeMB => Some("spec.os.swap.sizeMib"),
        V::THPEnabled => Some("spec.os.hugePages.transparent"),
        V::THPDefrag => Some("spec.os.hugePages.defrag"),
        V::MessageOfTheDay => Some("spec.files"),
        V::CustomSearchDomainName => Some("spec.cluster.dns.search"),
        _ => None,
    }
}

/// Returns all variables.
pub(super) fn variables() -> impl Iterator<Item = Field> {
    nbv::Field::ALL.into_iter().map(variable)
}

fn variable(field: nbv::Field) -> Field {
    let from = computed_from(field);
    let value_type = match field.shape() {
        nbv::Shape::Text => ValueType::Text,
        nbv::Shape::Bool => ValueType::Bool,
        nbv::Shape::Int => ValueType::Int,
        nbv::Shape::List => ValueType::List,
    };
    let (kinds, reason): (&'static [SourceKind], _) = match field.origin() {
        _ if !from.is_empty() => (&[], None),
        // The format defines them per cluster, but an AKSNodeClass can set them too.
        _ if matches!(field, nbv::Field::THPEnabled | nbv::Field::THPDefrag) => (BOTH, Some(Hardcoded::Default)),
        nbv::Origin::Unused => (&[], Some(Hardcoded::Unused)),
        nbv::Origin::Unsupported => (&[], Some(Hardcoded::Unsupported)),
        nbv::Origin::ClusterDefault => (SETTINGS, Some(Hardcoded::Default)),
        nbv::Origin::NodeClassDefault => (CLASS, Some(Hardcoded::Default)),
        nbv::Origin::Static | nbv::Origin::Given | nbv::Origin::Detected | nbv::Origin::Computed => {
            (&[], Some(Hardcoded::Static))
        }
    };
    let config = config_path(field);
    Field {
        name: field.name(),
        doc: field.env().map_or_else(|| "Controls the script.".to_owned(), |env| format!("`{env}`")),
        value_type,
        kinds,
        default: reason
            .map(|reason| (reason, value_type.parse(field.default_text()).unwrap_or_else(|| value_type.empty()))),
        reads: &[],
        secret: field.is_secret(),
        effect: config.map_or(Effect::Replace, effect_of_config),
        config,
        variable: Some(field),
        from,
    }
}
