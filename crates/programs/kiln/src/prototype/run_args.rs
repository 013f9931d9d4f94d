//! The arguments of a run, shared by `update`, `auto-update` and `plan`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use kiln_engine::Context;
use kiln_kubernetes::{Namespace, SmokePod};
use kiln_prototype::history::MaxHistory;
use kiln_prototype::provenance::parse_tag;
use kiln_prototype::run::RunOptions;
use kiln_prototype::span::Span;
use kiln_types::JoinMode;

use super::settings_args::SettingsArgs;
use super::values::target_region;
use crate::failure::Failure;

#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line, independent of the others")]
pub(crate) struct RunArgs {
    /// Nodes to add at the end of the run
    #[arg(long, value_name = "N", default_value_t = 0)]
    new_updated_nodes: u32,
    /// Usable versions to keep, at least 2
    #[arg(long, value_name = "N", default_value = "3")]
    max_history: MaxHistory,
    /// Seconds that each pod has to terminate when the donor is drained; 0 ends pods at once [default: each pod's own]
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,
    /// Force-delete pods that a drain leaves
    #[arg(long)]
    force: bool,
    /// Include the version without testing it with a canary
    #[arg(long)]
    no_canary: bool,
    /// How clones join [default: chosen from the donor]
    ///
    /// `certificate`: with what is in the image, a shared client certificate or an exec plugin. `recipe`: the pool keeps its custom data and
    /// script extension, and each clone runs them again with the current token.
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(JoinMode::ALL.map(JoinMode::name)).try_map(|mode| mode.parse::<JoinMode>()))]
    join: Option<JoinMode>,
    /// Secret in kiln's namespace with the pool's `customData` and `protectedSettings`, for a canary that joins by the recipe
    #[arg(long, value_name = "NAME")]
    canary_secret: Option<String>,
    /// Size of the canary [default: the pool's]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["no_canary", "local"])]
    canary_size: Option<String>,
    /// Availability zone of the canary [default: one of the pool's]
    #[arg(long, value_name = "ZONE", conflicts_with_all = ["no_canary", "local"])]
    canary_zone: Option<String>,
    /// Pod that must succeed on the canary, as YAML or JSON
    #[arg(long, value_name = "FILE", conflicts_with = "no_canary")]
    smoke_test: Option<PathBuf>,
    /// How long the canary has to stay Ready: `60`, `5m`, `2h`
    #[arg(long, value_name = "SPAN", default_value = "0", conflicts_with = "no_canary")]
    soak: Span,
    /// Keep a canary that failed, for a look at it; `kiln prototype gc` deletes it
    #[arg(long, conflicts_with = "no_canary")]
    keep_canary_on_failure: bool,
    /// Point the scale set at the version instead of the image definition
    #[arg(long)]
    pin: bool,
    /// Deallocate the donor instead of only stopping it; starting it again can fail if the region has no capacity
    #[arg(long)]
    deallocate: bool,
    /// Copy the disk of the running donor while its file systems are frozen for a few seconds, instead of draining and stopping it
    #[arg(long, conflicts_with = "deallocate")]
    live: bool,
    /// Replace a version of today that is not in use
    #[arg(long)]
    replace_today: bool,
    /// Accept that the donor is its pool's only node
    #[arg(long)]
    allow_empty_pool: bool,
    /// Accept that AKS or Cluster API owns the pool, and may reset its model and replace its nodes
    #[arg(long)]
    allow_managed_pool: bool,
    /// Accept a donor that has the packages of a rejected version
    #[arg(long)]
    allow_rejected_patch: bool,
    /// Accept that the original recipe cannot be saved, so that `rollback --to original` is impossible
    #[arg(long)]
    no_original: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Tags for everything that the run creates: snapshot, gallery, image definition, version and canary
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Resource id of the disk encryption set for the version [default: the donor's]
    #[arg(long, value_name = "ID")]
    disk_encryption_set: Option<String>,
    /// Replicas of the version per region [default: one per 600 nodes, at least 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    replicas: Option<u32>,
    /// More regions for the version, each with its number of replicas if it has one of its own
    #[arg(long, value_name = "REGION[=N]", num_args = 1.., value_parser = target_region, conflicts_with = "local")]
    target_regions: Vec<(String, Option<u32>)>,
    /// File to append a copy of each journal entry to; the journal itself is in the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

impl RunArgs {
    /// The options of a run. The protected settings are read to make sure that a rollback can read them too; they do not become part of
    /// the options, which the journal keeps.
    pub(crate) async fn options<F>(&self, context: &Context<F>) -> Result<RunOptions, Failure> {
        let (cluster, namespace) = (&context.cluster, &context.namespace);
        let smoke_test = self.smoke_test.as_deref().map(|path| read_smoke_test(path, namespace)).transpose()?;
        let protected_settings_of = self.settings.read(cluster).await?.extensions();
        Ok(RunOptions {
            max_history: self.max_history,
            grace_seconds: self.grace_period,
            force: self.force,
            allow_empty_pool: self.allow_empty_pool,
            allow_managed_pool: self.allow_managed_pool,
            allow_rejected_patch: self.allow_rejected_patch,
            no_original: self.no_original,
            canary: !self.no_canary,
            join: self.join,
            canary_secret: self.canary_secret.clone(),
            canary_size: self.canary_size.clone(),
            canary_zone: self.canary_zone.clone(),
            keep_canary_on_failure: self.keep_canary_on_failure,
            smoke_test,
            soak_seconds: Duration::from(self.soak).as_secs(),
            pin: self.pin,
            deallocate: self.deallocate,
            live: self.live,
            replace_today: self.replace_today,
            new_nodes: self.new_updated_nodes,
            replicas: self.replicas,
            target_regions: self.target_regions.iter().cloned().collect(),
            disk_encryption_set: self.disk_encryption_set.clone(),
            tags: self.tags.iter().cloned().collect(),
            protected_settings_of,
            protected_settings_secret: self.settings.secret(),
        })
    }
}

/// Reads the manifest of a smoke test, and returns it as JSON.
fn read_smoke_test(path: &Path, namespace: &Namespace) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
    let manifest = serde_saphyr::from_str(&text).map_err(|error| Failure::file(path, error))?;
    let pod = SmokePod::new(manifest, namespace).map_err(|reason| Failure::file(path, reason))?;
    Ok(pod.to_json())
}
