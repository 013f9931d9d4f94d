//! What a run is requested with.

use std::time::Duration;

use kiln_prototype::run::RunOptions;
use kiln_types::NodeName;

/// How long a dead process keeps its pool from others. It is short, because somebody waits with a stopped donor; three renewals fit in.
pub const LEASE: Duration = Duration::from_secs(15);

/// A run with this donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    pub node: NodeName,
    pub options: RunOptions,
}
