//! One throw-away instance of an image version that nobody uses yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::image::DefinitionName;
use crate::name::PoolName;
use crate::pool::Tags;
use crate::version::VersionNumber;

/// The tag that marks a pool as a canary, with the tried pool as its value. A pool without it is never deleted.
pub const CANARY_TAG: &str = "kiln-canary-of";

const PREFIX: &str = "kiln-canary-";

/// A name or run that no canary can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` cannot name a canary: `{PREFIX}` and 1 to 32 letters or digits")]
pub struct BadCanary {
    /// The refused text.
    pub input: String,
}

/// The name of a canary. It is a type of its own so that no ordinary pool can be handed to what deletes canaries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "PoolName", into = "PoolName")]
pub struct CanaryName(PoolName);

impl CanaryName {
    /// The one canary of a run.
    pub fn of_run(run: &str) -> Result<Self, BadCanary> {
        let refused = || BadCanary { input: run.to_owned() };
        let name = format!("{PREFIX}{run}").parse::<PoolName>().map_err(|_| refused())?;
        Self::try_from(name).map_err(|_| refused())
    }

    /// The canary's pool, for reading its instance.
    pub fn pool(&self) -> &PoolName {
        &self.0
    }
}

impl TryFrom<PoolName> for CanaryName {
    type Error = BadCanary;

    fn try_from(name: PoolName) -> Result<Self, BadCanary> {
        let run = name.as_str().strip_prefix(PREFIX).unwrap_or_default();
        if (1..=32).contains(&run.len()) && run.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self(name))
        } else {
            Err(BadCanary { input: name.into() })
        }
    }
}

impl From<CanaryName> for PoolName {
    fn from(name: CanaryName) -> Self {
        name.0
    }
}

impl fmt::Display for CanaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A canary to be made: one instance of the pool's recipe, from exactly this version, joined to nothing that carries traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    pub name: CanaryName,
    /// The pool whose recipe is tried.
    pub pool: PoolName,
    /// The line of the version.
    pub line: DefinitionName,
    pub number: VersionNumber,
    /// The run's own tags.
    pub tags: Tags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_pool_is_no_canary() {
        let pool: PoolName = "k8s-agentpool1-26100436-vmss".parse().unwrap();
        assert!(CanaryName::try_from(pool).is_err());
        assert!(serde_json::from_str::<CanaryName>("\"k8s-pool\"").is_err());
        assert_eq!(CanaryName::of_run("r42").unwrap().to_string(), "kiln-canary-r42");
        assert!(CanaryName::of_run("").is_err());
        assert!(CanaryName::of_run("a-b").is_err());
    }
}
