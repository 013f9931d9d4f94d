//! One throw-away instance of an image version that nobody uses yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::image::LineName;
use crate::name::PoolName;
use crate::pool::Tags;
use crate::version::VersionNumber;

/// The tag that marks a pool as a trial, with the tried pool as its value. A pool without it is never deleted.
pub const TRIAL_TAG: &str = "kiln-trial-of";

const PREFIX: &str = "kiln-try-";

/// A name or run that no trial can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` cannot name a trial: `{PREFIX}` and 1 to 32 letters or digits")]
pub struct BadTrial {
    /// The refused text.
    pub input: String,
}

/// The name of a trial. It is a type of its own so that no ordinary pool can be handed to what deletes trials.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "PoolName", into = "PoolName")]
pub struct TrialName(PoolName);

impl TrialName {
    /// The one trial of a run.
    pub fn of_run(run: &str) -> Result<Self, BadTrial> {
        let refused = || BadTrial { input: run.to_owned() };
        let name = format!("{PREFIX}{run}").parse::<PoolName>().map_err(|_| refused())?;
        Self::try_from(name).map_err(|_| refused())
    }

    /// The trial's pool, for reading its instance.
    pub fn pool(&self) -> &PoolName {
        &self.0
    }
}

impl TryFrom<PoolName> for TrialName {
    type Error = BadTrial;

    fn try_from(name: PoolName) -> Result<Self, BadTrial> {
        let run = name.as_str().strip_prefix(PREFIX).unwrap_or_default();
        if (1..=32).contains(&run.len()) && run.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self(name))
        } else {
            Err(BadTrial { input: name.into() })
        }
    }
}

impl From<TrialName> for PoolName {
    fn from(name: TrialName) -> Self {
        name.0
    }
}

impl fmt::Display for TrialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A trial to be made: one instance of the pool's recipe, from exactly this version, joined to nothing that carries traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its name.
    pub name: TrialName,
    /// The pool whose recipe is tried.
    pub pool: PoolName,
    /// The line of the version.
    pub line: LineName,
    /// The version.
    pub number: VersionNumber,
    /// The run's own tags.
    pub tags: Tags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_pool_is_no_trial() {
        let pool: PoolName = "k8s-agentpool1-26100436-vmss".parse().unwrap();
        assert!(TrialName::try_from(pool).is_err());
        assert!(serde_json::from_str::<TrialName>("\"k8s-pool\"").is_err());
        assert_eq!(TrialName::of_run("r42").unwrap().to_string(), "kiln-try-r42");
        assert!(TrialName::of_run("").is_err());
        assert!(TrialName::of_run("a-b").is_err());
    }
}
