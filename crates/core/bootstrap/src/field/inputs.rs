//! Inputs: the fields that sources set.

use kiln_node_config::Effect;

use super::class_inputs::CLASS_INPUTS;
use super::{Field, ValueType, effect_of_config};
use crate::provenance::{Hardcoded, SourceKind};

const OPERATOR: &[SourceKind] = &[SourceKind::Environment, SourceKind::Settings];
const FOUND: &[SourceKind] = &[SourceKind::Detected, SourceKind::Environment, SourceKind::Settings];
const LOOKED_UP: &[SourceKind] = &[SourceKind::Detected, SourceKind::Settings];
const SUBNET: &[SourceKind] =
    &[SourceKind::Detected, SourceKind::Environment, SourceKind::Settings, SourceKind::NodeClass];
const POOL: &[SourceKind] = &[SourceKind::NodePool];
const SETTINGS: &[SourceKind] = &[SourceKind::Settings];

pub(super) struct Row {
    name: &'static str,
    doc: &'static str,
    value_type: ValueType,
    kinds: &'static [SourceKind],
    reads: &'static [&'static str],
    default: &'static str,
    change: Change,
    from: &'static [&'static str],
}

/// How a changed input reaches a running node.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Through this field of the `NodeConfig`, with that field's effect.
    Config(&'static str),
    /// Through the cloud API; the node is not affected.
    Outside,
    /// Only by replacing the node.
    Node,
}

use Change::{Config, Node, Outside};

pub(super) const fn row(
    name: &'static str,
    doc: &'static str,
    value_type: ValueType,
    kinds: &'static [SourceKind],
    reads: &'static [&'static str],
    default: &'static str,
    change: Change,
) -> Row {
    Row { name, doc, value_type, kinds, reads, default, change, from: &[] }
}

const fn computed_from(mut row: Row, from: &'static [&'static str]) -> Row {
    row.from = from;
    row
}

use ValueType::{Bool, List, Map, Text};

/// Inputs of all sources but the node class. Defaults are JSON; an empty default is the empty value of the type.
const INPUTS: &[Row] = &[
    row("tenantId", "Microsoft Entra tenant ID.", Text, OPERATOR, &["AZURE_TENANT_ID", "ARM_TENANT_ID"], "", Node),
    row(
        "subscriptionId",
        "Azure subscription ID.",
        Text,
        OPERATOR,
        &["AZURE_SUBSCRIPTION_ID", "ARM_SUBSCRIPTION_ID"],
        "",
        Node,
    ),
    row("resourceGroup", "Resource group of the nodes.", Text, OPERATOR, &["AZURE_NODE_RESOURCE_GROUP"], "", Node),
    row("location", "Azure region.", Text, OPERATOR, &["LOCATION"], "", Node),
    row("clusterName", "Name of the cluster.", Text, OPERATOR, &["CLUSTER_NAME"], "", Config("spec.cluster.name")),
    row(
        "clusterEndpoint",
        "URL of the API server.",
        Text,
        FOUND,
        &["CLUSTER_ENDPOINT"],
        "",
        Config("spec.cluster.endpoint"),
    ),
    row("kubernetesVersion", "Kubernetes version.", Text, LOOKED_UP, &[], "", Config("spec.kubelet.version")),
    row(
        "caBundle",
        "Certificate authority of the API server, as base64-encoded PEM.",
        Text,
        LOOKED_UP,
        &[],
        "",
        Config("spec.cluster.certificateAuthority"),
    ),
    row(
        "bootstrapToken",
        "Bootstrap token that nodes join with.",
        Text,
        OPERATOR,
        &["KUBELET_BOOTSTRAP_TOKEN"],
        "",
        Config("spec.credentialFrom"),
    ),
    row(
        "credentialFrom",
        "Where a node gets its join credential: `attestedIdentity`, `customData` or `managedIdentity`.",
        Text,
        SETTINGS,
        &[],
        "\"customData\"",
        Config("spec.credentialFrom"),
    ),
    row(
        "kubeletIdentityClientId",
        "Client ID of the kubelet identity.",
        Text,
        FOUND,
        &["KUBELET_IDENTITY_CLIENT_ID"],
        "",
        Node,
    ),
    row(
        "nodeIdentities",
        "Resource IDs of the user-assigned identities of the machine.",
        List,
        FOUND,
        &["NODE_IDENTITIES"],
        "",
        Outside,
    ),
    row(
        "sshPublicKey",
        "SSH public key of the admin user.",
        Text,
        OPERATOR,
        &["SSH_PUBLIC_KEY"],
        "",
        Config("spec.platform.users"),
    ),
    row(
        "adminUsername",
        "Name of the admin user.",
        Text,
        OPERATOR,
        &["LINUX_ADMIN_USERNAME"],
        "\"azureuser\"",
        Config("spec.platform.users"),
    ),
    row(
        "networkPlugin",
        "Network plugin: `azure` or `none`.",
        Text,
        FOUND,
        &["NETWORK_PLUGIN"],
        "\"azure\"",
        Config("spec.network.plugin"),
    ),
    row(
        "networkPluginMode",
        "Network plugin mode: `overlay` or empty.",
        Text,
        FOUND,
        &["NETWORK_PLUGIN_MODE"],
        "\"overlay\"",
        Config("spec.network.mode"),
    ),
    row("networkPolicy", "Network policy engine.", Text, FOUND, &["NETWORK_POLICY"], "", Config("spec.network.policy")),
    row(
        "networkDataplane",
        "Network data plane: `cilium`, `azure` or empty.",
        Text,
        FOUND,
        &["NETWORK_DATAPLANE"],
        "\"cilium\"",
        Config("spec.network.dataplane"),
    ),
    row(
        "blockMetadata",
        "Blocks the metadata service for pods that do not use the host network.",
        Bool,
        SETTINGS,
        &[],
        "true",
        Config("spec.network.blockMetadata"),
    ),
    row(
        "blockWireServer",
        "Blocks TCP ports 80 and 32526 of the wire server for pods that do not use the host network.",
        Bool,
        SETTINGS,
        &[],
        "true",
        Config("spec.network.blockWireServer"),
    ),
    row(
        "dnsServiceIp",
        "IP address of the cluster DNS service.",
        Text,
        FOUND,
        &["DNS_SERVICE_IP"],
        "\"10.0.0.10\"",
        Config("spec.cluster.dns.serviceIps"),
    ),
    row("vnetSubnetId", "Resource ID of the subnet.", Text, SUBNET, &["VNET_SUBNET_ID"], "", Node),
    row("vnetGuid", "GUID of the virtual network.", Text, FOUND, &["VNET_GUID"], "", Config("spec.kubelet.labels")),
    computed_from(
        row(
            "clusterId",
            "Eight digits in the names of the cluster's network resources. If not set, they are derived from the API server's host name.",
            Text,
            LOOKED_UP,
            &[],
            "",
            Node,
        ),
        &["clusterEndpoint"],
    ),
    computed_from(
        row(
            "securityGroup",
            "Name of the network security group. If not set, it is derived from `clusterId`.",
            Text,
            LOOKED_UP,
            &[],
            "",
            Node,
        ),
        &["clusterId"],
    ),
    row("additionalTags", "Tags of all machines.", Map, OPERATOR, &["ADDITIONAL_TAGS"], "", Outside),
    row(
        "diskEncryptionSetId",
        "Resource ID of the disk encryption set for OS disks.",
        Text,
        OPERATOR,
        &["NODE_OSDISK_DISKENCRYPTIONSET_ID"],
        "",
        Node,
    ),
    row(
        "useSharedGallery",
        "Uses a shared image gallery instead of the community gallery.",
        Bool,
        OPERATOR,
        &["USE_SIG"],
        "",
        Node,
    ),
    row(
        "gallerySubscriptionId",
        "Subscription ID of the shared image gallery.",
        Text,
        OPERATOR,
        &["SIG_SUBSCRIPTION_ID"],
        "",
        Node,
    ),
    row("taints", "Taints of the nodes.", List, POOL, &[], "", Config("spec.kubelet.taints")),
    row(
        "startupTaints",
        "Taints that are removed once the node is ready.",
        List,
        POOL,
        &[],
        "",
        Config("spec.kubelet.taints"),
    ),
    row("labels", "Labels of the nodes.", Map, POOL, &[], "", Config("spec.kubelet.labels")),
    row(
        "requirementLabels",
        "Labels from requirements that allow exactly one value, other than architecture, size, zone and capacity type.",
        Map,
        POOL,
        &[],
        "",
        Config("spec.kubelet.labels"),
    ),
    row("nodePoolName", "Name of the NodePool.", Text, POOL, &[], "", Node),
    row("arch", "CPU architecture: `amd64` or `arm64`.", Text, POOL, &[], "\"amd64\"", Node),
    row("vmSize", "VM size.", Text, POOL, &[], "", Node),
    row("zone", "Availability zone.", Text, POOL, &[], "", Node),
    row("capacityType", "Capacity type: `on-demand` or `spot`.", Text, POOL, &[], "\"on-demand\"", Node),
    row(
        "customCaCerts",
        "Additional certificate authorities to trust, each as base64-encoded PEM.",
        List,
        SETTINGS,
        &[],
        "",
        Config("spec.os.certificateAuthorities"),
    ),
];

/// Returns all inputs.
pub(super) fn inputs() -> impl Iterator<Item = Field> {
    INPUTS.iter().chain(CLASS_INPUTS).map(input)
}

fn input(row: &Row) -> Field {
    let default = match row.default {
        "" => row.value_type.empty(),
        json => serde_json::from_str(json).expect("defaults in the table are valid JSON"),
    };
    let (effect, config) = match row.change {
        Config(path) => (effect_of_config(path), Some(path)),
        Outside => (Effect::None, None),
        Node => (Effect::Replace, None),
    };
    Field {
        name: row.name,
        doc: row.doc.to_owned(),
        value_type: row.value_type,
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
