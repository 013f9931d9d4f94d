//! The request for a run.

use std::time::Duration;

use kiln_prototype::run::RunOptions;
use kiln_types::NodeName;

/// How long the lease of a dead process blocks its pool. It is short, because there may be a stopped donor; three renewals fit in.
pub const LEASE: Duration = Duration::from_secs(15);

/// A run with this donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    pub node: NodeName,
    pub options: RunOptions,
}
