//! All pools at once: a donor for each, or the reason why there is none.

use std::fmt;
use std::num::NonZeroUsize;

use futures_util::{StreamExt, stream};
use kiln_kubernetes::{NodeName, NodeSeen};
use kiln_prototype::donor::{Choice, DonorRules, Node, DonorInput, choose};
use kiln_types::{Factory, Pool, PoolName};

use crate::context::Context;
use crate::error::Error;
use crate::node_facts::facts_of;
use crate::prototype::{is_open, resume, update};
use crate::report::{RunEnd, Report};
use crate::request::{Request, Wish};
use crate::side::Error;

/// Pools that are worked on at once. Each asks the cloud a few times a minute; more would meet its limits for writes of one subscription.
pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// What is asked of all pools.
#[derive(Debug, Clone)]
pub struct AutoRequest {
    /// These pools, or all where there are none.
    pub pools: Vec<PoolName>,
    /// How donors are chosen.
    pub rules: DonorRules,
    /// What is asked of each run.
    pub wish: Wish,
    /// Donors are chosen, and nothing is done.
    pub dry_run: bool,
    /// Pools that are worked on at once.
    pub parallel: NonZeroUsize,
}

/// What became of a pool.
#[derive(Debug)]
pub struct PoolReport {
    pub pool: PoolName,
    /// The choice of a donor, with a reason for every node; none where a run was open and was gone on with.
    pub choice: Option<Choice>,
    /// What became of it.
    pub became: PoolOutcome,
}

/// What became of a pool.
#[derive(Debug)]
pub enum PoolOutcome {
    /// It does not fit, or there is nothing to do. Nothing was touched.
    Skipped(Vec<String>),
    /// This node would be cloned.
    WouldClone(String),
    /// A run was carried.
    Ran(Report),
    /// The operation itself failed.
    Failed(Error),
}

impl PoolOutcome {
    /// Whether the pool is as it was asked for, or was left alone for a reason.
    pub fn is_well(&self) -> bool {
        match self {
            Self::Skipped(_) | Self::WouldClone(_) => true,
            Self::Ran(report) => matches!(report.ending, RunEnd::Completed { .. } | RunEnd::Refused(_)),
            Self::Failed(_) => false,
        }
    }
}

impl fmt::Display for PoolOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(reasons) => write!(f, "skipped: {}", reasons.join("; ")),
            Self::WouldClone(node) => write!(f, "would clone {node}"),
            Self::Ran(report) => report.ending.fmt(f),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

/// Chooses a donor for each pool and makes the pool's nodes from it. Pools that do not fit are skipped; one that fails does not stop others.
pub async fn auto_update<F: Factory>(
    context: &Context<F>,
    request: &AutoRequest,
) -> Result<Vec<PoolReport>, Error> {
    let pools = context.pools(&request.pools).await?;
    let nodes = context.cluster.all_nodes().await?;
    let nodes = &nodes;
    let mut reports: Vec<PoolReport> = stream::iter(pools)
        .map(|pool| async move {
            let name = pool.name.clone();
            let failed = |error| PoolReport { pool: name, choice: None, became: PoolOutcome::Failed(error) };
            Box::pin(one(context, request, pool, nodes)).await.unwrap_or_else(failed)
        })
        .buffer_unordered(request.parallel.get())
        .collect()
        .await;
    reports.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(reports)
}

async fn one<F: Factory>(
    context: &Context<F>,
    request: &AutoRequest,
    pool: Pool,
    nodes: &[NodeSeen],
) -> Result<PoolReport, Error> {
    let name = pool.name.clone();
    if !request.dry_run && is_open(context, &name).await? {
        let became = ran(resume(context, &name).await?);
        return Ok(PoolReport { pool: name, choice: None, became });
    }
    let reading = match context.read(pool).await {
        Ok(reading) => reading,
        Err(Error::Operate(error)) => return Err(error),
        Err(other) => {
            let became = PoolOutcome::Skipped(vec![other.to_string()]);
            return Ok(PoolReport { pool: name, choice: None, became });
        }
    };
    let of_pool = |node: &&NodeSeen| node.machine().is_none_or(|machine| machine.is_of(&name));
    let facts: Vec<Node> = nodes.iter().filter(of_pool).map(facts_of).collect();
    let around = DonorInput {
        pool: &reading.pool,
        instances: &reading.instances,
        line: reading.line.as_ref(),
        versions: &reading.versions,
        own_node: context.own_node.as_ref().map(NodeName::as_str),
        own_run: None,
        now: context.now(),
    };
    let choice = choose(&facts, &request.rules, around);
    let became = match &choice.donor {
        Err(why) => PoolOutcome::Skipped(vec![why.to_string()]),
        Ok(donor) if request.dry_run => PoolOutcome::WouldClone(donor.clone()),
        Ok(donor) => {
            let node = NodeName::try_from(donor.clone()).map_err(Error::BadNode)?;
            ran(update(context, &Request { node, wish: request.wish.clone() }).await?)
        }
    };
    Ok(PoolReport { pool: name, choice: Some(choice), became })
}

fn ran(report: Report) -> PoolOutcome {
    match report.ending {
        RunEnd::Refused(reasons) if report.run.is_none() => PoolOutcome::Skipped(reasons),
        _ => PoolOutcome::Ran(report),
    }
}
