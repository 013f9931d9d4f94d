//! What sources set.

use kiln_node_config::Effect;

use super::class_inputs::CLASS_INPUTS;
use super::{Field, Form, effect_of_config};
use crate::kind::{Hardcoded, Kind};

const OPERATOR: &[Kind] = &[Kind::Environment, Kind::Settings];
const FOUND: &[Kind] = &[Kind::Detected, Kind::Environment, Kind::Settings];
const LOOKED_UP: &[Kind] = &[Kind::Detected, Kind::Settings];
const SUBNET: &[Kind] = &[Kind::Detected, Kind::Environment, Kind::Settings, Kind::NodeClass];
const POOL: &[Kind] = &[Kind::NodePool];
const SETTINGS: &[Kind] = &[Kind::Settings];

pub(super) struct Row {
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
pub(super) enum Change {
    /// What the field of the `NodeConfig` says.
    Config(&'static str),
    /// The machine is changed from outside; the node does not notice.
    Outside,
    /// Nothing can change it on a running node.
    Node,
}

use Change::{Config, Node, Outside};

pub(super) const fn row(
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

use Form::{Bool, List, Map, Text};

/// What sources set. The default is JSON; an empty one is the empty value of the form.
const INPUTS: &[Row] = &[
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
        "Where a node finds its credential itself: `attestedIdentity`, `customData`, `managedIdentity`.",
        Text,
        SETTINGS,
        &[],
        "\"customData\"",
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
    row(
        "requirementLabels",
        "Labels that the pool's requirements settle, besides processor, size, zone and capacity.",
        Map,
        POOL,
        &[],
        "",
        Config("spec.kubelet.labels"),
    ),
    row("nodePoolName", "The name of the pool.", Text, POOL, &[], "", Node),
    row("arch", "The processor.", Text, POOL, &[], "\"amd64\"", Node),
    row("vmSize", "The machine size.", Text, POOL, &[], "", Node),
    row("zone", "The zone.", Text, POOL, &[], "", Node),
    row("capacityType", "`on-demand` or `spot`.", Text, POOL, &[], "\"on-demand\"", Node),
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

/// All inputs.
pub(super) fn inputs() -> impl Iterator<Item = Field> {
    INPUTS.iter().chain(CLASS_INPUTS).map(input)
}

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
