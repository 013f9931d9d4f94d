//! The api-version of each provider's resource types.

use serde::{Deserialize, Serialize};

/// The resource provider of a request. Its version is the newest whose published specification the tests check the traffic against. The
/// serialized names are part of stored handles and must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Api {
    /// Scale sets, their instances and virtual machines.
    Compute,
    /// Galleries, image definitions and versions.
    Gallery,
    /// Disks and snapshots.
    Disk,
    /// Virtual networks, network security groups and network interfaces.
    Network,
    /// User-assigned identities.
    Identity,
    /// AKS node image versions.
    Containers,
    /// Permissions of the caller.
    Authorization,
    /// Locks.
    Locks,
    /// Regions of a subscription.
    Subscriptions,
}

impl Api {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Compute => "2024-03-01",
            Self::Gallery => "2023-07-03",
            Self::Disk => "2023-10-02",
            Self::Network => "2023-09-01",
            Self::Identity => "2023-01-31",
            // This list exists in preview versions only.
            Self::Containers => "2024-04-02-preview",
            Self::Authorization => "2022-04-01",
            Self::Locks => "2016-09-01",
            Self::Subscriptions => "2022-12-01",
        }
    }
}
