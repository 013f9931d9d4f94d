//! Rolling back, as [`kiln_prototype::rollback`] decides it.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use kiln_kubernetes::OriginalStore;
use kiln_prototype::rollback::{Ask, Back, Place, RecipeTo, To, Write, decide, unpause};
use kiln_types::{Factory, ImageSource, PoolName, RecipeChange, Tags};
use serde::Serialize;

use crate::news::RunEventKind;
use crate::original::put_back;
use crate::side::{Reading, Error};
use crate::{Context, Error};

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct RollbackRequest {
    /// The pool; the only one where none is named.
    pub pool: Option<PoolName>,
    /// Where to.
    pub to: To,
    /// Whether the bad versions go for good.
    pub delete: bool,
    /// The day from which automatic runs go on.
    pub after: Option<Date>,
    pub reason: Option<String>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What a roll back did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackReport {
    pub pool: PoolName,
    /// Whether it was done.
    pub done: bool,
    /// A run that is open, and the version that it would give to new nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<String>,
    /// What was decided.
    #[serde(flatten)]
    pub back: Back,
}

/// Takes a bad version away from new nodes and puts the pool on hold.
pub async fn rollback<F: Factory>(context: &Context<F>, request: &RollbackRequest) -> Result<RollbackReport, Error> {
    let reading = context.read(context.one_pool(request.pool.as_ref()).await?).await?;
    let pool = reading.pool.name.clone();
    let line = reading.line.as_ref().ok_or_else(|| no_line(&reading))?;
    let saved = match request.to {
        To::Original => OriginalStore::new(&context.cluster, &context.namespace, &pool).load().await?,
        To::Previous | To::Version(_) => None,
    };
    let ask = Ask {
        to: request.to.clone(),
        delete: request.delete,
        reason: request.reason.clone().unwrap_or_else(|| "rolled back by a person".to_owned()),
        after: request.after,
        who: context.who.clone(),
        at: to_the_second(context.now()),
    };
    let place = Place {
        pool: &reading.pool,
        line,
        versions: &reading.versions,
        instances: &reading.instances,
        original_saved: saved.is_some(),
    };
    let back = decide(&ask, place)?;
    let runs = context.runs(&pool).await?;
    let open_run = runs
        .last()
        .filter(|run| run.closed.is_none())
        .map(|run| format!("run {} is open and would give {} to new nodes", run.id, run.header.version));
    if request.dry_run {
        return Ok(RollbackReport { pool, done: false, open_run, back });
    }
    for write in &back.writes {
        context.tell(&pool, None, RunEventKind::Note(describe(write))).await;
        match write {
            Write::Mark(tags) => mark(context, &reading, tags).await?,
            Write::Include(number) => exclude(context, &reading, number, false).await?,
            Write::Exclude(number) => exclude(context, &reading, number, true).await?,
            Write::Delete(number) => {
                let what = format!("delete version {number}");
                let asked = context.factory.delete_version(&reading.definition_name, number).await;
                context.settle(&what, &asked.map_err(Error::cloud(what.as_str()))?).await?;
            }
            Write::Recipe(RecipeTo::Version(number)) => {
                let image = ImageSource::ExactVersion(reading.definition_name.clone(), number.clone());
                let change = RecipeChange { image: Some(image), custom_data: None };
                set_recipe(context, &pool, &change).await?;
            }
            Write::Recipe(RecipeTo::Original) => {
                let saved = saved.as_ref().expect("decided only where it is saved");
                put_back(context, &pool, saved).await?;
            }
        }
    }
    Ok(RollbackReport { pool, done: true, open_run, back })
}

/// Lets automatic runs go on. What was bad stays remembered.
pub async fn unpause<F: Factory>(context: &Context<F>, pool: Option<&PoolName>) -> Result<PoolName, Error> {
    let reading = context.read(context.one_pool(pool).await?).await?;
    let line = reading.line.as_ref().ok_or_else(|| no_line(&reading))?;
    let tags = unpause(line).ok_or_else(|| Error::NotHeld(reading.pool.name.clone()))?;
    mark(context, &reading, &tags).await?;
    Ok(reading.pool.name)
}

pub(crate) fn no_line(reading: &Reading) -> Error {
    let line = format!("{}/{}", reading.definition_name.gallery, reading.definition_name.definition);
    Error::NoLine { pool: reading.pool.name.clone(), line }
}

async fn mark<F: Factory>(context: &Context<F>, reading: &Reading, tags: &Tags) -> Result<(), Error> {
    let line = reading.line.as_ref().ok_or_else(|| no_line(reading))?;
    let what = format!("write tags of the image definition of `{}`", reading.pool.name);
    let asked = context.factory.tag_definition(line, tags).await.map_err(Error::cloud(what.as_str()))?;
    context.settle(&what, &asked).await
}

async fn exclude<F: Factory>(
    context: &Context<F>,
    reading: &Reading,
    number: &kiln_types::VersionNumber,
    excluded: bool,
) -> Result<(), Error> {
    let what = if excluded { format!("exclude version {number}") } else { format!("include version {number}") };
    let asked = context.factory.set_excluded(&reading.definition_name, number, excluded).await;
    context.settle(&what, &asked.map_err(Error::cloud(what.as_str()))?).await
}

/// Changes the recipe as it is now: somebody else may have written since it was read, and their other changes stay.
pub(crate) async fn set_recipe<F: Factory>(
    context: &Context<F>,
    pool: &PoolName,
    change: &RecipeChange,
) -> Result<(), Error> {
    let what = format!("change what new nodes of `{pool}` are made from");
    let now = context.factory.describe_pool(pool).await.map_err(Error::cloud(what.as_str()))?;
    let revision = now.revision.unwrap_or_else(|| kiln_types::Revision::new("*"));
    let asked = context.factory.set_recipe(pool, change, &revision).await.map_err(Error::cloud(what.as_str()))?;
    context.settle(&what, &asked).await
}

fn describe(write: &Write) -> String {
    match write {
        Write::Mark(_) => "mark the image definition: on hold, and what was bad".to_owned(),
        Write::Include(number) => format!("include version {number}"),
        Write::Exclude(number) => format!("exclude version {number}"),
        Write::Delete(number) => format!("delete version {number}"),
        Write::Recipe(RecipeTo::Version(number)) => format!("point the scale set at version {number}"),
        Write::Recipe(RecipeTo::Original) => "put the recipe before the first run back".to_owned(),
    }
}

impl fmt::Display for RollbackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, done, open_run, back } = self;
        let bad: Vec<String> = back.bad.iter().map(ToString::to_string).collect();
        let then = if back.then == "original" { "the recipe before the first run" } else { &back.then };
        if *done {
            writeln!(f, "{pool}: new nodes get {then}; taken back: {}", or_none(&bad))?;
        } else {
            writeln!(f, "{pool}: new nodes would get {then}; would be taken back: {}", or_none(&bad))?;
            for write in &back.writes {
                writeln!(f, "would {}", describe(write))?;
            }
        }
        writeln!(f, "{}", back.hold)?;
        if let Some(run) = open_run {
            writeln!(f, "{run}; if that has the same fault, stop it, or roll back again once it is done")?;
        }
        if back.running.is_empty() {
            return writeln!(f, "no node runs what was taken back");
        }
        writeln!(
            f,
            "nodes that run what was taken back ({}); `kiln prototype refresh` replaces them:",
            back.running.len()
        )?;
        back.running.iter().try_for_each(|running| writeln!(f, "  {} runs {}", running.node, running.version))
    }
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
}

/// Nobody reads more of it, and a tag has little room.
fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
