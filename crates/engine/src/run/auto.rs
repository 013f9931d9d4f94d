//! Runs on all pools: chooses a donor for each, or gives the reasons why there is none.

use std::fmt;
use std::num::NonZeroUsize;

use futures_util::{StreamExt, stream};
use kiln_kubernetes::{EventKind, NodeEvent, ProviderId};
use kiln_prototype::donor::{Choice, DonorInput, DonorRules, SkipProblem, SkipRecord, choose, not_proven};
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunOptions;
use kiln_types::error_chain::to_line;
use kiln_types::{Factory, Node, NodeName, Pool, PoolName};

use super::header::owner_of;
use super::session::PoolSession;
use super::{RunEnd, RunReport, RunRequest, resume, update};
use crate::context::Context;
use crate::error::Error;
use crate::event::RunEventKind;

/// How many pools run at the same time. Each sends a few requests a minute; more would reach Azure's write limits per subscription.
pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// How many donors of a pool are tried. Each costs an inspection; a sixth refusal would most likely have the same reason.
const MAX_DONORS: usize = 5;

/// Runs on several pools.
#[derive(Debug, Clone)]
pub struct AutoRequest {
    /// Empty for all pools.
    pub pools: Vec<PoolName>,
    pub rules: DonorRules,
    pub options: RunOptions,
    /// Choose donors without starting runs.
    pub dry_run: bool,
    /// From how many skipped nights in a row on a pool needs a person.
    pub max_skipped_nights: u32,
    pub parallel: NonZeroUsize,
}

/// The result for one pool.
#[derive(Debug)]
pub struct PoolReport {
    pub pool: PoolName,
    /// Absent if an open run was resumed.
    pub choice: Option<Choice>,
    /// Donors that were tried before the last one, with the reasons why each was refused.
    pub refused: Vec<(NodeName, Vec<String>)>,
    pub outcome: PoolOutcome,
    /// For a skipped pool: how often it was skipped in a row.
    pub skipped: Option<SkipRecord>,
    /// For a skipped pool: why it needs a person.
    pub problem: Option<SkipProblem>,
}

impl PoolReport {
    fn new(pool: PoolName, outcome: PoolOutcome) -> Self {
        Self { pool, choice: None, refused: Vec::new(), outcome, skipped: None, problem: None }
    }
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
            let failed = |error| PoolReport::new(name, PoolOutcome::Failed(error));
            let mut report = Box::pin(run_on_pool(context, request, pool, nodes)).await.unwrap_or_else(failed);
            if !request.dry_run {
                count_skipped(context, request, &mut report, nodes).await;
            }
            report
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
        return Ok(PoolReport::new(name, outcome));
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
    let mut refused = Vec::new();
    let outcome = match &choice.donor {
        Err(reason) => PoolOutcome::Skipped(vec![reason.to_string()]),
        Ok(donor) if request.dry_run => PoolOutcome::WouldClone(donor.clone()),
        Ok(_) => loop {
            let donor = choice.donors().nth(refused.len()).expect("the loop ends after the last donor");
            let request = RunRequest { node: donor.clone(), options: request.options.clone() };
            let outcome = outcome_of(update(context, &request).await?);
            let is_last = refused.len() + 1 == choice.donors().take(MAX_DONORS).count();
            match outcome {
                PoolOutcome::Skipped(reasons) if !is_last => refused.push((donor.clone(), reasons)),
                outcome => break outcome,
            }
        },
    };
    Ok(PoolReport { choice: Some(choice), refused, ..PoolReport::new(name, outcome) })
}

/// Updates the record of skipped nights. Failing to do so changes nothing about the pool, so it is only reported.
async fn count_skipped<F: Factory>(
    context: &Context<F>,
    request: &AutoRequest,
    report: &mut PoolReport,
    nodes: &[Node],
) {
    let (namespace, pool) = (&context.namespace, &report.pool);
    let counted = async {
        if !matches!(report.outcome, PoolOutcome::Skipped(_)) {
            return context.cluster.set_skip_record::<SkipRecord>(namespace, pool, None).await.map(|()| None);
        }
        let today = jiff::tz::Offset::UTC.to_datetime(context.now()).date();
        let record = SkipRecord::after(context.cluster.skip_record(namespace, pool).await?, today);
        context.cluster.set_skip_record(namespace, pool, Some(&record)).await.map(|()| Some(record))
    };
    match counted.await {
        Ok(record) => report.skipped = record,
        Err(error) => {
            let note = format!("the skipped night could not be recorded: {}", to_line(&error));
            context.emit(pool, None, RunEventKind::Note(note)).await;
        }
    }
    let Some(record) = &report.skipped else { return };
    report.problem = SkipProblem::find(report.choice.as_ref(), record, request.max_skipped_nights);
    let of_pool = |node: &&Node| ProviderId::from_node(node).is_some_and(|id| id.is_of(pool));
    if let (Some(problem), Some(node)) = (&report.problem, nodes.iter().find(of_pool)) {
        let note = format!("pool `{pool}` was skipped {} nights in a row: {problem}", record.nights);
        let event = NodeEvent { kind: EventKind::Warning, action: "Skip", reason: "PrototypeSkipped", note };
        // The event is only informative.
        let _ = context.cluster.record_event(node, &owner_of(&context.new_id()), &event).await;
    }
}

fn outcome_of(report: RunReport) -> PoolOutcome {
    match report.end {
        RunEnd::Refused(reasons) if report.run.is_none() => PoolOutcome::Skipped(reasons),
        _ => PoolOutcome::Ran(report),
    }
}
