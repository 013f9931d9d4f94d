//! Bootstrappers: the ways in which custom data can start a node.

use kiln_aks_formats::{Secret, to_base64};

use crate::derive::DeriveError;
use crate::provenance::{ErrorPosition, SourcePosition};
use crate::render::{self, Target};
use crate::resolve::Resolved;

/// Error of rendering a target.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Derive(#[from] DeriveError),
    #[error(transparent)]
    Check(#[from] crate::check::InvalidValues),
    #[error(transparent)]
    Script(#[from] kiln_aks_formats::nbv::ScriptError),
    #[error(transparent)]
    Parts(#[from] kiln_aks_formats::cloud_config::PartError),
    #[error("the rendered NodeConfig is invalid: {0}")]
    Config(#[from] kiln_node_config::Invalid),
    /// An explicitly set secret would be written to a target that must not contain secrets.
    #[error(
        "{}: `{field}` is a secret and {target} must not contain secrets; choose another target or remove the value",
        ErrorPosition(position)
    )]
    Secret { field: String, position: SourcePosition, target: &'static str },
    /// An explicitly set value would be lost, because the target has no field for it.
    #[error("{}: {target} cannot contain `{field}`", ErrorPosition(position))]
    NotRepresentable { field: &'static str, position: SourcePosition, target: &'static str },
    #[error("sysctls: {0}")]
    Sysctl(#[from] kiln_aks_formats::anc::BadSysctl),
    #[error("cannot render {target} from {from}; {instead}")]
    Target {
        target: &'static str,
        from: &'static str,
        /// Advice on what to do instead.
        instead: &'static str,
    },
    /// The value is not shown, because it may be a secret in the wrong field.
    #[error("{field}: expected a URL such as `http://proxy.example:3128`")]
    Proxy { field: &'static str },
    #[error("{field}: expected base64-encoded PEM")]
    Certificate { field: &'static str },
}

/// Turns inputs into the custom data that a machine reads at its first boot.
pub trait Bootstrapper {
    /// Returns the name of the bootstrapper.
    fn name(&self) -> &'static str;
    /// Returns the custom data in base64. It may contain secrets.
    fn custom_data(&self, inputs: &Resolved) -> Result<Secret, RenderError>;
}

/// Node Bootstrapping Variables, for AKS node images.
#[derive(Clone, Copy, Debug, Default)]
pub struct AksVariables;

impl Bootstrapper for AksVariables {
    fn name(&self) -> &'static str {
        "aks-variables"
    }

    fn custom_data(&self, inputs: &Resolved) -> Result<Secret, RenderError> {
        render::render(inputs, Target::CustomData)
    }
}

/// A `NodeConfig` and the bootstrap token, for images with kilnd.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kilnd;

impl Bootstrapper for Kilnd {
    fn name(&self) -> &'static str {
        "kilnd"
    }

    fn custom_data(&self, inputs: &Resolved) -> Result<Secret, RenderError> {
        render::render(inputs, Target::NodeConfigCustomData)
    }
}

/// `kubeadm join`, for any image with kubeadm.
#[derive(Clone, Copy, Debug, Default)]
pub struct KubeadmJoin;

impl Bootstrapper for KubeadmJoin {
    fn name(&self) -> &'static str {
        "kubeadm-join"
    }

    fn custom_data(&self, inputs: &Resolved) -> Result<Secret, RenderError> {
        inputs.check()?;
        Ok(Secret::new(to_base64(render::kubeadm_cloud_config(inputs)?.expose())))
    }
}
