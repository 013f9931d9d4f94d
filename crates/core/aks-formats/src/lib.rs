//! Formats of other projects, byte-exact: Node Bootstrapping Variables ([`nbv`]), `AKSNodeConfig` ([`anc`]), Karpenter objects
//! ([`karpenter`]), and the Go behaviour they depend on ([`go`]).

pub mod anc;
pub mod arch;
pub mod cloud_config;
pub mod containerd;
pub mod go;
pub mod gpu;
pub mod hydrate;
pub mod image;
pub mod karpenter;
pub mod names;
pub mod nbv;
pub mod shell;
pub mod sysctl;
pub mod toml;
mod version;

pub use arch::Arch;
pub use kiln_types::Secret;
pub use version::{BadVersion, KubernetesVersion};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encodes standard base64 with padding, which all of these formats use.
pub fn to_base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Decodes standard base64.
pub fn from_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}
