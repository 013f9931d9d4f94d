//! Every field that a source may set, and every variable that follows.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kiln_api::Effect;
use kiln_contracts::nbv;
use serde_json::Value;

use crate::kind::{Hardcoded, Kind};

/// What a field's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// A list of texts.
    List,
    /// Names to texts.
    Map,
}

impl Form {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bool => "boolean",
            Self::Int => "whole number",
            Self::List => "list",
            Self::Map => "map",
        }
    }

    /// Whether a value has the form.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64() || value.is_u64(),
            Self::List => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Map => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        }
    }

    /// The value that a text means: an environment variable or an argument has nothing else.
    pub fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(text.into()),
            Self::Bool => text.parse::<bool>().ok().map(Value::from),
            Self::Int => text.parse::<i64>().ok().map(Value::from),
            Self::List => Some(parts(text).map(Value::from).collect()),
            Self::Map => parts(text)
                .map(|pair| pair.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value))))
                .collect::<Option<serde_json::Map<_, _>>>()
                .map(Value::Object),
        }
    }

    fn empty(self) -> Value {
        match self {
            Self::Text => "".into(),
            Self::Bool => false.into(),
            Self::Int => 0.into(),
            Self::List => Value::Array(Vec::new()),
            Self::Map => Value::Object(serde_json::Map::new()),
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub doc: String,
    /// What its value looks like.
    pub form: Form,
    /// The kinds of source that may set it, weakest first. None: only the program does.
    pub kinds: &'static [Kind],
    /// What it is when nobody sets it, and why that stands in the program. Fields that follow from others have none.
    pub default: Option<(Hardcoded, Value)>,
    /// Environment variables that set it; the first that is there wins.
    pub reads: &'static [&'static str],
    /// Whether its value is never shown.
    pub secret: bool,
    /// What a change costs on a running node.
    pub effect: Effect,
    /// The field of the `NodeConfig` that carries it.
    pub config: Option<&'static str>,
    /// The variable that it is.
    pub variable: Option<nbv::Field>,
    /// The fields that it follows from.
    pub from: &'static [&'static str],
}

/// A name that no field has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no field `{0}`")]
pub struct UnknownField(pub String);

impl Field {
    /// All fields: those that sources set, then the variables.
    pub fn all() -> &'static [Self] {
        &TABLE
    }

    /// The field of that name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownField> {
        TABLE.iter().find(|field| field.name == name).ok_or_else(|| UnknownField(name.to_owned()))
    }

    /// Whether some source may set it.
    pub fn is_input(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The strongest kind that may set it.
    pub fn strongest(&self) -> Option<Kind> {
        self.kinds.last().copied()
    }

    /// All fields that follow from this one, directly or through others.
    pub fn dependents(&self) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        let mut look = vec![self.name];
        while let Some(name) = look.pop() {
            for field in TABLE.iter().filter(|field| field.from.contains(&name)) {
                if found.insert(field.name) {
                    look.push(field.name);
                }
            }
        }
        found
    }
}

const OPERATOR: &[Kind] = &[Kind::Environment, Kind::Settings];
const FOUND: &[Kind] = &[Kind::Detected, Kind::Environment, Kind::Settings];
const LOOKED_UP: &[Kind] = &[Kind::Detected, Kind::Settings];
const SUBNET: &[Kind] = &[Kind::Detected, Kind::Environment, Kind::Settings, Kind::NodeClass];
const POOL: &[Kind] = &[Kind::NodePool];
const CLASS: &[Kind] = &[Kind::NodeClass];
const SETTINGS: &[Kind] = &[Kind::Settings];
const IMAGE: &[Kind] = &[Kind::Detected, Kind::NodeClass];

struct Row {
    name: &'static str,
    doc: &'static str,
    form: Form,
    kinds: &'static [Kind],
    reads: &'static [&'static str],
    default: &'static str,
    change: Change,
    from: &'static [&'static str],
}

/// What a change of an input costs.
#[derive(Clone, Copy)]
enum Change {
    /// What the field of the `NodeConfig` says.
    Config(&'static str),
    /// The machine is changed from outside; the node does not notice.
    Outside,
    /// Nothing can change it on a running node.
    Node,
}

use Change::{Config, Node, Outside};

const fn row(
    name: &'static str,
    doc: &'static str,
    form: Form,
    kinds: &'static [Kind],
    reads: &'static [&'static str],
    default: &'static str,
    change: Change,
) -> Row {
    Row { name, doc, form, kinds, reads, default, change, from: &[] }
}

const fn follows(mut row: Row, from: &'static [&'static str]) -> Row {
    row.from = from;
    row
}

use Form::{Bool, Int, List, Map, Text};

/// What sources set. The default is JSON; an empty one is the empty value of the form.
const INPUTS: [Row; 58] = [
    row("tenantId", "The tenant.", Text, OPERATOR, &["AZURE_TENANT_ID", "ARM_TENANT_ID"], "", Node),
    row(
        "subscriptionId",
        "The subscription.",
        Text,
        OPERATOR,
        &["AZURE_SUBSCRIPTION_ID", "ARM_SUBSCRIPTION_ID"],
        "",
        Node,
    ),
    row("resourceGroup", "The resource group of the nodes.", Text, OPERATOR, &["AZURE_NODE_RESOURCE_GROUP"], "", Node),
    row("location", "The region.", Text, OPERATOR, &["LOCATION"], "", Node),
    row("clusterName", "The name of the cluster.", Text, OPERATOR, &["CLUSTER_NAME"], "", Config("spec.cluster.name")),
    row(
        "clusterEndpoint",
        "The URL of the API server.",
        Text,
        FOUND,
        &["CLUSTER_ENDPOINT"],
        "",
        Config("spec.cluster.endpoint"),
    ),
    row("kubernetesVersion", "The version of Kubernetes.", Text, LOOKED_UP, &[], "", Config("spec.kubelet.version")),
    row(
        "caBundle",
        "The certificates of the API server, base64 of PEM.",
        Text,
        LOOKED_UP,
        &[],
        "",
        Config("spec.cluster.certificateAuthority"),
    ),
    row(
        "bootstrapToken",
        "The token that nodes join with.",
        Text,
        OPERATOR,
        &["KUBELET_BOOTSTRAP_TOKEN"],
        "",
        Config("spec.credentialFrom"),
    ),
    row(
        "credentialFrom",
        "Where a node finds its credential itself: `attestedIdentity`, `protectedSettings`, `managedIdentity`.",
        Text,
        SETTINGS,
        &[],
        "\"protectedSettings\"",
        Config("spec.credentialFrom"),
    ),
    row(
        "kubeletIdentityClientId",
        "The client id of the identity that kubelet uses.",
        Text,
        FOUND,
        &["KUBELET_IDENTITY_CLIENT_ID"],
        "",
        Node,
    ),
    row("nodeIdentities", "Identities of the machine.", List, FOUND, &["NODE_IDENTITIES"], "", Outside),
    row(
        "sshPublicKey",
        "The public key of the first user.",
        Text,
        OPERATOR,
        &["SSH_PUBLIC_KEY"],
        "",
        Config("spec.platform.users"),
    ),
    row(
        "adminUsername",
        "The first user.",
        Text,
        OPERATOR,
        &["LINUX_ADMIN_USERNAME"],
        "\"azureuser\"",
        Config("spec.platform.users"),
    ),
    row(
        "networkPlugin",
        "The network plugin: `azure` or `none`.",
        Text,
        FOUND,
        &["NETWORK_PLUGIN"],
        "\"azure\"",
        Config("spec.network.plugin"),
    ),
    row(
        "networkPluginMode",
        "Its mode: `overlay` or nothing.",
        Text,
        FOUND,
        &["NETWORK_PLUGIN_MODE"],
        "\"overlay\"",
        Config("spec.network.mode"),
    ),
    row("networkPolicy", "The network policy.", Text, FOUND, &["NETWORK_POLICY"], "", Config("spec.network.policy")),
    row(
        "networkDataplane",
        "What forwards packets: `cilium`, `azure` or nothing.",
        Text,
        FOUND,
        &["NETWORK_DATAPLANE"],
        "\"cilium\"",
        Config("spec.network.dataplane"),
    ),
    row(
        "dnsServiceIp",
        "The address of the cluster's DNS.",
        Text,
        FOUND,
        &["DNS_SERVICE_IP"],
        "\"10.0.0.10\"",
        Config("spec.cluster.dns.serviceIps"),
    ),
    row("vnetSubnetId", "The subnet.", Text, SUBNET, &["VNET_SUBNET_ID"], "", Node),
    row("vnetGuid", "The id of the network.", Text, FOUND, &["VNET_GUID"], "", Config("spec.kubelet.labels")),
    follows(
        row(
            "clusterId",
            "The eight digits in the names of the cluster's network parts; else drawn from the API server's name.",
            Text,
            LOOKED_UP,
            &[],
            "",
            Node,
        ),
        &["clusterEndpoint"],
    ),
    follows(
        row("securityGroup", "The security group; else named by the cluster's digits.", Text, LOOKED_UP, &[], "", Node),
        &["clusterId"],
    ),
    row("additionalTags", "Tags of every machine.", Map, OPERATOR, &["ADDITIONAL_TAGS"], "", Outside),
    row(
        "diskEncryptionSetId",
        "The keys of OS disks.",
        Text,
        OPERATOR,
        &["NODE_OSDISK_DISKENCRYPTIONSET_ID"],
        "",
        Node,
    ),
    row(
        "useSharedGallery",
        "Whether images come from a gallery of a subscription.",
        Bool,
        OPERATOR,
        &["USE_SIG"],
        "",
        Node,
    ),
    row(
        "gallerySubscriptionId",
        "The subscription of that gallery.",
        Text,
        OPERATOR,
        &["SIG_SUBSCRIPTION_ID"],
        "",
        Node,
    ),
    row("taints", "Taints that stay.", List, POOL, &[], "", Config("spec.kubelet.taints")),
    row("startupTaints", "Taints that go once the node is ready.", List, POOL, &[], "", Config("spec.kubelet.taints")),
    row("labels", "Labels of the nodes.", Map, POOL, &[], "", Config("spec.kubelet.labels")),
    row("nodePoolName", "The name of the pool.", Text, POOL, &[], "", Node),
    row("arch", "The processor.", Text, POOL, &[], "\"amd64\"", Node),
    row("vmSize", "The machine size.", Text, POOL, &[], "", Node),
    row("zone", "The zone.", Text, POOL, &[], "", Node),
    row("capacityType", "`on-demand` or `spot`.", Text, POOL, &[], "\"on-demand\"", Node),
    row("osDiskSizeGb", "The size of the OS disk.", Int, CLASS, &[], "128", Node),
    row(
        "imageFamily",
        "`Ubuntu`, `Ubuntu2204`, `Ubuntu2404`, `AzureLinux`, `Gallery` or `Prototype`.",
        Text,
        CLASS,
        &[],
        "\"Ubuntu\"",
        Node,
    ),
    row("imageId", "The image.", Text, IMAGE, &[], "", Node),
    row("fipsMode", "`FIPS` or `Disabled`.", Text, CLASS, &[], "\"Disabled\"", Node),
    row("tags", "Tags of the class's machines.", Map, CLASS, &[], "", Outside),
    row(
        "maxPods",
        "How many pods a node takes; else by the network.",
        Int,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row("gpuMode", "`Driver` or `None`.", Text, CLASS, &[], "\"Driver\"", Node),
    row("artifactStreaming", "Whether images are streamed.", Bool, CLASS, &[], "", Node),
    row(
        "localDnsMode",
        "Whether nodes have a DNS server of their own: `Preferred`, `Required` or `Disabled`.",
        Text,
        CLASS,
        &[],
        "\"Disabled\"",
        Node,
    ),
    row("encryptionAtHost", "Whether the host encrypts caches and temporary disks.", Bool, CLASS, &[], "", Node),
    row("trustedLaunch", "Whether the firmware measures what boots.", Bool, CLASS, &[], "", Node),
    row(
        "kubelet.cpuManagerPolicy",
        "How CPUs are given to containers.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.cpuCFSQuota",
        "Whether limits of CPU are enforced: `true`, `false`, or nothing for kubelet's own.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.cpuCFSQuotaPeriod",
        "The period of that limit.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.imageGCHighThresholdPercent",
        "The use of the disk at which images are removed.",
        Int,
        CLASS,
        &[],
        "85",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.imageGCLowThresholdPercent",
        "The use at which removal ends.",
        Int,
        CLASS,
        &[],
        "80",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.topologyManagerPolicy",
        "How containers are placed near their devices.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.allowedUnsafeSysctls",
        "Kernel settings that pods may set.",
        List,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.containerLogMaxSize",
        "The size at which logs are rotated.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.containerLogMaxFiles",
        "How many logs are kept; 0 for kubelet's own.",
        Int,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.podPidsLimit",
        "How many processes a pod may have; -1 for any.",
        Int,
        CLASS,
        &[],
        "-1",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "kubelet.failSwapOn",
        "Whether kubelet refuses to run with swap: `true`, `false`, or nothing for its own.",
        Text,
        CLASS,
        &[],
        "",
        Config("spec.kubelet.configuration"),
    ),
    row(
        "customCaCerts",
        "Certificates to trust besides the system's, base64 of PEM each.",
        List,
        SETTINGS,
        &[],
        "",
        Config("spec.os.certificateAuthorities"),
    ),
];

const LABEL_SOURCES: &[&str] = &[
    "labels",
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

/// What a variable follows from.
fn sources_of(field: nbv::Field) -> &'static [&'static str] {
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
        V::CustomCATrustConfigCerts | V::ShouldConfigureCustomCATrust => &["customCaCerts"],
        _ => &[],
    }
}

/// The field of the `NodeConfig` that carries a variable which somebody may choose.
fn carried_by(field: nbv::Field) -> Option<&'static str> {
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

fn effect_of_config(path: &str) -> Effect {
    let rows = kiln_api::reference::rows();
    rows.iter().find(|row| row.path == path).unwrap_or_else(|| panic!("NodeConfig has a field {path}")).effect
}

static TABLE: LazyLock<Vec<Field>> =
    LazyLock::new(|| INPUTS.iter().map(input).chain(nbv::Field::ALL.into_iter().map(variable)).collect());

fn input(row: &Row) -> Field {
    let default = match row.default {
        "" => row.form.empty(),
        json => serde_json::from_str(json).expect("the table holds JSON"),
    };
    let (effect, config) = match row.change {
        Config(path) => (effect_of_config(path), Some(path)),
        Outside => (Effect::None, None),
        Node => (Effect::Replace, None),
    };
    Field {
        name: row.name,
        doc: row.doc.to_owned(),
        form: row.form,
        kinds: row.kinds,
        default: row.from.is_empty().then_some((Hardcoded::Default, default)),
        reads: row.reads,
        secret: row.name == "bootstrapToken",
        effect,
        config,
        variable: None,
        from: row.from,
    }
}

fn variable(field: nbv::Field) -> Field {
    let from = sources_of(field);
    let form = match field.shape() {
        nbv::Shape::Text => Text,
        nbv::Shape::Bool => Bool,
        nbv::Shape::Int => Int,
        nbv::Shape::List => List,
    };
    let (kinds, why): (&'static [Kind], _) = match field.origin() {
        _ if !from.is_empty() => (&[], None),
        nbv::Origin::Unused => (&[], Some(Hardcoded::Unused)),
        nbv::Origin::Unsupported => (&[], Some(Hardcoded::Unsupported)),
        nbv::Origin::ClusterDefault => (SETTINGS, Some(Hardcoded::Default)),
        nbv::Origin::NodeClassDefault => (CLASS, Some(Hardcoded::Default)),
        nbv::Origin::Static | nbv::Origin::Given | nbv::Origin::Detected | nbv::Origin::Computed => {
            (&[], Some(Hardcoded::Static))
        }
    };
    let config = carried_by(field);
    Field {
        name: field.name(),
        doc: field.env().map_or_else(|| "Steers the script.".to_owned(), |env| format!("`{env}`")),
        form,
        kinds,
        default: why.map(|why| (why, form.read(field.default_text()).unwrap_or_else(|| form.empty()))),
        reads: &[],
        secret: field.is_secret(),
        effect: config.map_or(Effect::Replace, effect_of_config),
        config,
        variable: Some(field),
        from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_every_source_of_a_field_exists() {
        let names: BTreeSet<_> = Field::all().iter().map(|field| field.name).collect();
        assert_eq!(names.len(), Field::all().len());
        for field in Field::all() {
            for from in field.from {
                assert!(names.contains(from), "{} follows from {from}", field.name);
            }
            assert!(field.kinds.is_sorted(), "{}", field.name);
        }
    }

    #[test]
    fn every_default_has_the_form_of_its_field() {
        for field in Field::all() {
            if let Some((_, value)) = &field.default {
                assert!(field.form.admits(value), "{}: {value}", field.name);
            }
        }
    }

    #[test]
    fn a_text_is_read_by_the_form_of_its_field() {
        assert_eq!(List.read("a, b,,c"), Some(serde_json::json!(["a", "b", "c"])));
        assert_eq!(Map.read("a=1,b=x=y"), Some(serde_json::json!({"a": "1", "b": "x=y"})));
        assert_eq!(Map.read("a"), None);
        assert_eq!(Int.read("x"), None);
        assert_eq!(Bool.read("true"), Some(true.into()));
    }

    #[test]
    fn what_follows_from_a_field_is_found_through_others() {
        let dependents = Field::named("clusterEndpoint").unwrap().dependents();
        assert!(
            dependents.contains("RouteTable")
                && dependents.contains("NetworkSecurityGroup")
                && dependents.contains("APIServerName")
        );
    }
}
