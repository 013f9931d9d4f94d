//! The api-version of each provider's resource types.

/// The versions that this client speaks: the newest whose published specification its traffic is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Scale sets, their instances and virtual machines.
    Compute,
    /// Galleries, image definitions and versions.
    Gallery,
    /// Disks and snapshots.
    Disk,
    /// Networks, security groups and network interfaces.
    Network,
    /// Identities of machines.
    Identity,
    /// What AKS offers.
    Containers,
    /// What the caller may do.
    Authorization,
}

impl Api {
    /// The version, as the query parameter has it.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Compute => "2024-03-01",
            Self::Gallery => "2023-07-03",
            Self::Disk => "2023-10-02",
            Self::Network => "2023-09-01",
            Self::Identity => "2023-01-31",
            // The list of node images has been in preview since it exists.
            Self::Containers => "2024-04-02-preview",
            Self::Authorization => "2022-04-01",
        }
    }
}
