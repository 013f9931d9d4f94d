//! A roll back: its writes in order, and who still runs what was bad.

use std::fmt;

use kiln_types::{InstanceId, Tags, VersionNumber};
use serde::Serialize;

use super::hold::Hold;

/// What a recipe is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RecipeTo {
    /// One version, because it named one before.
    Version(VersionNumber),
    /// What it was before the first run.
    Original,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Write {
    /// Tags of the line: the hold and what was bad.
    Mark(Tags),
    /// A version becomes usable again.
    Include(VersionNumber),
    /// The recipe names something else.
    Recipe(RecipeTo),
    /// A version is kept out of what `latest` means.
    Exclude(VersionNumber),
    /// A version goes for good.
    Delete(VersionNumber),
}

/// An instance that runs a bad version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    pub instance: InstanceId,
    pub node: String,
    /// What it runs.
    pub version: VersionNumber,
}

/// A roll back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Back {
    /// What to write, in order.
    pub writes: Vec<Write>,
    /// The versions that are out, lowest first.
    pub bad: Vec<VersionNumber>,
    /// What new nodes get afterwards: a version, or `original`.
    pub then: String,
    /// The hold that it leaves.
    pub hold: Hold,
    /// Who still runs what is bad.
    pub running: Vec<Running>,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mark(_) => f.write_str("mark the line: on hold, and what was bad"),
            Self::Include(version) => write!(f, "include {version} again"),
            Self::Recipe(RecipeTo::Version(version)) => write!(f, "point the recipe at {version}"),
            Self::Recipe(RecipeTo::Original) => f.write_str("put the original recipe back"),
            Self::Exclude(version) => write!(f, "exclude {version}"),
            Self::Delete(version) => write!(f, "delete {version}"),
        }
    }
}

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writes.iter().try_for_each(|write| writeln!(f, "{write}"))?;
        writeln!(f, "new nodes get {}", self.then)?;
        writeln!(f, "{}", self.hold)?;
        if self.running.is_empty() {
            return writeln!(f, "no instance runs what was bad");
        }
        for user in &self.running {
            writeln!(f, "{} runs {}", user.node, user.version)?;
        }
        writeln!(f, "{} instances run what was bad; `kiln prototype refresh` replaces them", self.running.len())
    }
}
