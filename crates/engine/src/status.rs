//! How pools stand.

use std::fmt;

use kiln_prototype::journal::{Outcome, Run};
use kiln_prototype::span::Span;
use kiln_prototype::status::{AgeVerdict, Sight, Status};
use kiln_types::{Factory, ImageSource, PoolName};
use serde::Serialize;

use crate::Context;
use crate::side::{Reading, Error};

/// How pools stand.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// Each pool.
    pub pools: Vec<PoolStatus>,
}

/// How a pool stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Its versions and what is made of them.
    #[serde(flatten)]
    pub status: Status,
    /// The run that is open, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<OpenRun>,
    /// What `--max-age` makes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<AgeVerdict>,
}

/// A run that nobody ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRun {
    pub run: String,
    /// The step that is at hand.
    pub step: Option<String>,
    /// What it holds, the last taken first.
    pub held: Vec<String>,
}

/// Takes stock of pools. Nothing is written.
pub async fn status<F: Factory>(
    context: &Context<F>,
    asked: &[PoolName],
    max_age: Option<Span>,
) -> Result<StatusReport, Error> {
    let mut pools = Vec::new();
    for pool in context.pools(asked).await? {
        let reading = context.read(pool).await?;
        let runs = context.runs(&reading.pool.name).await?;
        pools.push(of(context, &reading, &runs, max_age));
    }
    Ok(StatusReport { pools })
}

fn of<F: Factory>(context: &Context<F>, reading: &Reading, runs: &[Run], max_age: Option<Span>) -> PoolStatus {
    let last_set = last_set(reading, runs);
    let status = Status::of(Sight {
        pool: &reading.pool,
        definition_name: &reading.definition_name,
        line: reading.line.as_ref(),
        versions: &reading.versions,
        instances: &reading.instances,
        last_set: last_set.as_ref(),
        now: context.now(),
    });
    let open = runs.last().filter(|run| run.closed.is_none());
    PoolStatus {
        max_age: max_age.map(|most| status.max_age(most)),
        open_run: open.map(|run| OpenRun {
            run: run.id.to_string(),
            step: kiln_prototype::decide::current(run).map(|step| step.to_string()),
            held: run.holds().iter().map(ToString::to_string).collect(),
        }),
        status,
    }
}

/// What the last completed run pointed the model at. A roll back since then set something else, and its marks are on the line.
fn last_set(reading: &Reading, runs: &[Run]) -> Option<ImageSource> {
    let run = runs.iter().rev().find(|run| matches!(&run.closed, Some((_, Outcome::Completed { .. }))))?;
    let header = &run.header;
    let bad = reading.line.as_ref().map(|line| kiln_prototype::rollback::numbers(&line.tags)).unwrap_or_default();
    if bad.contains(&header.version) {
        return None;
    }
    let line = header.line.name.clone();
    Some(if header.options.pin {
        ImageSource::ExactVersion(line, header.version.clone())
    } else {
        ImageSource::Definition(line)
    })
}

impl StatusReport {
    /// The pools whose new nodes get something older than was asked for.
    pub fn too_old(&self) -> impl Iterator<Item = &PoolStatus> {
        self.pools.iter().filter(|pool| pool.max_age.is_some_and(|verdict| !verdict.holds()))
    }
}

impl fmt::Display for PoolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(OpenRun { run, step, held }) = &self.open_run {
            let step = step.as_deref().unwrap_or("its end");
            let held = if held.is_empty() { "nothing".to_owned() } else { held.join(", ") };
            writeln!(f, "run {run} is open at {step} and holds {held}; `kiln prototype resume` goes on with it")?;
        }
        match &self.max_age {
            Some(verdict) => writeln!(f, "{verdict}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StatusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pools.is_empty() {
            return writeln!(f, "no scale sets in this resource group");
        }
        for (index, pool) in self.pools.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{pool}")?;
        }
        Ok(())
    }
}
