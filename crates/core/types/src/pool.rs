//! Pools: the instances created from one recipe.

use serde::{Deserialize, Serialize};

use crate::image::SecurityType;
use crate::name::PoolName;
use crate::operation::Revision;
use crate::recipe::Recipe;
use crate::tags::Tags;

/// The state of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    pub name: PoolName,
    pub location: String,
    /// Empty if the pool is not zonal.
    pub zones: Vec<String>,
    pub size: String,
    /// The requested number of instances.
    pub capacity: u32,
    /// Absent if the cloud has no such value.
    pub revision: Option<Revision>,
    pub provisioning: Provisioning,
    pub tags: Tags,
    pub upgrade_mode: UpgradeMode,
    /// Whether the cloud replaces OS disks on its own.
    pub automatic_os_upgrade: bool,
    /// Whether the cloud replaces unhealthy instances on its own.
    pub automatic_repairs: bool,
    pub orchestration: Orchestration,
    pub operating_system: OperatingSystem,
    /// Whether the OS disk is on the host and lost when the machine stops.
    pub ephemeral_os_disk: bool,
    pub plan: Option<Plan>,
    pub security_type: SecurityType,
    /// Whether its machines have an NVMe disk controller, if the cloud reports it.
    pub nvme: Option<bool>,
    pub recipe: Recipe,
}

/// The provisioning state of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provisioning {
    /// Also for a resource without such a state.
    Succeeded,
    /// With the cloud's own name of the state.
    InProgress(String),
    Failed,
    Canceled,
}

impl Provisioning {
    /// Parses the cloud's name of the state.
    pub fn from_name(name: Option<&str>) -> Self {
        match name {
            None => Self::Succeeded,
            Some(name) if name.eq_ignore_ascii_case("succeeded") => Self::Succeeded,
            Some(name) if name.eq_ignore_ascii_case("failed") => Self::Failed,
            Some(name) if name.eq_ignore_ascii_case("canceled") => Self::Canceled,
            Some(name) => Self::InProgress(name.to_owned()),
        }
    }
}

/// How a scale set applies a changed recipe to running instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeMode {
    /// Only on request.
    Manual,
    /// At once, possibly to all instances at the same time.
    Automatic,
    /// In batches.
    Rolling,
    /// A value that kiln does not know.
    Other(String),
}

/// The orchestration mode of a scale set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Orchestration {
    /// Numbered instances created from one recipe.
    Uniform,
    /// Individual machines.
    Flexible,
}

/// The operating system of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatingSystem {
    Linux,
    /// Not supported; such pools are skipped.
    Windows,
}

/// The purchase plan of a marketplace image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub publisher: String,
    pub product: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_provisioning_state_counts_as_in_progress() {
        assert_eq!(Provisioning::from_name(None), Provisioning::Succeeded);
        assert_eq!(Provisioning::from_name(Some("succeeded")), Provisioning::Succeeded);
        assert_eq!(Provisioning::from_name(Some("Migrating")), Provisioning::InProgress("Migrating".into()));
    }
}
