//! Rendering: each target is a pure function of the inputs, so the same inputs always give the same bytes.

mod aks_node_config;
mod from_aks;
mod input;
mod kubeadm;
mod node_config;
mod node_config_message;

use std::collections::BTreeMap;

use kiln_aks_formats::{Secret, cloud_config};

pub use aks_node_config::{aks_node_config, aks_node_config_from_values};
pub use from_aks::node_config_from_aks;
pub use input::RenderInput;
pub use kubeadm::kubeadm_cloud_config;
pub use node_config::node_config;
use node_config_message::node_config_message;

use crate::bootstrapper::RenderError;
use crate::drift::Record;
use crate::resolve::Resolved;

/// Output format of a render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A `NodeConfig`. It contains no secrets.
    NodeConfig,
    /// A `NodeConfig` as custom data, together with the bootstrap token.
    NodeConfigCustomData,
    /// Shell script of the Node Bootstrapping Variables.
    NbvScript,
    AksNodeConfig,
    /// Node Bootstrapping Variables as a JSON map.
    Env,
    /// [`Target::NbvScript`] as custom data.
    CustomData,
    /// [`Target::AksNodeConfig`] as custom data.
    AksNodeConfigCustomData,
    /// `kubeadm join` as a cloud-config.
    Kubeadm,
    /// The values a node is created from, for a later drift check. It contains no secrets.
    Record,
}

impl Target {
    /// All targets in the order in which help texts list them.
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

    /// Returns the name of the target on the command line.
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

    /// Whether the output is custom data as Azure expects it: base64 on one line.
    pub fn is_base64(self) -> bool {
        matches!(self, Self::NodeConfigCustomData | Self::CustomData | Self::AksNodeConfigCustomData)
    }

    /// Whether the output is not JSON.
    pub fn is_text(self) -> bool {
        self.is_base64() || matches!(self, Self::NbvScript | Self::Kubeadm)
    }

    /// Whether the output may contain secrets and must not be readable by others.
    pub fn may_contain_secrets(self) -> bool {
        !matches!(self, Self::NodeConfig | Self::Record)
    }
}

/// Renders a target. The output is secret unless the target contains no secrets.
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
            Secret::new(serde_json::to_string_pretty(&Record::from_inputs(inputs)?).expect("a record is JSON") + "\n")
        }
    })
}

/// Renders environment variables as a JSON object.
pub fn environment(variables: &BTreeMap<String, String>) -> Secret {
    Secret::new(serde_json::to_string_pretty(variables).expect("string keys and values") + "\n")
}
