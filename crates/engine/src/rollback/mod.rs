//! Rollback: performs the writes that [`kiln_prototype::rollback`] plans, in order.

mod original;

use std::fmt;

use kiln_kubernetes::OriginalStore;
use kiln_prototype::rollback::{
    RecipeTarget, RollbackInput, RollbackPlan, RollbackRequest, RollbackTarget, RollbackWrite, plan_rollback,
    unpause as unpause_tags,
};
use kiln_types::{Factory, ImageSource, PoolName, RecipeChange, Tags, VersionNumber};
use serde::Serialize;

use crate::event::RunEventKind;
use crate::pools::PoolReading;
use crate::{Context, Error};

/// The result of a rollback or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackReport {
    pub pool: PoolName,
    /// `false` for a dry run.
    pub done: bool,
    /// The open run and the version that it would include.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<String>,
    #[serde(flatten)]
    pub plan: RollbackPlan,
}

/// Rolls a pool back and pauses it. Without a name the resource group must have a single pool.
pub async fn rollback<F: Factory>(
    context: &Context<F>,
    pool: Option<&PoolName>,
    request: &RollbackRequest,
    dry_run: bool,
) -> Result<RollbackReport, Error> {
    let reading = context.read(context.one_pool(pool).await?).await?;
    let pool = reading.pool.name.clone();
    let definition = reading.definition.as_ref().ok_or_else(|| no_definition(&reading))?;
    let saved = match request.to {
        RollbackTarget::Original => OriginalStore::new(&context.cluster, &context.namespace, &pool).load().await?,
        RollbackTarget::Previous | RollbackTarget::Version(_) => None,
    };
    let input = RollbackInput {
        pool: &reading.pool,
        definition,
        versions: &reading.versions,
        instances: &reading.instances,
        original_saved: saved.is_some(),
    };
    let plan = plan_rollback(request, input)?;
    let runs = context.runs(&pool).await?;
    let saved = match saved {
        Some(saved) => {
            Some(original::with_settings(context, &reading.pool, saved, &request.protected_settings, &runs).await?)
        }
        None => None,
    };
    let open_run = runs
        .last()
        .filter(|run| run.closed.is_none())
        .map(|run| format!("run {} is open and would include version {}", run.id, run.header.version));
    if dry_run {
        return Ok(RollbackReport { pool, done: false, open_run, plan });
    }
    for write in &plan.writes {
        context.emit(&pool, None, RunEventKind::Note(write.to_string())).await;
        match write {
            RollbackWrite::Mark(tags) => tag_definition(context, &reading, tags).await?,
            RollbackWrite::Include(number) => exclude(context, &reading, number, false).await?,
            RollbackWrite::Exclude(number) => exclude(context, &reading, number, true).await?,
            RollbackWrite::Delete(number) => {
                let what = format!("delete version {number}");
                let accepted = context.factory.delete_version(&reading.definition_name, number).await;
                context.await_operation(&what, &accepted.map_err(Error::cloud(what.as_str()))?).await?;
            }
            RollbackWrite::Recipe(RecipeTarget::Version(number)) => {
                let image = ImageSource::ExactVersion(reading.definition_name.clone(), number.clone());
                let change = RecipeChange { image: Some(image), custom_data: None };
                set_recipe(context, &pool, &change).await?;
            }
            RollbackWrite::Recipe(RecipeTarget::Original) => {
                let saved = saved.as_ref().expect("planned only if it is saved");
                original::restore(context, &pool, saved).await?;
            }
        }
    }
    Ok(RollbackReport { pool, done: true, open_run, plan })
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
        writeln!(f, "{}", plan.pause)?;
        if let Some(run) = open_run {
            writeln!(f, "{run}; if it has the same defect, stop it, or roll back again when it is done")?;
        }
        if plan.affected.is_empty() {
            return writeln!(f, "no node runs a rejected version");
        }
        let count = plan.affected.len();
        writeln!(f, "nodes that run a rejected version ({count}); replace them with `kiln prototype refresh`:")?;
        plan.affected.iter().try_for_each(|affected| writeln!(f, "  {} runs {}", affected.node, affected.version))
    }
}
