//! The plan of a rollback: its writes in order, and the instances that still run a rejected version.

use std::fmt;

use kiln_types::{InstanceId, Tags, VersionNumber};
use serde::Serialize;

use super::pause::Pause;

/// The value that a recipe is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RecipeTarget {
    /// A version, because the recipe named a version before.
    Version(VersionNumber),
    Original,
}

/// One write of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RollbackWrite {
    /// Tags of the image definition: the pause and the rejected versions.
    Mark(Tags),
    Include(VersionNumber),
    Recipe(RecipeTarget),
    Exclude(VersionNumber),
    Delete(VersionNumber),
}

/// An instance that runs a rejected version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedInstance {
    pub instance: InstanceId,
    pub node: String,
    pub version: VersionNumber,
}

/// The writes of a rollback and its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackPlan {
    /// In order.
    pub writes: Vec<RollbackWrite>,
    /// Lowest first.
    pub rejected: Vec<VersionNumber>,
    /// The image of new nodes afterwards: a version, `original`, or the image that they get anyway.
    pub new_nodes_get: String,
    /// Absent if there is no image definition yet, whose tags would record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    pub affected: Vec<AffectedInstance>,
}

impl fmt::Display for RollbackWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mark(_) => f.write_str("tag the image definition: pause the pool and list the rejected versions"),
            Self::Include(version) => write!(f, "include version {version}"),
            Self::Recipe(RecipeTarget::Version(version)) => write!(f, "point the scale set at version {version}"),
            Self::Recipe(RecipeTarget::Original) => f.write_str("restore the original recipe"),
            Self::Exclude(version) => write!(f, "exclude version {version}"),
            Self::Delete(version) => write!(f, "delete version {version}"),
        }
    }
}
