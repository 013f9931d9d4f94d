//! The commands of `kiln prototype` and what each takes.

use std::path::Path;

use clap::{Args, Subcommand};
use jiff::civil::Date;
use kiln_kubernetes::NodeName;
use kiln_prototype::span::Span;
use kiln_types::{PoolName, VersionNumber};

use super::change::Change;
use super::values::{annotation, day};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show versions, what new nodes get, what nodes run, and how old it is
    Status(Status),
    /// Ask Azure and Kubernetes for each permission that a run needs
    CheckAccess(CheckAccess),
    /// Show what an update would do, and do nothing
    Plan(Plan),
    /// Make new nodes copies of this one
    Update(Update),
    /// Choose the best patched node of each pool and make new nodes copies of it
    AutoUpdate(AutoUpdate),
    /// Take a bad version away from new nodes, at once
    Rollback(Rollback),
    /// Replace nodes that run older versions
    Refresh(Refresh),
    /// List the runs of a pool
    History(History),
    /// Show what changed between two versions
    Diff(Diff),
    /// Go on with a run that was interrupted
    Resume(Resume),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype status -g my-cluster
  kiln prototype status --max-age 7d
      Exits with 1 when new nodes of some pool get an image that is older than a week, for alerts.
  kiln prototype status --output json | jq '.pools[].newNodes'")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Exit with 1 if the image of new nodes is older: `60`, `5m`, `2h`, `3d`
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_age: Option<Span>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype check-access -g my-cluster
      A line for each Azure action and each Kubernetes verb; exits with 1 when one is missing.
  kubectl exec deploy/kiln -- kiln prototype check-access --in-cluster
      The same, as the pod.")]
pub(crate) struct CheckAccess {
    #[command(flatten)]
    pub(crate) pools: Pools,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
      Reads the node's inside by a pod that changes nothing, then says what would be done.
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000 --no-inspect
      Touches nothing at all, and leaves out what only the node knows.")]
pub(crate) struct Plan {
    /// The donor
    #[arg(long, value_name = "NODE")]
    pub(crate) target_node: NodeName,
    /// Do not read the node's inside by a pod
    #[arg(long)]
    pub(crate) no_inspect: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000 --new-updated-nodes 3
      Adds three nodes of the new image at the end.

An interrupted run is taken up by the same command, by `kiln prototype resume`, or by the next automatic run.")]
pub(crate) struct Update {
    /// The donor: a Ready node of the scale set
    #[arg(long, value_name = "NODE")]
    pub(crate) target_node: NodeName,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype auto-update --pending-reboot-annotation weave.works/kured-reboot-in-progress \\
      --last-patch-annotation weave.works/kured-most-recent-reboot-needed --minimum-ready-time 1h
  kiln prototype auto-update --pending-reboot-annotation weave.works/kured-reboot-in-progress \\
      --last-patch-annotation weave.works/kured-most-recent-reboot-needed --dry-run
      Shows for every node why it is chosen or not, and does nothing.

Pools that do not fit are skipped with the reason, and the exit code is 0.")]
pub(crate) struct AutoUpdate {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// A node with this annotation waits for a reboot and is not taken
    #[arg(long, value_name = "ANNOTATION", value_parser = annotation)]
    pub(crate) pending_reboot_annotation: String,
    /// The annotation with the day of a node's last patch
    #[arg(long, value_name = "ANNOTATION", value_parser = annotation)]
    pub(crate) last_patch_annotation: String,
    /// A node with one of these annotations is not taken
    #[arg(long, value_name = "ANNOTATION", num_args = 1.., value_parser = annotation)]
    pub(crate) node_ignore_annotation: Vec<String>,
    /// How long a node must have been Ready: `60`, `5m`, `2h`, `3d`
    #[arg(long, value_name = "SPAN", default_value = "60")]
    pub(crate) minimum_ready_time: Span,
    /// How many nodes must qualify
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) minimum_candidates: u32,
    /// Days after which an unpatched node will do; 0 is never
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    pub(crate) maximum_image_age: u32,
    /// Nodes that are not taken
    #[arg(long, value_name = "NODE", num_args = 1..)]
    pub(crate) ignore_nodes: Vec<NodeName>,
    /// Choose, show the table, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss
      Excludes the newest version; new nodes get the one before.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --to 2026.11.02
      Excludes all that are newer.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --to original
      The recipe before the first run.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --unpause-hold

Nodes that run already stay as they are: the bad ones are listed, `kiln prototype refresh` replaces them. The pool is on
hold afterwards: no automatic run touches it until `--unpause-hold`, or until the day of `--after`.")]
pub(crate) struct Rollback {
    #[command(flatten)]
    pub(crate) pool: OnePool,
    /// Version to go back to, or `original` [default: the usable one before]
    #[arg(long, value_name = "VERSION|original", conflicts_with = "unpause")]
    pub(crate) to: Option<Target>,
    /// Delete the excluded versions, where nobody uses them
    #[arg(long, conflicts_with = "unpause")]
    pub(crate) delete: bool,
    /// The day from which automatic runs go on, such as 2026-12-01 [default: after `--unpause-hold`]
    #[arg(long, value_name = "DATE", conflicts_with = "unpause", value_parser = day)]
    pub(crate) after: Option<Date>,
    /// Why, for the history and for those who find the pool on hold
    #[arg(long, value_name = "TEXT", conflicts_with = "unpause")]
    pub(crate) reason: Option<String>,
    /// Let automatic runs go on, and do nothing else
    #[arg(long)]
    pub(crate) unpause: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What to go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Version(VersionNumber),
    Original,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "original" {
            return Ok(Self::Original);
        }
        text.parse().map(Self::Version).map_err(|error: kiln_types::RejectedVersion| format!("{error}, or `original`"))
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss
      One node more, then one old node drained and deleted, until none is old.
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss --surge 5 --max-unavailable 5
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss --all-at-once
      For an outage: all old nodes go at once, without a drain, and new ones come.

Disruption budgets are honoured. An interrupted refresh goes on where it was when the command is given again.")]
pub(crate) struct Refresh {
    #[command(flatten)]
    pub(crate) pool: OnePool,
    /// Nodes above the pool's size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) surge: u32,
    /// Nodes below the pool's size
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_unavailable: u32,
    /// All old nodes at once, without a drain
    #[arg(long, conflicts_with_all = ["surge", "max_unavailable"])]
    pub(crate) all_at_once: bool,
    /// Seconds that a pod gets to leave
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) grace_period: u32,
    /// Delete pods that no controller replaces, and what a drain leaves
    #[arg(long)]
    pub(crate) force: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype history --target-vmss k8s-pool1-12345678-vmss
  kiln prototype history --steps
      Each step of each run, and how long it took.")]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Show the steps of each run
    #[arg(long)]
    pub(crate) steps: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype diff 2026.11.02 2026.11.09 --target-vmss k8s-pool1-12345678-vmss
  kiln prototype diff 2026.11.02 2026.11.09 --output json | jq '.packages[].name'")]
pub(crate) struct Diff {
    /// The one version
    #[arg(value_name = "V1")]
    pub(crate) from: VersionNumber,
    /// The other
    #[arg(value_name = "V2")]
    pub(crate) to: VersionNumber,
    #[command(flatten)]
    pub(crate) pool: OnePool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype resume
      Goes on with the open run of each pool.
  kiln prototype resume --target-vmss k8s-pool1-12345678-vmss")]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// File that gets a copy of each journal entry
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<std::path::PathBuf>,
}

/// Scale sets; none is all.
#[derive(Debug, Clone, Args)]
pub(crate) struct Pools {
    /// Scale sets [default: all]
    #[arg(long, value_name = "POOL", num_args = 1..)]
    pub(crate) target_vmss: Vec<PoolName>,
}

/// One scale set.
#[derive(Debug, Clone, Args)]
pub(crate) struct OnePool {
    /// The scale set [default: the only one]
    #[arg(long, value_name = "POOL")]
    pub(crate) target_vmss: Option<PoolName>,
}

impl Verb {
    /// The file that gets a copy of the journal.
    pub(crate) fn journal(&self) -> Option<&Path> {
        match self {
            Self::Update(verb) => verb.change.journal.as_deref(),
            Self::AutoUpdate(verb) => verb.change.journal.as_deref(),
            Self::Resume(verb) => verb.journal.as_deref(),
            _ => None,
        }
    }

    /// Whether it is to end in order when it is told to stop: it holds something meanwhile.
    pub(crate) fn is_interruptible(&self) -> bool {
        matches!(self, Self::Update(_) | Self::AutoUpdate(_) | Self::Refresh(_) | Self::Resume(_))
    }
}
