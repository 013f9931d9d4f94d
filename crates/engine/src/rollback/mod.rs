//! Rollback: performs the writes that [`kiln_prototype::rollback`] plans, in order.

mod original;

use std::fmt;
use std::time::Duration;

use kiln_kubernetes::{OriginalRecipe, OriginalStore};
use kiln_prototype::journal::{Outcome, Run};
use kiln_prototype::latest::describe_image;
use kiln_prototype::rollback::{
    RecipeTarget, RollbackInput, RollbackPlan, RollbackRequest, RollbackTarget, RollbackWrite, plan_rollback,
    unpause as unpause_tags,
};
use kiln_prototype::run::RunId;
use kiln_prototype::step::Step;
use kiln_types::error_chain::to_line;
use kiln_types::{Factory, ImageSource, PoolName, RecipeChange, Tags, VersionNumber, VersionState};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::event::RunEventKind;
use crate::pools::PoolReading;
use crate::run::{PoolSession, RunEnd, RunReport};
use crate::{Context, Error};

/// Poll interval while the cloud includes a version.
const POLL: Duration = Duration::from_secs(5);

/// Azure needed at most a few minutes.
const INCLUDE_TIMEOUT: Duration = Duration::from_hours(1);

/// The result of a rollback or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackReport {
    pub pool: PoolName,
    /// `false` for a dry run.
    pub done: bool,
    /// The open run that the rollback cancels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<CancelledRun>,
    #[serde(flatten)]
    pub plan: RollbackPlan,
}

/// An open run that a rollback cancels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledRun {
    pub run: RunId,
    /// The version that it would have included.
    pub version: VersionNumber,
    /// Whether all its holds are released; `false` in a dry run.
    pub released: bool,
    /// How it ended; empty in a dry run.
    pub end: String,
}

impl CancelledRun {
    fn new(run: &Run) -> Self {
        let (id, version) = (run.id.clone(), run.header.version.clone());
        Self { run: id, version, released: false, end: String::new() }
    }
}

/// Rolls a pool back and pauses it. Without a name the resource group must have a single pool.
///
/// A rollback wins against a run: it takes the pool's lease, cancels the open run, and plans with what that run has left.
pub async fn rollback<F: Factory>(
    context: &Context<F>,
    pool: Option<&PoolName>,
    request: &RollbackRequest,
    dry_run: bool,
) -> Result<RollbackReport, Error> {
    let pool = context.one_pool(pool).await?.name;
    // A rollback that is not possible must not interrupt a run.
    let planned = Planned::read(context, &pool, request).await?;
    if dry_run {
        return Ok(planned.report(false));
    }
    let session = PoolSession::new(context, &pool);
    session.with_lease_taken(Box::pin(perform(context, &session, &pool, request))).await
}

/// Cancels the open run, rolls back, and then releases the run's holds, also if the rollback failed.
async fn perform<F: Factory>(
    context: &Context<F>,
    session: &PoolSession<'_, F>,
    pool: &PoolName,
    request: &RollbackRequest,
) -> Result<RollbackReport, Error> {
    let cancelled = session.cancel(&format!("cancelled by a rollback: {}", request.reason)).await?;
    let rolled_back = Box::pin(async {
        if let Some(run) = &cancelled {
            await_include(context, run).await?;
        }
        let planned = Planned::read(context, pool, request).await?;
        planned.write(context).await?;
        Ok::<_, Error>(planned)
    })
    .await;
    let open_run = match &cancelled {
        None => None,
        Some(run) => {
            let (released, end) = match Box::pin(session.resume()).await {
                // Only its holds were left to release. New nodes no longer get the version that its end names.
                Ok(RunReport { end: RunEnd::Closed(Outcome::Completed { .. }), .. }) => {
                    (true, "completed before the rollback".to_owned())
                }
                Ok(report) => (matches!(report.end, RunEnd::Closed(_)), report.end.to_string()),
                Err(error) => (false, to_line(&error)),
            };
            Some(CancelledRun { released, end, ..CancelledRun::new(run) })
        }
    };
    Ok(RollbackReport { open_run, ..rolled_back?.report(true) })
}

/// Waits until the cloud has finished including the version of a cancelled run. Until then it is not known what `latest` resolves to.
async fn await_include<F: Factory>(context: &Context<F>, run: &Run) -> Result<(), Error> {
    let header = &run.header;
    let began = Instant::now();
    while run.is_begun(Step::Include) && began.elapsed() < INCLUDE_TIMEOUT {
        let what = format!("list the versions of `{}`", header.pool);
        let versions = context.factory.versions(&header.definition.name).await.map_err(Error::cloud(what))?;
        let own = versions.iter().find(|version| version.number == header.version);
        if own.is_none_or(|version| version.state != VersionState::Updating) {
            break;
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// A rollback with everything that was read for it.
struct Planned {
    reading: PoolReading,
    saved: Option<OriginalRecipe>,
    open_run: Option<CancelledRun>,
    plan: RollbackPlan,
}

impl Planned {
    async fn read<F: Factory>(context: &Context<F>, pool: &PoolName, request: &RollbackRequest) -> Result<Self, Error> {
        let reading = context.read(context.one_pool(Some(pool)).await?).await?;
        let saved = match request.to {
            RollbackTarget::Original => OriginalStore::new(&context.cluster, &context.namespace, pool).load().await?,
            RollbackTarget::Previous | RollbackTarget::Version(_) => None,
        };
        let runs = context.runs(pool).await?;
        let open_run = runs.last().filter(|run| run.closed.is_none()).map(CancelledRun::new);
        let plan = match (&reading.definition, &open_run) {
            (Some(definition), _) => {
                let input = RollbackInput {
                    pool: &reading.pool,
                    definition,
                    versions: &reading.versions,
                    instances: &reading.instances,
                    original_saved: saved.is_some(),
                    open_run: open_run.as_ref().map(|run| &run.version),
                };
                plan_rollback(request, input)?
            }
            // The first run has not created the definition yet: cancelling the run is all there is to do.
            (None, Some(_)) => RollbackPlan {
                writes: Vec::new(),
                rejected: Vec::new(),
                new_nodes_get: describe_image(&reading.pool.recipe.image),
                pause: None,
                affected: Vec::new(),
            },
            (None, None) => return Err(no_definition(&reading)),
        };
        let saved = match saved {
            Some(saved) => {
                Some(original::with_settings(context, &reading.pool, saved, &request.protected_settings, &runs).await?)
            }
            None => None,
        };
        Ok(Self { reading, saved, open_run, plan })
    }

    async fn write<F: Factory>(&self, context: &Context<F>) -> Result<(), Error> {
        let Self { reading, saved, plan, .. } = self;
        let pool = &reading.pool.name;
        for write in &plan.writes {
            context.emit(pool, None, RunEventKind::Note(write.to_string())).await;
            match write {
                RollbackWrite::Mark(tags) => tag_definition(context, reading, tags).await?,
                RollbackWrite::Include(number) => exclude(context, reading, number, false).await?,
                RollbackWrite::Exclude(number) => exclude(context, reading, number, true).await?,
                RollbackWrite::Delete(number) => {
                    let what = format!("delete version {number}");
                    let accepted = context.factory.delete_version(&reading.definition_name, number).await;
                    context.await_operation(&what, &accepted.map_err(Error::cloud(what.as_str()))?).await?;
                }
                RollbackWrite::Recipe(RecipeTarget::Version(number)) => {
                    let image = ImageSource::ExactVersion(reading.definition_name.clone(), number.clone());
                    let change = RecipeChange { image: Some(image), custom_data: None };
                    set_recipe(context, pool, &change).await?;
                }
                RollbackWrite::Recipe(RecipeTarget::Original) => {
                    let saved = saved.as_ref().expect("planned only if it is saved");
                    original::restore(context, pool, saved).await?;
                }
            }
        }
        Ok(())
    }

    fn report(self, done: bool) -> RollbackReport {
        let Self { reading, open_run, plan, .. } = self;
        RollbackReport { pool: reading.pool.name, done, open_run, plan }
    }
}

/// Unpauses a pool. Rejected versions stay rejected.
pub async fn unpause<F: Factory>(context: &Context<F>, pool: Option<&PoolName>) -> Result<PoolName, Error> {
    let reading = context.read(context.one_pool(pool).await?).await?;
    let definition = reading.definition.as_ref().ok_or_else(|| no_definition(&reading))?;
    let tags = unpause_tags(definition).ok_or_else(|| Error::NotPaused(reading.pool.name.clone()))?;
    tag_definition(context, &reading, &tags).await?;
    Ok(reading.pool.name)
}

fn no_definition(reading: &PoolReading) -> Error {
    let definition = format!("{}/{}", reading.definition_name.gallery, reading.definition_name.definition);
    Error::NoDefinition { pool: reading.pool.name.clone(), definition }
}

async fn tag_definition<F: Factory>(context: &Context<F>, reading: &PoolReading, tags: &Tags) -> Result<(), Error> {
    let definition = reading.definition.as_ref().ok_or_else(|| no_definition(reading))?;
    let what = format!("write tags of the image definition of `{}`", reading.pool.name);
    let accepted = context.factory.tag_definition(definition, tags).await.map_err(Error::cloud(what.as_str()))?;
    context.await_operation(&what, &accepted).await
}

async fn exclude<F: Factory>(
    context: &Context<F>,
    reading: &PoolReading,
    number: &VersionNumber,
    excluded: bool,
) -> Result<(), Error> {
    let what = if excluded { format!("exclude version {number}") } else { format!("include version {number}") };
    let accepted = context.factory.set_excluded(&reading.definition_name, number, excluded).await;
    context.await_operation(&what, &accepted.map_err(Error::cloud(what.as_str()))?).await
}

/// Changes the recipe at its current revision, so that other changes since the pool was read are kept.
async fn set_recipe<F: Factory>(context: &Context<F>, pool: &PoolName, change: &RecipeChange) -> Result<(), Error> {
    let what = format!("change the recipe of `{pool}`");
    let now = context.factory.describe_pool(pool).await.map_err(Error::cloud(what.as_str()))?;
    let revision = now.revision.ok_or_else(|| Error::NoRevision(pool.clone()))?;
    let accepted = context.factory.set_recipe(pool, change, &revision).await.map_err(Error::cloud(what.as_str()))?;
    context.await_operation(&what, &accepted).await
}

impl fmt::Display for RollbackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, done, open_run, plan } = self;
        let rejected = match plan.rejected.as_slice() {
            [] => "nothing".to_owned(),
            all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let target = if plan.new_nodes_get == "original" { "the original recipe" } else { &plan.new_nodes_get };
        if *done {
            writeln!(f, "{pool}: new nodes get {target}; rejected: {rejected}")?;
        } else {
            writeln!(f, "{pool}: new nodes would get {target}; would be rejected: {rejected}")?;
            for write in &plan.writes {
                writeln!(f, "would {write}")?;
            }
        }
        match &plan.pause {
            Some(pause) => writeln!(f, "{pause}")?,
            None => writeln!(f, "the pool is not paused, because it has no image definition yet")?,
        }
        match open_run {
            Some(CancelledRun { run, version, .. }) if !done => {
                writeln!(f, "would cancel run {run}, which is open and would include version {version}")?;
            }
            Some(CancelledRun { run, end, .. }) => writeln!(f, "run {run}: {end}")?,
            None => {}
        }
        if plan.affected.is_empty() {
            return writeln!(f, "no node runs a rejected version");
        }
        let count = plan.affected.len();
        writeln!(f, "nodes that run a rejected version ({count}); replace them with `kiln prototype refresh`:")?;
        plan.affected.iter().try_for_each(|affected| writeln!(f, "  {} runs {}", affected.node, affected.version))
    }
}
