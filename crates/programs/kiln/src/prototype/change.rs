//! What `update`, `auto-update` and `plan` share: how a run is done.

use std::path::PathBuf;

use clap::Args;
use kiln_prototype::history::MaxHistory;
use kiln_prototype::provenance::parse_tag;
use kiln_types::Tags;

#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line, independent of the others")]
pub(crate) struct Change {
    /// Nodes to add once new ones come from the image
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) new_updated_nodes: u32,
    /// Usable versions to keep, at least 2
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) max_history: MaxHistory,
    /// Seconds that a pod gets to leave the donor
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) grace_period: u32,
    /// Delete pods that a drain leaves, and take pools that others manage
    #[arg(long)]
    pub(crate) force: bool,
    /// Give the version to new nodes without trying it on one first
    #[arg(long)]
    pub(crate) no_canary: bool,
    /// Point the scale set at the version, not at the newest of the image definition
    #[arg(long)]
    pub(crate) pin: bool,
    /// Give the donor's hardware back while it is off; a start may then find none
    #[arg(long)]
    pub(crate) deallocate: bool,
    /// Replace a version of today that nobody uses
    #[arg(long)]
    pub(crate) replace_today: bool,
    /// Take the donor away though no other node of its pool is ready
    #[arg(long)]
    pub(crate) allow_empty_pool: bool,
    /// Go on though the recipe before the first run cannot be saved: no way back to it
    #[arg(long)]
    pub(crate) no_original: bool,
    /// Tags for the snapshot and the version
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = parse_tag)]
    pub(crate) tags: Vec<(String, String)>,
    /// Resource id of the disk encryption set for the version
    #[arg(long, value_name = "ID")]
    pub(crate) disk_encryption_set: Option<String>,
    /// Copies of the version per region [default: one per 600 nodes, at least 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) replicas: Option<u32>,
    /// File that gets a copy of each journal entry; the journal itself is in the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

impl Change {
    pub(crate) fn tags(&self) -> Tags {
        self.tags.iter().cloned().collect()
    }
}
