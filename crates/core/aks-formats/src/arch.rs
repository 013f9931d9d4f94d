//! CPU architectures of nodes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A CPU architecture, by its Kubernetes name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    #[default]
    Amd64,
    Arm64,
}

impl Arch {
    /// Returns the Kubernetes name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An architecture that kiln does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported architecture `{0}`; expected `amd64` or `arm64`")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        match text {
            "amd64" => Ok(Self::Amd64),
            "arm64" => Ok(Self::Arm64),
            other => Err(UnknownArch(other.to_owned())),
        }
    }
}
