//! The status of pools.

use std::fmt;

use kiln_prototype::decide::current_step;
use kiln_prototype::journal::{Outcome, Run};
use kiln_prototype::rollback::rejected_numbers;
use kiln_prototype::span::Span;
use kiln_prototype::status::{AgeCheck, Status, StatusInput};
use kiln_types::{Factory, ImageSource, PoolName};
use serde::Serialize;

use crate::pools::PoolReading;
use crate::{Context, Error};

/// The status of pools.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    pub pools: Vec<PoolStatus>,
}

/// The status of a pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    #[serde(flatten)]
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<OpenRun>,
    /// The result of `--max-age`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<AgeCheck>,
}

/// An open run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRun {
    pub run: String,
    pub step: Option<String>,
    /// Last acquired first.
    pub holds: Vec<String>,
}

/// Reads the status of pools.
pub async fn status<F: Factory>(
    context: &Context<F>,
    names: &[PoolName],
    max_age: Option<Span>,
) -> Result<StatusReport, Error> {
    let mut pools = Vec::new();
    for pool in context.pools(names).await? {
        let reading = context.read(pool).await?;
        let runs = context.runs(&reading.pool.name).await?;
        pools.push(pool_status(context, &reading, &runs, max_age));
    }
    Ok(StatusReport { pools })
}

fn pool_status<F: Factory>(
    context: &Context<F>,
    reading: &PoolReading,
    runs: &[Run],
    max_age: Option<Span>,
) -> PoolStatus {
    let last_set = last_set(reading, runs);
    let status = Status::new(StatusInput {
        pool: &reading.pool,
        definition_name: &reading.definition_name,
        definition: reading.definition.as_ref(),
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
            step: current_step(run).map(|step| step.to_string()),
            holds: run.holds().iter().map(ToString::to_string).collect(),
        }),
        status,
    }
}

/// The image that the last completed run set in the model; absent if that version was rolled back since.
fn last_set(reading: &PoolReading, runs: &[Run]) -> Option<ImageSource> {
    let run = runs.iter().rev().find(|run| matches!(&run.closed, Some((_, Outcome::Completed { .. }))))?;
    let header = &run.header;
    let rejected = reading.definition.as_ref().map(|one| rejected_numbers(&one.tags)).unwrap_or_default();
    if rejected.contains(&header.version) {
        return None;
    }
    let definition = header.definition.name.clone();
    Some(if header.options.pin {
        ImageSource::ExactVersion(definition, header.version.clone())
    } else {
        ImageSource::Definition(definition)
    })
}

impl StatusReport {
    /// The pools whose new nodes get a version older than `--max-age`.
    pub fn too_old(&self) -> impl Iterator<Item = &PoolStatus> {
        self.pools.iter().filter(|pool| pool.max_age.is_some_and(|check| !check.is_fresh()))
    }
}

impl fmt::Display for PoolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(OpenRun { run, step, holds }) = &self.open_run {
            let step = step.as_deref().unwrap_or("its end");
            let holds = if holds.is_empty() { "nothing".to_owned() } else { holds.join(", ") };
            writeln!(f, "run {run} is open at {step} and holds {holds}; continue it with `kiln prototype resume`")?;
        }
        match &self.max_age {
            Some(check) => writeln!(f, "{check}"),
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
