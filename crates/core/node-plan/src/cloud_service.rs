//! Services of the cloud at link-local addresses, from which pods can be blocked.

use std::fmt;

/// A service of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloudService {
    /// `169.254.169.254`: tokens of the machine's identities, user data.
    MetadataService,
    /// `168.63.129.16`, TCP ports 80 and 32526: goal state with certificates, protected settings of extensions. DNS at the same address is
    /// not part of it.
    WireServer,
}

impl CloudService {
    /// All services.
    pub const ALL: [Self; 2] = [Self::MetadataService, Self::WireServer];
}

impl fmt::Display for CloudService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetadataService => "metadata service",
            Self::WireServer => "wire server",
        })
    }
}
