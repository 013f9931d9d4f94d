//! Ways for a node to start.

use kiln_aks_formats::{Secret, to_base64};

use crate::derive::DeriveError;
use crate::kind::{Place, Pointed};
use crate::render::{self, Target};
use crate::resolve::Resolved;

/// What cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The inputs make no node.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// Values that cannot be.
    #[error(transparent)]
    Check(#[from] crate::check::Problems),
    /// A value that no script can set.
    #[error(transparent)]
    Script(#[from] kiln_aks_formats::nbv::ScriptError),
    /// The parts make no message.
    #[error(transparent)]
    Parts(#[from] kiln_aks_formats::cloud_config::PartError),
    /// The document cannot be.
    #[error("the NodeConfig of these inputs cannot be: {0}")]
    Config(#[from] kiln_node_config::Invalid),
    /// A secret that somebody chose would go where none may be.
    #[error(
        "{}: `{field}` is a secret, and {target} may hold none: use a target that may, or leave it out",
        Pointed(place)
    )]
    Secret {
        field: String,
        /// Where it stands.
        place: Place,
        target: &'static str,
    },
    /// The target has no place for what was asked for, and must not lose it without a word.
    #[error("{}: {target} has no place for `{field}`", Pointed(place))]
    NotCarried {
        field: &'static str,
        /// Where it stands.
        place: Place,
        target: &'static str,
    },
    /// A kernel setting that the target has no field for.
    #[error("sysctls: {0}")]
    Sysctl(#[from] kiln_aks_formats::anc::BadSysctl),
    /// The target cannot be made of this.
    #[error("{target} is not made of {from}: {instead}")]
    Target {
        target: &'static str,
        /// What there is.
        from: &'static str,
        /// What would do.
        instead: &'static str,
    },
    /// A proxy that is no URL. It may be a secret in the wrong place.
    #[error("{field}: a proxy is a URL, `http://proxy.example:3128`")]
    Proxy { field: &'static str },
    /// A value that is no base64 of a text.
    #[error("{field}: base64 of PEM is needed")]
    Certificate { field: &'static str },
}

/// Turns inputs into what a machine reads at its first boot.
pub trait Bootstrapper {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Custom data, base64. It may hold secrets.
    fn custom_data(&self, inputs: &Resolved) -> Result<Secret, RenderError>;
}

/// By the Node Bootstrapping Variables: for images of AKS.
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

/// By kiln's own document, with the token beside it: for images with kilnd.
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

/// By `kubeadm join`: for any image with kubeadm.
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
