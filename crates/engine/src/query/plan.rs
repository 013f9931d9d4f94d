//! The plan: what a run would do.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::tz::Offset;
use kiln_kubernetes::{Error as ClusterError, Owner, Task};
use kiln_prototype::history::replicas;
use kiln_prototype::journal::Route;
use kiln_prototype::latest::is_reusable;
use kiln_prototype::names;
use kiln_prototype::plan::{Durations, Plan, PlanInput, plan as plan_run};
use kiln_prototype::preflight::{BlockerKind, OriginalState, PreflightInput, PreflightReport};
use kiln_types::{Factory, Inspection, Node, Pool, ThawReport, VersionNumber, VersionState};
use serde::Serialize;

use crate::event::DiscardEvents;
use crate::run::{InstanceRef, PreflightFacts, RunRequest};
use crate::{Context, Error, NodeInspector};

/// A plan, and what it is based on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    #[serde(flatten)]
    pub plan: Plan,
    /// Whether the donor was inspected.
    pub inspected: bool,
    /// The open run that would be resumed instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<String>,
}

/// Plans a run. Nothing is changed; with `inspect` a read-only pod inspects the donor.
pub async fn plan<F: Factory>(context: &Context<F>, request: &RunRequest, inspect: bool) -> Result<PlanReport, Error> {
    let node = context.cluster.node(&request.node).await?;
    let donor = InstanceRef::of(&node)?;
    let options = &request.options;
    let reader = if inspect {
        context.clone()
    } else {
        Context { inspector: Arc::new(NoInspection), events: Arc::new(DiscardEvents), ..context.clone() }
    };
    let facts = PreflightFacts::read(&reader, &node, &donor, options, &context.new_id()).await?;
    let PreflightFacts { pool, versions, .. } = &facts;
    let what = format!("list the instances of `{}`", pool.name);
    let instances = context.factory.instances(&pool.name).await.map_err(Error::cloud(what))?;
    let gallery = &facts.definition_name.gallery;
    let gallery_exists = context.factory.find_gallery(gallery).await;
    let gallery_exists = gallery_exists.map_err(Error::cloud(format!("read gallery `{gallery}`")))?.is_some();
    let version = names::version_of_day(context.now());
    let grown = pool.capacity.saturating_add(options.new_nodes);
    let today = versions.iter().find(|known| known.number == version);
    let exists = today.is_some_and(|known| matches!(known.state, VersionState::Creating | VersionState::Succeeded));
    let route = if exists && !options.replace_today {
        Route::FromVersion
    } else if !options.replace_today && has_snapshot(context, pool, &version).await? {
        Route::FromSnapshot
    } else {
        Route::Full
    };
    let entries = context.entries(&pool.name).await?;
    let durations = Durations::measured(&entries);
    let mut plan = plan_run(PlanInput {
        preflight: PreflightInput {
            pool,
            instance: facts.instance.as_ref(),
            disk: facts.disk.as_ref(),
            node: &node,
            inspection: facts.inspection.as_ref().map_err(String::as_str),
            definition_name: &facts.definition_name,
            definitions: &facts.definitions,
            versions,
            contents: &[],
            original: &if facts.definitions.is_empty() { OriginalState::CanBeSaved } else { OriginalState::Saved },
            canary_secrets: facts.canary_secrets.as_ref().copied().map_err(String::as_str),
            own_node: None,
            own_run: None,
            kamino_jobs: &[],
            kured_locks: &[],
            missing_permissions: &[],
            locks: Ok(&[]),
            unknown_regions: &[],
            options,
            today: Offset::UTC.to_datetime(context.now()).date(),
        },
        replicas: replicas(grown, options.replicas),
        version: &version,
        gallery_exists,
        route,
        instances: &instances,
        durations: &durations,
    });
    plan.preflight = if inspect { facts.report } else { without_inspection(facts.report) };
    let runs = context.runs(&plan.pool).await?;
    let open_run = runs.last().filter(|run| run.closed.is_none()).map(|run| run.id.to_string());
    Ok(PlanReport { inspected: inspect && facts.inspection.is_ok(), open_run, plan })
}

/// Whether an earlier run of the day left its snapshot.
async fn has_snapshot<F: Factory>(context: &Context<F>, pool: &Pool, version: &VersionNumber) -> Result<bool, Error> {
    let name = names::snapshot(&pool.name)?;
    let snapshot = context.factory.find_snapshot(&name).await;
    let snapshot = snapshot.map_err(Error::cloud(format!("read snapshot `{name}`")))?;
    Ok(snapshot.is_some_and(|snapshot| is_reusable(&snapshot, version)))
}

/// Drops the blockers that only an inspection could confirm.
fn without_inspection(mut report: PreflightReport) -> PreflightReport {
    report.blockers.retain(|one| !matches!(one.kind, BlockerKind::NotInspected | BlockerKind::Original));
    report
}

/// An inspector that refuses to inspect.
struct NoInspection;

impl NoInspection {
    fn refuse(node: &Node, task: Task) -> ClusterError {
        let reason = "disabled by `--no-inspect`".to_owned();
        ClusterError::TaskFailed { node: node.name.clone(), task, pod: "none".to_owned(), reason }
    }
}

impl NodeInspector for NoInspection {
    fn inspect<'a>(&'a self, node: &'a Node, _: &'a Owner) -> BoxFuture<'a, Result<Inspection, ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::Inspect))))
    }

    fn install_first_boot<'a>(&'a self, node: &'a Node, _: &'a Owner) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::InstallFirstBoot))))
    }

    fn while_frozen<'a>(
        &'a self,
        node: &'a Node,
        _: &'a Owner,
        _: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<ThawReport, ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::Freeze))))
    }

    fn thaw<'a>(&'a self, node: &'a Node, _: &'a Owner) -> BoxFuture<'a, Result<ThawReport, ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::Thaw))))
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        if !self.inspected {
            writeln!(f, "the donor was not inspected: its contents, and blockers in them, are unknown")?;
        }
        match &self.open_run {
            Some(run) => writeln!(f, "run {run} is open: `update` would resume it instead"),
            None => Ok(()),
        }
    }
}
