//! Errors in the login configuration. All but [`LoginError::Discovery`] are detected before the first request.

use std::fmt;
use std::path::PathBuf;

use super::cloud::BadCloud;
use super::environment::Environment;

/// A position in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    /// In bytes.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// An error in the login configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{position}: `{field}`: {problem}", path.display())]
    Field { path: PathBuf, position: Position, field: String, problem: String },
    #[error("environment variable `{name}`: {problem}")]
    Variable { name: &'static str, problem: String },
    #[error(transparent)]
    Cloud(#[from] BadCloud),
    #[error("cannot log in with {identity}: {problem}")]
    Credential { identity: &'static str, problem: String },
    #[error("cannot discover the endpoints of `{url}`: {problem}")]
    Discovery { url: String, problem: String },
}

impl LoginError {
    /// Returns the command or setting that helps, for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Variable { name, .. } => Some(format!(
                "set `{name}`, or unset `{}` and `{}` to use the login of `az login`",
                Environment::CLIENT_SECRET,
                Environment::FEDERATED_TOKEN_FILE
            )),
            Self::Cloud(BadCloud::Name(_)) => {
                Some("for a custom cloud use `AzureStackCloud` with an `azurestackcloud.json`".to_owned())
            }
            Self::Discovery { .. } => Some("check `KILN_ARM_ENDPOINT` and `KILN_CA_FILE`".to_owned()),
            Self::Cloud(_) | Self::Read { .. } | Self::Field { .. } | Self::Credential { .. } => None,
        }
    }
}
