//! The commands of `kiln prototype` and their arguments.

use std::path::Path;

use clap::{Args, Subcommand};
use jiff::civil::Date;
use kiln_prototype::span::Span;
use kiln_types::{NodeName, PoolName, VersionNumber};

use super::run_args::RunArgs;
use super::settings_args::SettingsArgs;
use super::values::{annotation, day};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the versions of each pool, which one new nodes get, and which ones nodes run
    Status(Status),
    /// Check each Azure and Kubernetes permission that a run needs
    CheckAccess(CheckAccess),
    /// Show what an update would do, without changing anything
    Plan(Plan),
    /// Create new nodes of the pool from this node's disk
    Update(Update),
    /// Choose the best patched node of each pool and create new nodes from its disk
    AutoUpdate(AutoUpdate),
    /// Roll new nodes back to an older version, at once
    Rollback(Rollback),
    /// Replace nodes that run older versions
    Refresh(Refresh),
    /// List the runs of a pool
    History(History),
    /// Show what changed between two versions
    Diff(Diff),
    /// Continue an interrupted run
    Resume(Resume),
    /// Shorten a journal that an older kiln has filled
    Repair(Repair),
    /// Delete canaries, snapshots and tags that no run owns any more
    Gc(Gc),
    /// Bring a node back whose run no longer exists
    Release(Release),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype status -g my-cluster
  kiln prototype status --max-age 7d
      For alerts: exits with 1 if new nodes of a pool get an image older than a week.
  kiln prototype status --output json | jq '.pools[].newNodes'")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Exit with 1 if the image of new nodes is older than this: `60`, `5m`, `2h`, `3d`
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_age: Option<Span>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype check-access -g my-cluster
      One line for each Azure action and Kubernetes verb; exits with 1 if one is missing.
  kubectl exec deploy/kiln -- kiln prototype check-access --in-cluster
      The same, from a pod.")]
pub(crate) struct CheckAccess {
    #[command(flatten)]
    pub(crate) pools: Pools,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
      Inspects the node with a read-only pod, then shows what a run would do.
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000 --no-inspect
      Does not run a pod, and leaves out what only an inspection can find.")]
pub(crate) struct Plan {
    /// Donor
    #[arg(long, value_name = "NODE")]
    pub(crate) target_node: NodeName,
    /// Do not inspect the node with a pod
    #[arg(long)]
    pub(crate) no_inspect: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000 --new-updated-nodes 3
      Adds three nodes with the new image at the end.

The same command, `kiln prototype resume` and the next automatic run all resume an interrupted run.")]
pub(crate) struct Update {
    /// Donor: a Ready node of the scale set
    #[arg(long, value_name = "NODE")]
    pub(crate) target_node: NodeName,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype auto-update --pending-reboot-annotation weave.works/kured-reboot-in-progress \\
      --last-patch-annotation weave.works/kured-most-recent-reboot-needed --minimum-ready-time 1h
  kiln prototype auto-update --pending-reboot-annotation weave.works/kured-reboot-in-progress \\
      --last-patch-annotation weave.works/kured-most-recent-reboot-needed --dry-run
      Shows for every node why it is chosen or not, without starting a run.

Pools without a donor are skipped with the reason; the exit code is 0, or 1 if a pool is paused, blocked by a rejected \
version, or was skipped too often.")]
pub(crate) struct AutoUpdate {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Annotation of nodes that wait for a reboot; they are skipped
    #[arg(long, value_name = "ANNOTATION", value_parser = annotation)]
    pub(crate) pending_reboot_annotation: String,
    /// Annotation with the day of a node's last patch
    #[arg(long, value_name = "ANNOTATION", value_parser = annotation)]
    pub(crate) last_patch_annotation: String,
    /// Skip nodes with one of these annotations
    #[arg(long, value_name = "ANNOTATION", num_args = 1.., value_parser = annotation)]
    pub(crate) node_ignore_annotation: Vec<String>,
    /// How long a node must have been Ready: `60`, `5m`, `2h`, `3d`
    #[arg(long, value_name = "SPAN", default_value = "60")]
    pub(crate) minimum_ready_time: Span,
    /// How many nodes must be eligible
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) minimum_candidates: u32,
    /// Days after which an unpatched node is eligible; 0 disables this
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    pub(crate) maximum_image_age: u32,
    /// Nodes to skip
    #[arg(long, value_name = "NODE", num_args = 1..)]
    pub(crate) ignore_nodes: Vec<NodeName>,
    /// Skipped nights in a row after which the command fails
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_skipped_nights: u32,
    /// Succeed also if a pool is paused, blocked by a rejected version, or was skipped too often
    #[arg(long)]
    pub(crate) allow_skipped: bool,
    /// Show the choice without starting a run
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss
      Excludes the newest version; new nodes get the previous one.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --to 2026.11.02
      Excludes all newer versions.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --to original
      Restores the original recipe.
  kiln prototype rollback --target-vmss k8s-pool1-12345678-vmss --unpause

Running nodes do not change: those with a rejected version are listed, and `kiln prototype refresh` replaces them. The
pool is paused afterwards: no automatic run starts on it until `--unpause`, or until the day of `--after`.")]
pub(crate) struct Rollback {
    #[command(flatten)]
    pub(crate) pool: OnePool,
    /// Version to roll back to, or `original` [default: the previous usable one]
    #[arg(long, value_name = "VERSION|original", conflicts_with = "unpause")]
    pub(crate) to: Option<Target>,
    /// Delete the rejected versions, if no node uses them
    #[arg(long, conflicts_with = "unpause")]
    pub(crate) delete: bool,
    /// Day on which automatic runs start again, such as 2026-12-01 [default: after `--unpause`]
    #[arg(long, value_name = "DATE", conflicts_with = "unpause", value_parser = day)]
    pub(crate) after: Option<Date>,
    /// Reason, shown while the pool is paused
    #[arg(long, value_name = "TEXT", conflicts_with = "unpause")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Unpause the pool, and do nothing else
    #[arg(long)]
    pub(crate) unpause: bool,
    /// Show what would be done, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The target of a rollback.
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
        text.parse().map(Self::Version).map_err(|error: kiln_types::BadName| format!("{error}, or `original`"))
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss
      Adds one node, then drains and deletes one old node, until none is left.
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss --surge 5 --max-unavailable 5
  kiln prototype refresh --target-vmss k8s-pool1-12345678-vmss --all-at-once
      For an outage: deletes all old nodes at once, without a drain, and creates new ones.

PodDisruptionBudgets are honoured. Repeat the command to continue an interrupted refresh.")]
pub(crate) struct Refresh {
    #[command(flatten)]
    pub(crate) pool: OnePool,
    /// Nodes that may exist above the pool's size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) surge: u32,
    /// Nodes that may be missing below the pool's size
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_unavailable: u32,
    /// Delete all old nodes at once, without a drain
    #[arg(long, conflicts_with_all = ["surge", "max_unavailable"])]
    pub(crate) all_at_once: bool,
    /// Seconds that each pod has to terminate; 0 ends pods at once [default: each pod's own]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
    /// Delete pods without a controller, and force-delete pods that a drain leaves
    #[arg(long)]
    pub(crate) force: bool,
    /// Show what would be done, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype history --target-vmss k8s-pool1-12345678-vmss
  kiln prototype history --steps
      Shows each step of each run, and how long it took.")]
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
    /// Older version
    #[arg(value_name = "V1")]
    pub(crate) from: VersionNumber,
    /// Newer version
    #[arg(value_name = "V2")]
    pub(crate) to: VersionNumber,
    #[command(flatten)]
    pub(crate) pool: OnePool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype resume
      Continues the open run of each pool.
  kiln prototype resume --target-vmss k8s-pool1-12345678-vmss")]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// File to append a copy of each journal entry to
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype repair
      Shows the size of each pool's journal and what can be dropped from it, without changing anything.
  kiln prototype repair --target-vmss k8s-pool1-12345678-vmss --yes
      Shortens the journal. Then continue its open run with `kiln prototype resume`.

Dropped are handles of operations that have ended, then the oldest closed runs, then old attempts of an open run. What a \
run holds stays in the journal. This kiln keeps its journals short by itself.")]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Write the shortened journals
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Scale sets; empty for all.
#[derive(Debug, Clone, Args)]
pub(crate) struct Pools {
    /// Scale sets [default: all]
    #[arg(long, value_name = "POOL", num_args = 1..)]
    pub(crate) target_vmss: Vec<PoolName>,
}

/// One scale set.
#[derive(Debug, Clone, Args)]
pub(crate) struct OnePool {
    /// Scale set [default: the only one]
    #[arg(long, value_name = "POOL")]
    pub(crate) target_vmss: Option<PoolName>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype gc
      Lists canaries, snapshots and tags that no open run owns.
  kiln prototype gc --yes
      Deletes them.

Only pools with nodes in this cluster are considered, because several clusters may share a resource group. The snapshot of
today is kept for the next run.")]
pub(crate) struct Gc {
    #[command(flatten)]
    pub(crate) pools: Pools,
    /// Delete what was found
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kiln prototype release k8s-pool1-12345678-vmss000000

Starts the node's machine if it is stopped, and restores its protection, cordon and annotations. An open run releases its
nodes itself: `kiln prototype resume`.")]
pub(crate) struct Release {
    /// Node that is held
    #[arg(value_name = "NODE")]
    pub(crate) node: NodeName,
}

impl Verb {
    /// The file of `--journal`.
    pub(crate) fn journal(&self) -> Option<&Path> {
        match self {
            Self::Update(verb) => verb.run.journal.as_deref(),
            Self::AutoUpdate(verb) => verb.run.journal.as_deref(),
            Self::Resume(verb) => verb.journal.as_deref(),
            _ => None,
        }
    }

    /// Whether the first signal only requests a stop, because the command may have holds to release.
    pub(crate) fn stops_gracefully(&self) -> bool {
        matches!(self, Self::Update(_) | Self::AutoUpdate(_) | Self::Refresh(_) | Self::Resume(_))
    }
}
