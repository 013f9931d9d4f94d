//! Inputs of a render: resolved sources, values that were resolved elsewhere, or an `AKSNodeConfig`.

use std::collections::BTreeMap;

use kiln_aks_formats::anc::{Configuration, Host};
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::{Secret, cloud_config};

use super::{Target, aks_node_config_from_values, environment, node_config_from_aks, node_config_message, render};
use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;
use crate::resolve::Resolved;

/// Input of a render.
#[derive(Clone, Debug)]
pub enum RenderInput {
    Sources(Box<Resolved>),
    /// Inputs that were resolved elsewhere.
    Values(Box<Inputs>),
    /// An `AKSNodeConfig`, and the host facts that its environment depends on.
    AksNodeConfig(Box<Configuration>, Host),
}

/// Advice for targets that need values which only sources have.
const NEEDS_SOURCES: &str = "use `--settings`, `--node-pool` and `--node-class` instead";

impl RenderInput {
    /// Renders a target. The same input gives the same bytes.
    pub fn render(&self, target: Target) -> Result<Secret, RenderError> {
        match self {
            Self::Sources(inputs) => render(inputs, target),
            Self::Values(inputs) => values(inputs, target),
            Self::AksNodeConfig(config, host) => node_controller(config, host, target),
        }
    }

    /// Returns the environment variables.
    pub fn environment(&self) -> Result<BTreeMap<String, String>, RenderError> {
        Ok(match self {
            Self::Sources(inputs) => {
                inputs.check()?;
                inputs.variables()?.environment()
            }
            Self::Values(inputs) => inputs.variables().map_err(DeriveError::from)?.environment(),
            Self::AksNodeConfig(config, host) => config.environment(host),
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
        Target::AksNodeConfig => json(&aks_node_config_from_values(inputs)?),
        Target::Env => environment(&variables.environment()),
        Target::CustomData => variables.custom_data()?,
        Target::AksNodeConfigCustomData => {
            cloud_config::node_controller(&aks_node_config_from_values(inputs)?.to_json(), &BTreeMap::new())?
        }
        Target::Kubeadm | Target::Record => {
            return Err(RenderError::Target { target: target.as_str(), from: "values", instead: NEEDS_SOURCES });
        }
    })
}

fn node_controller(config: &Configuration, host: &Host, target: Target) -> Result<Secret, RenderError> {
    let unsupported = |instead| RenderError::Target { target: target.as_str(), from: "an AKSNodeConfig", instead };
    Ok(match target {
        Target::NodeConfig => Secret::new(node_config_from_aks(config, 1)?.to_json() + "\n"),
        Target::NodeConfigCustomData => from_aks_message(config)?,
        Target::AksNodeConfig => json(config),
        Target::Env => environment(&config.environment(host)),
        // The variables cannot express two thirds of the fields of an AKSNodeConfig.
        Target::NbvScript => {
            return Err(unsupported("render `custom-data`, which passes it to the AKS node controller"));
        }
        Target::CustomData | Target::AksNodeConfigCustomData => {
            cloud_config::node_controller(&config.to_json(), &BTreeMap::new())?
        }
        Target::Kubeadm | Target::Record => return Err(unsupported(NEEDS_SOURCES)),
    })
}

fn from_aks_message(config: &Configuration) -> Result<Secret, RenderError> {
    let token = config.bootstrapping_config.as_ref().and_then(|join| join.tls_bootstrapping_token.clone());
    node_config_message(&node_config_from_aks(config, 1)?, &token.unwrap_or_default())
}

fn json(config: &Configuration) -> Secret {
    Secret::new(config.to_json().expose().to_owned() + "\n")
}
