//! What the journals tell of earlier runs.

use std::fmt;

use jiff::Timestamp;
use kiln_prototype::journal::{Outcome, Run};
use kiln_prototype::span::format_span;
use kiln_prototype::run::RunId;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{Factory, PoolName, VersionNumber};
use serde::Serialize;

use crate::Context;
use crate::side::Error;

/// The runs of a pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolHistory {
    pub pool: PoolName,
    /// Its runs, the newest first.
    pub runs: Vec<RunSummary>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    pub run: RunId,
    /// The version that it made, or was to make.
    pub version: VersionNumber,
    pub donor: String,
    /// Who started it.
    pub who: String,
    pub started: Timestamp,
    /// When something happened last.
    pub last: Timestamp,
    /// How it ended; none while it is open.
    pub outcome: Option<Outcome>,
    /// What it holds while it is open, the last taken first.
    pub held: Vec<Hold>,
    /// The steps that were begun or found done, in their order.
    pub steps: Vec<StepSummary>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSummary {
    pub step: Step,
    /// How often it was begun; never, where it was found done.
    pub attempts: u32,
    /// Seconds from its beginning to its end.
    pub seconds: Option<i64>,
    /// Whether it was done.
    pub done: bool,
    /// What went wrong.
    pub failures: Vec<String>,
}

/// The runs of pools, from their journals.
pub async fn history<F: Factory>(context: &Context<F>, asked: &[PoolName]) -> Result<Vec<PoolHistory>, Error> {
    let mut all = Vec::new();
    for pool in context.pools(asked).await? {
        let runs = context.runs(&pool.name).await?;
        all.push(PoolHistory { pool: pool.name, runs: runs.iter().rev().map(RunSummary::of).collect() });
    }
    Ok(all)
}

impl RunSummary {
    /// What a replayed run tells.
    pub fn of(run: &Run) -> Self {
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
            held: if run.closed.is_some() { Vec::new() } else { run.holds() },
            steps: steps.collect(),
        }
    }
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, version, donor, who, started, last, outcome, held, .. } = self;
        let took = std::time::Duration::try_from(last.duration_since(*started)).unwrap_or_default();
        write!(f, "{started:.0}  run {run}: {version} from {donor}, by {who}: ")?;
        match outcome {
            Some(Outcome::Completed { .. }) => write!(f, "completed in {}", format_span(took)),
            Some(Outcome::Failed { step, failure }) => {
                write!(f, "failed at {step} after {}, all given back: {failure}", format_span(took))
            }
            Some(Outcome::Rejected { reason, .. }) => {
                write!(f, "its canary failed after {}, the version stays excluded: {reason}", format_span(took))
            }
            None if held.is_empty() => f.write_str("open, holds nothing; `kiln prototype resume` goes on with it"),
            None => {
                let held: Vec<String> = held.iter().map(ToString::to_string).collect();
                write!(f, "open, holds {}; `kiln prototype resume` goes on with it", held.join(", "))
            }
        }
    }
}

impl fmt::Display for StepSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14}", self.step)?;
        match (self.done, self.attempts, self.seconds) {
            (true, 0, _) => f.write_str("found done")?,
            (true, 1, seconds) => write!(f, "{} s", seconds.unwrap_or_default())?,
            (true, tries, seconds) => write!(f, "{} s, {tries} tries", seconds.unwrap_or_default())?,
            (false, tries, _) => write!(f, "not done, {tries} tries")?,
        }
        match self.failures.last() {
            Some(last) => write!(f, "; last failure: {last}"),
            None => Ok(()),
        }
    }
}
