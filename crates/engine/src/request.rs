//! What a person asks for.

use std::time::Duration;

use kiln_kubernetes::NodeName;
use kiln_prototype::run::RunOptions;
use kiln_types::Tags;

/// How long a run that died keeps its pool from others. Short, since somebody waits for it with a stopped donor; three renewals fit in.
pub const LEASE: Duration = Duration::from_secs(15);

/// What is asked of a run beyond its donor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// What goes into the journal.
    pub policy: RunOptions,
    /// Copies of the version in each region; by the pool's size when it is none.
    pub replicas: Option<u32>,
    /// Tags for the copy and the version, beside the run's own.
    pub tags: Tags,
    /// A pool of one node may be without nodes for a while.
    pub allow_empty_pool: bool,
    /// The run may begin although the recipe before it cannot be kept.
    pub no_original: bool,
}

/// A run on one donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub node: NodeName,
    /// What is asked.
    pub wish: Wish,
}
