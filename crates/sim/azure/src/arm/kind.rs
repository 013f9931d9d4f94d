//! The simulated resource types with their spelling and API versions.

use serde::{Deserialize, Serialize};

const COMPUTE: &[&str] = &[
    "2017-03-30",
    "2017-12-01",
    "2018-04-01",
    "2018-06-01",
    "2018-10-01",
    "2019-03-01",
    "2019-07-01",
    "2019-12-01",
    "2020-06-01",
    "2020-12-01",
    "2021-03-01",
    "2021-04-01",
    "2021-07-01",
    "2021-11-01",
    "2022-03-01",
    "2022-08-01",
    "2022-11-01",
    "2023-03-01",
    "2023-07-01",
    "2023-09-01",
    "2024-03-01",
    "2024-07-01",
    "2024-11-01",
    "2025-04-01",
    "2025-11-01",
    "2026-03-01",
    "2026-04-01",
];
const GALLERY: &[&str] = &[
    "2018-06-01",
    "2019-03-01",
    "2019-07-01",
    "2019-12-01",
    "2020-09-30",
    "2021-07-01",
    "2021-10-01",
    "2022-01-03",
    "2022-03-03",
    "2022-08-03",
    "2023-07-03",
    "2024-03-03",
    "2025-03-03",
    "2025-12-03",
    "2026-03-03",
];
const DISK: &[&str] = &[
    "2017-03-30",
    "2018-04-01",
    "2018-06-01",
    "2018-09-30",
    "2019-03-01",
    "2019-07-01",
    "2019-11-01",
    "2020-05-01",
    "2020-06-30",
    "2020-09-30",
    "2020-12-01",
    "2021-04-01",
    "2021-08-01",
    "2021-12-01",
    "2022-03-02",
    "2022-07-02",
    "2023-01-02",
    "2023-04-02",
    "2023-10-02",
    "2024-03-02",
    "2025-01-02",
    "2026-03-02",
];
const NETWORK: &[&str] = &[
    "2020-11-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-08-01",
    "2022-01-01",
    "2022-05-01",
    "2022-07-01",
    "2022-09-01",
    "2022-11-01",
    "2023-02-01",
    "2023-04-01",
    "2023-05-01",
    "2023-06-01",
    "2023-09-01",
    "2023-11-01",
    "2024-01-01",
    "2024-03-01",
    "2024-05-01",
    "2024-07-01",
    "2024-10-01",
    "2025-01-01",
    "2025-05-01",
];
const IDENTITY: &[&str] = &["2018-11-30", "2022-01-31-preview", "2023-01-31", "2024-11-30"];
const CONTAINERS: &[&str] = &[
    "2023-10-01",
    "2023-11-01",
    "2024-01-01",
    "2024-02-01",
    "2024-05-01",
    "2024-07-01",
    "2024-08-01",
    "2024-09-01",
    "2024-10-01",
    "2025-05-01",
    "2025-10-01",
    "2026-01-01",
];

/// API versions of ARM itself: subscriptions, tenants, resource groups and resource lists.
pub(crate) const ARM: &[&str] = &[
    "2016-06-01",
    "2016-09-01",
    "2017-05-10",
    "2018-02-01",
    "2018-05-01",
    "2018-06-01",
    "2019-03-01",
    "2019-05-01",
    "2019-05-10",
    "2019-06-01",
    "2019-07-01",
    "2019-08-01",
    "2019-09-01",
    "2019-10-01",
    "2019-11-01",
    "2020-01-01",
    "2020-05-01",
    "2020-06-01",
    "2020-07-01",
    "2020-08-01",
    "2020-09-01",
    "2020-10-01",
    "2021-01-01",
    "2021-04-01",
    "2022-01-01",
    "2022-05-01",
    "2022-06-01",
    "2022-09-01",
    "2022-12-01",
    "2023-07-01",
    "2024-03-01",
    "2024-07-01",
    "2024-08-01",
    "2024-11-01",
    "2025-04-01",
];

macro_rules! kinds {
    ($($variant:ident = $namespace:literal / $types:literal @ $versions:expr),+ $(,)?) => {
        /// A resource type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub(crate) enum ResourceKind { $($variant),+ }

        impl ResourceKind {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            /// The provider namespace in Azure's spelling.
            pub(crate) fn namespace(self) -> &'static str {
                match self { $(Self::$variant => $namespace),+ }
            }

            /// The type path below the namespace, separated by `/`.
            pub(crate) fn types(self) -> &'static str {
                match self { $(Self::$variant => $types),+ }
            }

            /// The supported API versions.
            pub(crate) fn api_versions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => $versions),+ }
            }
        }
    };
}

kinds! {
    ScaleSet = "Microsoft.Compute" / "virtualMachineScaleSets" @ COMPUTE,
    ScaleSetExtension = "Microsoft.Compute" / "virtualMachineScaleSets/extensions" @ COMPUTE,
    Instance = "Microsoft.Compute" / "virtualMachineScaleSets/virtualMachines" @ COMPUTE,
    Machine = "Microsoft.Compute" / "virtualMachines" @ COMPUTE,
    Disk = "Microsoft.Compute" / "disks" @ DISK,
    Snapshot = "Microsoft.Compute" / "snapshots" @ DISK,
    Gallery = "Microsoft.Compute" / "galleries" @ GALLERY,
    Definition = "Microsoft.Compute" / "galleries/images" @ GALLERY,
    Version = "Microsoft.Compute" / "galleries/images/versions" @ GALLERY,
    Interface = "Microsoft.Network" / "networkInterfaces" @ NETWORK,
    Network = "Microsoft.Network" / "virtualNetworks" @ NETWORK,
    Subnet = "Microsoft.Network" / "virtualNetworks/subnets" @ NETWORK,
    SecurityGroup = "Microsoft.Network" / "networkSecurityGroups" @ NETWORK,
    LoadBalancer = "Microsoft.Network" / "loadBalancers" @ NETWORK,
    Identity = "Microsoft.ManagedIdentity" / "userAssignedIdentities" @ IDENTITY,
    ManagedCluster = "Microsoft.ContainerService" / "managedClusters" @ CONTAINERS,
    AgentPool = "Microsoft.ContainerService" / "managedClusters/agentPools" @ CONTAINERS,
}

impl ResourceKind {
    /// Finds the type of these path parts, ignoring case.
    pub(crate) fn find(namespace: &str, types: &[&str]) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| {
            kind.namespace().eq_ignore_ascii_case(namespace)
                && kind.types().split('/').count() == types.len()
                && kind.types().split('/').zip(types).all(|(known, given)| known.eq_ignore_ascii_case(given))
        })
    }

    /// The full type, such as `Microsoft.Compute/disks`.
    pub(crate) fn full(self) -> String {
        format!("{}/{}", self.namespace(), self.types())
    }

    /// The name of the provider's operations in status URLs.
    pub(crate) fn operations(self) -> &'static str {
        match self {
            Self::Disk | Self::Snapshot => "DiskOperations",
            Self::Gallery | Self::Definition | Self::Version => "capsOperations",
            _ => "operations",
        }
    }

    /// Whether resources of this type have an ETag for conditional writes.
    pub(crate) fn has_etag(self) -> bool {
        matches!(self, Self::ScaleSet | Self::Instance | Self::Machine)
    }
}
