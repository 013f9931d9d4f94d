//! Other people's formats, byte-exact: the Node Bootstrapping Variables, `AKSNodeConfig`, Karpenter's objects, and the arithmetic of
//! Go that they lean on. Values in, values out.

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
mod version;

pub use arch::Arch;
pub use kiln_types::Secret;
pub use version::{BadVersion, KubernetesVersion};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Standard base64 with padding, as every one of these formats has it.
pub fn to_base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The bytes behind standard base64.
pub fn from_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}
