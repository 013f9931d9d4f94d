//! What inputs become: each target is a function of them, and the same inputs give the same bytes.

mod aks_node_config;
mod from_aks;
mod kubeadm;
mod material;
mod node_config;
mod node_config_message;

use std::collections::BTreeMap;

use kiln_aks_formats::{Secret, cloud_config};

pub use aks_node_config::{aks_node_config, aks_node_config_from_values};
pub use from_aks::node_config_from_aks;
pub use kubeadm::kubeadm_cloud_config;
pub use material::Material;
pub use node_config::node_config;
use node_config_message::node_config_message;

use crate::bootstrapper::RenderError;
use crate::drift::Record;
use crate::resolve::Resolved;

/// Something to render to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// kiln's own document. It holds no secret.
    NodeConfig,
    /// kiln's own document as custom data, with the token beside it.
    NodeConfigCustomData,
    /// The script of the Node Bootstrapping Variables.
    NbvScript,
    /// The configuration of AKS's node controller.
    AksNodeConfig,
    /// The variables, name to text.
    Env,
    /// The script as custom data.
    CustomData,
    /// The node controller's configuration as custom data.
    AksNodeConfigCustomData,
    /// `kubeadm join` as a cloud-config.
    Kubeadm,
    /// What a node is made of, to ask for drift later. It holds no secret.
    Record,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 9] = [
        Self::NodeConfig,
        Self::NodeConfigCustomData,
        Self::NbvScript,
        Self::AksNodeConfig,
        Self::Env,
        Self::CustomData,
        Self::AksNodeConfigCustomData,
        Self::Kubeadm,
        Self::Record,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodeConfig => "node-config",
            Self::NodeConfigCustomData => "node-config-custom-data",
            Self::NbvScript => "nbv-script",
            Self::AksNodeConfig => "aks-node-config",
            Self::Env => "env",
            Self::CustomData => "custom-data",
            Self::AksNodeConfigCustomData => "aks-node-config-custom-data",
            Self::Kubeadm => "kubeadm",
            Self::Record => "record",
        }
    }

    /// Whether what is rendered is custom data as Azure takes it, on one line.
    pub fn is_base64(self) -> bool {
        matches!(self, Self::NodeConfigCustomData | Self::CustomData | Self::AksNodeConfigCustomData)
    }

    /// Whether what is rendered is no JSON.
    pub fn is_text(self) -> bool {
        self.is_base64() || matches!(self, Self::NbvScript | Self::Kubeadm)
    }

    /// Whether what is rendered may hold secrets, and so must not be stored where others read.
    pub fn may_hold_secrets(self) -> bool {
        !matches!(self, Self::NodeConfig | Self::Record)
    }
}

/// Renders. What comes out is a secret unless the target holds none.
pub fn render(inputs: &Resolved, target: Target) -> Result<Secret, RenderError> {
    inputs.check()?;
    Ok(match target {
        Target::NodeConfig => Secret::new(node_config(inputs, 1)?.to_json() + "\n"),
        Target::NodeConfigCustomData => {
            node_config_message(&node_config(inputs, 1)?, &Secret::new(inputs.text("bootstrapToken")))?
        }
        Target::NbvScript => inputs.variables()?.script()?,
        Target::AksNodeConfig => Secret::new(aks_node_config(inputs)?.to_json().expose().to_owned() + "\n"),
        Target::Env => environment(&inputs.variables()?.environment()),
        Target::CustomData => inputs.variables()?.custom_data()?,
        Target::AksNodeConfigCustomData => {
            cloud_config::node_controller(&aks_node_config(inputs)?.to_json(), &BTreeMap::new())?
        }
        Target::Kubeadm => kubeadm_cloud_config(inputs)?,
        Target::Record => {
            Secret::new(serde_json::to_string_pretty(&Record::of(inputs)?).expect("texts for names") + "\n")
        }
    })
}

/// One JSON object, name to text.
pub fn environment(variables: &BTreeMap<String, String>) -> Secret {
    Secret::new(serde_json::to_string_pretty(variables).expect("names and texts") + "\n")
}
