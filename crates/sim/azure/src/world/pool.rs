//! A pool in the world file: its scale set, and the disk contents of its instances.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::contents_spec::{ContentsSpec, Updates};
use super::packages;

/// A scale set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSpec {
    /// Name of the scale set. Its node names append six characters of base 36.
    pub name: String,
    /// The number of instances.
    #[serde(default = "one")]
    pub capacity: u32,
    #[serde(default = "default_size")]
    pub size: String,
    /// `Manual`, `Automatic` or `Rolling`.
    #[serde(default = "manual")]
    pub upgrade_policy: String,
    /// Image reference as in ARM.
    #[serde(default = "default_image")]
    pub image: Value,
    /// Custom data as text.
    #[serde(default)]
    pub custom_data: Option<String>,
    /// User data as text.
    #[serde(default)]
    pub user_data: Option<String>,
    #[serde(default)]
    pub extensions: Vec<ExtensionSpec>,
    /// Labels of its nodes in addition to the common ones.
    #[serde(default)]
    pub node_labels: BTreeMap<String, String>,
    /// Taints of its nodes at registration.
    #[serde(default)]
    pub node_taints: Vec<Taint>,
    /// Disk contents after the first boot, where they differ from the default.
    #[serde(default)]
    pub contents: ContentsSpec,
    /// Changes to single instances, by instance number.
    #[serde(default)]
    pub instances: BTreeMap<u32, ContentsSpec>,
    /// The available package updates.
    #[serde(default)]
    pub updates: Updates,
    /// Images that its pods use.
    #[serde(default)]
    pub images: Vec<String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Other `properties` of the scale set, merged over the rest.
    #[serde(default)]
    pub properties: Map<String, Value>,
}

/// An extension in the model of a scale set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtensionSpec {
    pub name: String,
    /// Publisher, such as `Microsoft.Azure.Extensions`.
    pub publisher: String,
    /// Type, such as `CustomScript`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the handler.
    #[serde(default = "default_handler")]
    pub version: String,
    #[serde(default)]
    pub settings: Map<String, Value>,
    #[serde(default)]
    pub protected_settings: Map<String, Value>,
}

/// Where the machines of a pool find their NodeConfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentSource {
    CustomData,
    UserData,
}

/// Whether a document is a NodeConfig.
pub(crate) fn is_node_config(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|document| document["kind"] == "NodeConfig")
}

/// A taint in the format of the kubelet's flag: `key=value:Effect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Taint {
    pub key: String,
    /// May be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl FromStr for Taint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is not a taint; expected the form `dedicated=gpu:NoSchedule`");
        let (pair, effect) = text.rsplit_once(':').ok_or_else(error)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(error());
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    }
}

impl TryFrom<String> for Taint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Taint> for String {
    fn from(taint: Taint) -> Self {
        format!("{}={}:{}", taint.key, taint.value, taint.effect)
    }
}

fn one() -> u32 {
    1
}
fn default_size() -> String {
    "Standard_D2s_v3".to_owned()
}
fn manual() -> String {
    "Manual".to_owned()
}
fn default_handler() -> String {
    "2.0".to_owned()
}
fn default_image() -> Value {
    json!({"publisher": "Canonical", "offer": "UbuntuServer", "sku": "18.04-LTS", "version": "latest"})
}

pub(super) fn default_pool() -> PoolSpec {
    let extension = |name: &str, publisher: &str, kind: &str| ExtensionSpec {
        name: name.to_owned(),
        publisher: publisher.to_owned(),
        kind: kind.to_owned(),
        version: default_handler(),
        settings: Map::new(),
        protected_settings: Map::new(),
    };
    let mut script = extension("vmssCSE", "Microsoft.Azure.Extensions", "CustomScript");
    script.protected_settings.insert("commandToExecute".to_owned(), json!("/opt/azure/containers/provision.sh"));
    PoolSpec {
        capacity: 10,
        custom_data: Some(
            "#cloud-config\nwrite_files:\n- path: /opt/azure/containers/provision.sh\n  content: exit 0\n".to_owned(),
        ),
        extensions: vec![script, extension("computeAksLinuxBilling", "Microsoft.AKS", "Compute.AKS.Linux.Billing")],
        contents: ContentsSpec {
            cached_images: Some(["kube-proxy:v1.33.0", "pause:3.9"].map(str::to_owned).into()),
            ..ContentsSpec::default()
        },
        // The walkthrough's donor is the only patched node.
        instances: BTreeMap::from([(0, ContentsSpec { patched: true, ..ContentsSpec::default() })]),
        updates: packages::updates(),
        images: packages::images(),
        tags: BTreeMap::from([
            ("creationSource".to_owned(), "aksengine-k8s-agentpool1".to_owned()),
            ("poolName".to_owned(), "agentpool1".to_owned()),
        ]),
        ..PoolSpec::named("k8s-agentpool1-26100436-vmss")
    }
}

impl PoolSpec {
    /// A pool with default values.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            capacity: one(),
            size: default_size(),
            upgrade_policy: manual(),
            image: default_image(),
            custom_data: None,
            user_data: None,
            extensions: Vec::new(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            contents: ContentsSpec::default(),
            instances: BTreeMap::new(),
            updates: Updates::default(),
            images: Vec::new(),
            tags: BTreeMap::new(),
            properties: Map::new(),
        }
    }

    /// Where its machines find their NodeConfig at their first boot, also as clones. `None` if they need none.
    pub(crate) fn document(&self) -> Option<DocumentSource> {
        let in_custom_data = self.custom_data.as_deref().is_some_and(is_node_config);
        let in_user_data = self.user_data.is_some().then_some(DocumentSource::UserData);
        in_custom_data.then_some(DocumentSource::CustomData).or(in_user_data)
    }

    /// Whether custom data, user data or a script turns its machines into nodes. Without any the image joins by itself.
    pub(crate) fn has_recipe(&self) -> bool {
        self.custom_data.is_some()
            || self.user_data.is_some()
            || self.extensions.iter().any(|extension| extension.kind.to_ascii_lowercase().contains("customscript"))
    }

    /// Validates the pool.
    pub(super) fn check(&self) -> Result<(), String> {
        let name_fits = (1..=64).contains(&self.name.len())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && self.name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !name_fits {
            return Err(format!(
                ".name: `{}` must have 1 to 64 letters, digits, `-` or `_`, and start with a letter or digit",
                self.name
            ));
        }
        if self.capacity > 1_000 {
            return Err(format!(".capacity: {} exceeds the limit of 1000 instances per scale set", self.capacity));
        }
        if let Some(number) = self.instances.keys().find(|number| **number >= self.capacity) {
            return Err(format!(
                ".instances: instance {number} does not exist; instances are numbered from 0 to `capacity` - 1"
            ));
        }
        if !["Manual", "Automatic", "Rolling"].contains(&self.upgrade_policy.as_str()) {
            return Err(format!(
                ".upgradePolicy: unknown policy `{}`; expected `Manual`, `Automatic` or `Rolling`",
                self.upgrade_policy
            ));
        }
        Ok(())
    }
}
