//! Earlier runs, from the journals.

use std::fmt;

use jiff::Timestamp;
use kiln_prototype::journal::{Outcome, Run};
use kiln_prototype::run::RunId;
use kiln_prototype::span::format_span;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{Factory, NodeName, PoolName, VersionNumber};
use serde::Serialize;

use crate::run::list;
use crate::{Context, Error};

/// The runs of a pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolHistory {
    pub pool: PoolName,
    /// Newest first.
    pub runs: Vec<RunSummary>,
}

/// A run, summarised.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    pub run: RunId,
    pub version: VersionNumber,
    pub donor: NodeName,
    pub who: String,
    pub started: Timestamp,
    /// The time of the last event.
    pub last: Timestamp,
    /// Absent while the run is open.
    pub outcome: Option<Outcome>,
    /// Last acquired first; empty once the run is closed.
    pub holds: Vec<Hold>,
    pub steps: Vec<StepSummary>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSummary {
    pub step: Step,
    /// 0 if the step was found done.
    pub attempts: u32,
    pub seconds: Option<i64>,
    pub done: bool,
    pub failures: Vec<String>,
}

/// Reads the runs of pools.
pub async fn history<F: Factory>(context: &Context<F>, names: &[PoolName]) -> Result<Vec<PoolHistory>, Error> {
    let mut all = Vec::new();
    for pool in context.pools(names).await? {
        let runs = context.runs(&pool.name).await?;
        all.push(PoolHistory { pool: pool.name, runs: runs.iter().rev().map(RunSummary::new).collect() });
    }
    Ok(all)
}

impl RunSummary {
    /// Summarises a replayed run.
    pub fn new(run: &Run) -> Self {
        let steps = Step::ALL.into_iter().filter_map(|step| {
            let progress = run.step(step)?;
            let took = progress.began.zip(progress.done.as_ref()).map(|(began, (at, _))| at.duration_since(began));
            Some(StepSummary {
                step,
                attempts: progress.attempts,
                seconds: took.map(|took| took.as_secs()),
                done: progress.done.is_some(),
                failures: progress.failures.iter().map(|(_, failure)| failure.to_string()).collect(),
            })
        });
        Self {
            run: run.id.clone(),
            version: run.header.version.clone(),
            donor: run.header.donor.node.clone(),
            who: run.header.who.clone(),
            started: run.header.started,
            last: run.last,
            outcome: run.closed.as_ref().map(|(_, outcome)| outcome.clone()),
            holds: if run.closed.is_some() { Vec::new() } else { run.holds() },
            steps: steps.collect(),
        }
    }
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, version, donor, who, started, last, outcome, holds, .. } = self;
        let took = std::time::Duration::try_from(last.duration_since(*started)).unwrap_or_default();
        write!(f, "{started:.0}  run {run}: {version} from {donor}, by {who}: ")?;
        match outcome {
            Some(Outcome::Completed { .. }) => write!(f, "completed in {}", format_span(took)),
            Some(Outcome::Failed { step, failure }) => {
                write!(f, "failed at {step} after {}, all holds released: {failure}", format_span(took))
            }
            Some(Outcome::Rejected { reason, .. }) => {
                write!(f, "rejected after {}: {reason}", format_span(took))
            }
            None => write!(f, "open, holds {}; continue it with `kiln prototype resume`", list(holds)),
        }
    }
}

impl fmt::Display for StepSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16}", self.step)?;
        match (self.done, self.attempts, self.seconds) {
            (true, 0, _) => f.write_str("found done")?,
            (true, 1, seconds) => write!(f, "{} s", seconds.unwrap_or_default())?,
            (true, attempts, seconds) => write!(f, "{} s, {attempts} attempts", seconds.unwrap_or_default())?,
            (false, attempts, _) => write!(f, "not done, {attempts} attempts")?,
        }
        match self.failures.last() {
            Some(last) => write!(f, "; last failure: {last}"),
            None => Ok(()),
        }
    }
}
