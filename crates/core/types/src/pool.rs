//! Pools: nodes that one recipe makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::image::SecurityType;
use crate::name::PoolName;
use crate::operation::Revision;
use crate::recipe::Recipe;

/// Tags of a resource, in a fixed order.
pub type Tags = BTreeMap<String, String>;

/// A pool as it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    pub name: PoolName,
    pub location: String,
    /// The zones that it spreads over; none where it is not zonal.
    pub zones: Vec<String>,
    /// The machine size.
    pub size: String,
    /// How many instances it is told to have.
    pub capacity: u32,
    /// What it was when it was read. None where the cloud keeps no such mark.
    pub revision: Option<Revision>,
    /// Whether the last write to it ended.
    pub provisioning: Provisioning,
    pub tags: Tags,
    /// What a changed recipe does to running instances.
    pub upgrade_mode: UpgradeMode,
    /// Whether the cloud replaces OS disks by itself.
    pub automatic_os_upgrade: bool,
    /// Whether the cloud replaces unhealthy instances by itself.
    pub automatic_repairs: bool,
    /// Whether its instances are alike or single machines under one name.
    pub orchestration: Orchestration,
    /// What its instances run.
    pub operating_system: OperatingSystem,
    /// Whether the OS disk lives on the host and is gone when the machine is off.
    pub ephemeral_os_disk: bool,
    /// The purchase plan that its image asks for.
    pub plan: Option<Plan>,
    /// What the firmware of its machines vouches for.
    pub security_type: SecurityType,
    /// What new instances are made from.
    pub recipe: Recipe,
}

/// Whether the last write to a resource ended, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provisioning {
    /// It ended well, or the resource keeps no such state.
    Succeeded,
    /// It goes on; the cloud's word for it.
    InProgress(String),
    /// It ended badly.
    Failed,
    /// It was called off.
    Canceled,
}

impl Provisioning {
    /// Reads the cloud's word. A resource without one is finished.
    pub fn from_word(word: Option<&str>) -> Self {
        match word {
            None => Self::Succeeded,
            Some(word) if word.eq_ignore_ascii_case("succeeded") => Self::Succeeded,
            Some(word) if word.eq_ignore_ascii_case("failed") => Self::Failed,
            Some(word) if word.eq_ignore_ascii_case("canceled") => Self::Canceled,
            Some(word) => Self::InProgress(word.to_owned()),
        }
    }
}

/// What a changed recipe does to running instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeMode {
    /// Nothing until it is asked for.
    Manual,
    /// It replaces them at once, all of them at the same time if it likes.
    Automatic,
    /// It replaces them in batches.
    Rolling,
    /// A word that this program does not know.
    Other(String),
}

/// How a pool keeps its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Orchestration {
    /// All alike, numbered.
    Uniform,
    /// Single machines under one name.
    Flexible,
}

/// What an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatingSystem {
    /// Linux.
    Linux,
    /// Windows; such pools are skipped.
    Windows,
}

/// The purchase plan of a marketplace image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    /// Who sells it.
    pub publisher: String,
    /// What is sold.
    pub product: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_terminal_is_running_whatever_its_word() {
        assert_eq!(Provisioning::from_word(None), Provisioning::Succeeded);
        assert_eq!(Provisioning::from_word(Some("succeeded")), Provisioning::Succeeded);
        assert_eq!(Provisioning::from_word(Some("Migrating")), Provisioning::InProgress("Migrating".into()));
    }
}
