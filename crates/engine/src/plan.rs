//! What a run would do, before it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::tz::Offset;
use kiln_kubernetes::{Error as ClusterError, NodeSeen, Owner, Task};
use kiln_types::Inspection;
use kiln_prototype::history::replicas;
use kiln_prototype::journal::Route;
use kiln_prototype::names;
use kiln_prototype::plan::{Durations, Outlook, Plan, plan as decide};
use kiln_prototype::preflight::{Original, Preflight, Row, Verdict};
use kiln_prototype::run::RunOptions;
use kiln_types::{Factory, VersionState};
use serde::Serialize;

use crate::gather::{Consent, Gathered};
use crate::news::DiscardEvents;
use crate::node_facts::facts_of;
use crate::place::Place;
use crate::request::Request;
use crate::side::Error;
use crate::{Context, Error, Inside};

/// A plan, and whether the donor's inside was looked at for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// What would be done.
    #[serde(flatten)]
    pub plan: Plan,
    /// Whether the donor's inside was read.
    pub inspected: bool,
    /// The run that would be gone on with instead, if one is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<String>,
}

/// Says what a run would do. Nothing is touched; a pod that changes nothing reads the donor's inside, unless that is not wanted.
pub async fn plan<F: Factory>(context: &Context<F>, request: &Request, inspect: bool) -> Result<PlanReport, Error> {
    let node = context.cluster.node(&request.node).await?;
    let place = Place::of(&node)?;
    let wish = &request.wish;
    let consent =
        Consent { force: wish.policy.force, allow_empty_pool: wish.allow_empty_pool, no_original: wish.no_original };
    let looking = if inspect {
        context.clone()
    } else {
        Context { inside: Arc::new(Unseen), watcher: Arc::new(DiscardEvents), ..context.clone() }
    };
    let gathered = Gathered::read(&looking, &node, &place, consent, &context.fresh()).await?;
    let Gathered { pool, versions, .. } = &gathered;
    let what = format!("list the instances of `{}`", pool.name);
    let instances = context.factory.instances(&pool.name).await.map_err(Error::cloud(what))?;
    let gallery = &gathered.definition_name.gallery;
    let found = context.factory.find_gallery(gallery).await;
    let gallery_exists = found.map_err(Error::cloud(format!("read gallery `{gallery}`")))?.is_some();
    let version = names::version_of_day(context.now());
    let grown = pool.capacity.saturating_add(wish.policy.new_nodes);
    let policy = RunOptions { replicas: replicas(grown, wish.replicas), ..wish.policy.clone() };
    let today = versions.iter().find(|known| known.number == version);
    let is_made = today.is_some_and(|known| matches!(known.state, VersionState::Creating | VersionState::Succeeded));
    let route = if is_made && !policy.replace_today {
        Route::FromVersion
    } else if !policy.replace_today && is_copied(context, pool, &version).await? {
        Route::FromSnapshot
    } else {
        Route::Full
    };
    let entries = context.entries(&pool.name).await?;
    let durations = Durations::measured(&entries);
    let mut plan = decide(Outlook {
        preflight: Preflight {
            pool,
            instance: gathered.instance.as_ref(),
            disk: gathered.disk.as_ref(),
            node: &facts_of(&node),
            inside: gathered.inside.as_ref().map_err(String::as_str),
            definition_name: &gathered.definition_name,
            lines: &gathered.lines,
            versions,
            contents: &[],
            original: &if gathered.lines.is_empty() { Original::CanBeSaved } else { Original::Saved },
            own_node: None,
            own_run: None,
            kamino: &[],
            missing: &[],
            force: consent.force,
            allow_empty_pool: consent.allow_empty_pool,
            today: Offset::UTC.to_datetime(context.now()).date(),
        },
        policy: &policy,
        version: &version,
        gallery_exists,
        route,
        instances: &instances,
        durations: &durations,
    });
    plan.verdict = if inspect { gathered.verdict } else { without_inside(gathered.verdict) };
    let runs = context.runs(&plan.pool).await?;
    let open_run = runs.last().filter(|run| run.closed.is_none()).map(|run| run.id.to_string());
    Ok(PlanReport { inspected: inspect && gathered.inside.is_ok(), open_run, plan })
}

/// Whether an earlier run of the day copied the disk already.
async fn is_copied<F: Factory>(
    context: &Context<F>,
    pool: &kiln_types::Pool,
    version: &kiln_types::VersionNumber,
) -> Result<bool, Error> {
    let name = names::snapshot(&pool.name).map_err(Error::from)?;
    let found = context.factory.find_snapshot(&name).await.map_err(Error::cloud(format!("read snapshot `{name}`")))?;
    Ok(found.is_some_and(|copy| {
        copy.provisioning == kiln_types::Provisioning::Succeeded
            && copy.tags.get(names::VERSION_TAG).map(String::as_str) == Some(version.as_str())
    }))
}

/// What only the inside could have told is neither refused nor allowed.
fn without_inside(verdict: Verdict) -> Verdict {
    let of_outside = |row: Row| !matches!(row, Row::NotInspected | Row::Original);
    Verdict { refusals: verdict.refusals.into_iter().filter(|refusal| of_outside(refusal.row)).collect(), ..verdict }
}

/// Nobody looks.
struct Unseen;

impl Unseen {
    fn refuse(node: &NodeSeen, task: Task) -> ClusterError {
        let why = "it was not wanted".to_owned();
        ClusterError::TaskFailed { node: node.name.clone(), task, pod: "none".to_owned(), why }
    }
}

impl Inside for Unseen {
    fn inspect<'a>(&'a self, node: &'a NodeSeen, _: &'a Owner) -> BoxFuture<'a, Result<Inspection, ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::Inspect))))
    }

    fn install_first_boot<'a>(&'a self, node: &'a NodeSeen, _: &'a Owner) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(Self::refuse(node, Task::InstallFirstBoot))))
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        if !self.inspected {
            writeln!(
                f,
                "the donor's inside was not read: what it holds, and what of it speaks against a run, is unknown"
            )?;
        }
        match &self.open_run {
            Some(run) => writeln!(f, "run {run} is open: `update` would go on with it instead"),
            None => Ok(()),
        }
    }
}
