//! Canaries: a temporary scale set with one instance of an image version that is not in use yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::image::DefinitionName;
use crate::name::{BadName, PoolName};
use crate::secret::Secret;
use crate::tags::Tags;
use crate::version::VersionNumber;

const PREFIX: &str = "kiln-canary-";

fn bad(input: String) -> BadName {
    BadName { noun: "canary name", input, rule: "`kiln-canary-` followed by 1 to 32 letters or digits" }
}

/// The name of a canary's scale set. It is a separate type so that an ordinary pool cannot be passed to the function that deletes
/// canaries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "PoolName", into = "PoolName")]
pub struct CanaryName(PoolName);

impl CanaryName {
    /// The canary of a run. A run has at most one.
    pub fn from_run(run: &str) -> Result<Self, BadName> {
        Self::try_from(format!("{PREFIX}{run}").parse::<PoolName>()?)
    }

    /// The canary's scale set, for reading its instance.
    pub fn pool(&self) -> &PoolName {
        &self.0
    }
}

impl TryFrom<PoolName> for CanaryName {
    type Error = BadName;

    fn try_from(name: PoolName) -> Result<Self, BadName> {
        let run = name.as_str().strip_prefix(PREFIX).unwrap_or_default();
        if (1..=32).contains(&run.len()) && run.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self(name))
        } else {
            Err(bad(name.into()))
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

/// A canary to create: one instance with the pool's recipe, from exactly this version, without inbound connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub name: CanaryName,
    /// The pool whose recipe it uses.
    pub pool: PoolName,
    pub definition: DefinitionName,
    pub number: VersionNumber,
    /// Its size, if not the pool's.
    pub size: Option<String>,
    /// Its availability zone, if not one of the pool's.
    pub zone: Option<String>,
    /// The custom data of a pool that has its NodeConfig in it, since the cloud does not return it. Without it, the custom data has no effect.
    pub custom_data: Option<Secret>,
    pub tags: Tags,
    /// What it joins with, for a canary that runs the pool's bootstrap. `None`: with what is in the image, so it gets no custom data.
    pub bootstrap: Option<CanaryBootstrap>,
}

/// The secret parts of a pool's recipe, which Azure does not return. A factory that knows them ignores these and uses its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CanaryBootstrap {
    pub custom_data: Option<Secret>,
    /// The protected settings of the script extension, as JSON.
    pub protected_settings: Option<Secret>,
}

/// The state of the pod that tests a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SmokeTest {
    /// It has not ended, for this reason.
    Running(String),
    Succeeded,
    /// A container exited with an error.
    Failed(String),
    /// It ended without a result of its own: the kubelet did not admit it, or evicted it.
    Aborted(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pool_name_is_not_a_canary_name() {
        let pool: PoolName = "k8s-agentpool1-26100436-vmss".parse().unwrap();
        assert!(CanaryName::try_from(pool).is_err());
        assert!(serde_json::from_str::<CanaryName>("\"k8s-pool\"").is_err());
        assert_eq!(CanaryName::from_run("r42").unwrap().to_string(), "kiln-canary-r42");
        assert!(CanaryName::from_run("").is_err());
        assert!(CanaryName::from_run("a-b").is_err());
    }
}
