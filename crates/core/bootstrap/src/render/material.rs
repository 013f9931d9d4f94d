//! What there is to render from: layers, inputs that were resolved elsewhere, or another program's document.

use std::collections::BTreeMap;

use kiln_aks_formats::anc::{Configuration, Host};
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::{Secret, cloud_config};

use super::{Target, aks_node_config_from_values, environment, node_config_from_aks, node_config_message, render};
use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;
use crate::resolve::Resolved;

/// What there is to render from.
#[derive(Clone, Debug)]
pub enum Material {
    /// Layers, resolved.
    Layers(Box<Resolved>),
    /// A flat document of inputs that were resolved elsewhere.
    Values(Box<Inputs>),
    /// The configuration of AKS's node controller, and what the node would say of itself.
    NodeController(Box<Configuration>, Host),
}

/// Only layers know what these need.
const NEEDS_LAYERS: &str = "give --settings, --node-pool and --node-class";

impl Material {
    /// Renders; the same material gives the same bytes.
    pub fn render(&self, target: Target) -> Result<Secret, RenderError> {
        match self {
            Self::Layers(inputs) => render(inputs, target),
            Self::Values(inputs) => values(inputs, target),
            Self::NodeController(config, host) => node_controller(config, host, target),
        }
    }

    /// The environment, name to text.
    pub fn environment(&self) -> Result<BTreeMap<String, String>, RenderError> {
        Ok(match self {
            Self::Layers(inputs) => {
                inputs.check()?;
                inputs.variables()?.environment()
            }
            Self::Values(inputs) => inputs.variables().map_err(DeriveError::from)?.environment(),
            Self::NodeController(config, host) => config.environment(host),
        })
    }
}

fn values(inputs: &Inputs, target: Target) -> Result<Secret, RenderError> {
    let variables = inputs.variables().map_err(DeriveError::from)?;
    Ok(match target {
        Target::NodeConfig => {
            Secret::new(node_config_from_aks(&aks_node_config_from_values(inputs)?, 1)?.to_json() + "\n")
        }
        Target::NodeConfigCustomData => from_aks_message(&aks_node_config_from_values(inputs)?)?,
        Target::NbvScript => variables.script()?,
        Target::AksNodeConfig => written(&aks_node_config_from_values(inputs)?),
        Target::Env => environment(&variables.environment()),
        Target::CustomData => variables.custom_data()?,
        Target::AksNodeConfigCustomData => {
            cloud_config::node_controller(&aks_node_config_from_values(inputs)?.to_json(), &BTreeMap::new())?
        }
        Target::Kubeadm | Target::Record => {
            return Err(RenderError::Target { target: target.as_str(), from: "values", instead: NEEDS_LAYERS });
        }
    })
}

fn node_controller(config: &Configuration, host: &Host, target: Target) -> Result<Secret, RenderError> {
    let refused = |instead| RenderError::Target { target: target.as_str(), from: "an AKSNodeConfig", instead };
    Ok(match target {
        Target::NodeConfig => Secret::new(node_config_from_aks(config, 1)?.to_json() + "\n"),
        Target::NodeConfigCustomData => from_aks_message(config)?,
        Target::AksNodeConfig => written(config),
        Target::Env => environment(&config.environment(host)),
        // The script has no place for two thirds of what the document can say.
        Target::NbvScript => return Err(refused("render it to custom-data, which starts the node controller with it")),
        Target::CustomData | Target::AksNodeConfigCustomData => {
            cloud_config::node_controller(&config.to_json(), &BTreeMap::new())?
        }
        Target::Kubeadm | Target::Record => return Err(refused(NEEDS_LAYERS)),
    })
}

fn from_aks_message(config: &Configuration) -> Result<Secret, RenderError> {
    let token = config.bootstrapping_config.as_ref().and_then(|join| join.tls_bootstrapping_token.clone());
    node_config_message(&node_config_from_aks(config, 1)?, &token.unwrap_or_default())
}

fn written(config: &Configuration) -> Secret {
    Secret::new(config.to_json().expose().to_owned() + "\n")
}
