//! Runs on all pools: chooses a donor for each, or gives the reasons why there is none.

use std::fmt;
use std::num::NonZeroUsize;

use futures_util::{StreamExt, stream};
use kiln_kubernetes::ProviderId;
use kiln_prototype::donor::{Choice, DonorInput, DonorRules, choose, not_proven};
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunOptions;
use kiln_types::{Factory, Node, NodeName, Pool, PoolName};

use super::session::PoolSession;
use super::{RunEnd, RunReport, RunRequest, resume, update};
use crate::context::Context;
use crate::error::Error;

/// How many pools run at the same time. Each sends a few requests a minute; more would reach Azure's write limits per subscription.
pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Runs on several pools.
#[derive(Debug, Clone)]
pub struct AutoRequest {
    /// Empty for all pools.
    pub pools: Vec<PoolName>,
    pub rules: DonorRules,
    pub options: RunOptions,
    /// Choose donors without starting runs.
    pub dry_run: bool,
    pub parallel: NonZeroUsize,
}

/// The result for one pool.
#[derive(Debug)]
pub struct PoolReport {
    pub pool: PoolName,
    /// Absent if an open run was resumed.
    pub choice: Option<Choice>,
    pub outcome: PoolOutcome,
}

/// The result for a pool.
#[derive(Debug)]
pub enum PoolOutcome {
    /// No donor was chosen, or the run was refused. Nothing was changed.
    Skipped(Vec<String>),
    /// With `dry_run`: the donor.
    WouldClone(NodeName),
    Ran(RunReport),
    Failed(Error),
}

impl PoolOutcome {
    /// Whether the run completed or was skipped.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Skipped(_) | Self::WouldClone(_) => true,
            Self::Ran(report) => {
                matches!(report.end, RunEnd::Closed(Outcome::Completed { .. }) | RunEnd::Refused(_))
            }
            Self::Failed(_) => false,
        }
    }
}

impl fmt::Display for PoolOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(reasons) => write!(f, "skipped: {}", reasons.join("; ")),
            Self::WouldClone(node) => write!(f, "would clone {node}"),
            Self::Ran(report) => report.end.fmt(f),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

/// Chooses a donor for each pool and starts a run with it. Pools without a donor are skipped; a failure on one pool does not affect others.
pub async fn auto_update<F: Factory>(context: &Context<F>, request: &AutoRequest) -> Result<Vec<PoolReport>, Error> {
    let pools = context.pools(&request.pools).await?;
    let nodes = context.cluster.all_nodes().await?;
    let nodes = &nodes;
    let mut reports: Vec<PoolReport> = stream::iter(pools)
        .map(|pool| async move {
            let name = pool.name.clone();
            let failed = |error| PoolReport { pool: name, choice: None, outcome: PoolOutcome::Failed(error) };
            Box::pin(run_on_pool(context, request, pool, nodes)).await.unwrap_or_else(failed)
        })
        .buffer_unordered(request.parallel.get())
        .collect()
        .await;
    reports.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(reports)
}

async fn run_on_pool<F: Factory>(
    context: &Context<F>,
    request: &AutoRequest,
    pool: Pool,
    nodes: &[Node],
) -> Result<PoolReport, Error> {
    let name = pool.name.clone();
    if !request.dry_run && PoolSession::new(context, &name).has_open_run().await? {
        let outcome = outcome_of(resume(context, &name).await?);
        return Ok(PoolReport { pool: name, choice: None, outcome });
    }
    let reading = context.read(pool).await?;
    let runs = context.runs(&name).await?;
    let of_pool = |node: &&Node| ProviderId::from_node(node).is_none_or(|id| id.is_of(&name));
    let nodes: Vec<Node> = nodes.iter().filter(of_pool).cloned().collect();
    let input = DonorInput {
        pool: &reading.pool,
        instances: &reading.instances,
        definition: reading.definition.as_ref(),
        versions: &reading.versions,
        not_proven: &not_proven(&runs),
        own_node: context.own_node.as_ref().map(NodeName::as_str),
        own_run: None,
        now: context.now(),
    };
    let choice = choose(&nodes, &request.rules, input);
    let outcome = match &choice.donor {
        Err(reason) => PoolOutcome::Skipped(vec![reason.to_string()]),
        Ok(donor) if request.dry_run => PoolOutcome::WouldClone(donor.clone()),
        Ok(donor) => {
            let request = RunRequest { node: donor.clone(), options: request.options.clone() };
            outcome_of(update(context, &request).await?)
        }
    };
    Ok(PoolReport { pool: name, choice: Some(choice), outcome })
}

fn outcome_of(report: RunReport) -> PoolOutcome {
    match report.end {
        RunEnd::Refused(reasons) if report.run.is_none() => PoolOutcome::Skipped(reasons),
        _ => PoolOutcome::Ran(report),
    }
}
