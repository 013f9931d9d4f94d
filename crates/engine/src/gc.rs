//! Garbage collection: canaries, snapshots and tags that no run owns any more.
//!
//! A run releases what it holds. What is left over comes from a kept canary, a deleted journal, or a run of a kiln that was removed. Only
//! pools with nodes in this cluster are considered: several clusters may share a resource group, and the runs of the others are not in
//! these journals.

use std::fmt;

use kiln_prototype::names;
use kiln_prototype::orphan::{Leavings, Orphan, OrphanKind};
use kiln_types::tags::CLAIM_TAG;
use kiln_types::{CANARY_TAG, CanaryName, Factory, Pool, PoolName, ProviderId, Tags};
use serde::Serialize;

use crate::run::PoolSession;
use crate::{Context, Error};

/// The result of a garbage collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// `false` if nothing was deleted.
    pub done: bool,
    pub orphans: Vec<Orphan>,
    /// Canaries that may belong to another cluster.
    pub skipped: Vec<String>,
}

/// Finds what no run owns any more, and with `apply` deletes it.
pub async fn gc<F: Factory>(context: &Context<F>, names: &[PoolName], apply: bool) -> Result<GcReport, Error> {
    let nodes = context.cluster.all_nodes().await?;
    let ids: Vec<ProviderId> = nodes.iter().filter_map(ProviderId::from_node).collect();
    let mut report = GcReport { done: apply, orphans: Vec::new(), skipped: Vec::new() };
    let mut considered = Vec::new();
    for pool in context.pools(names).await? {
        if !ids.iter().any(|id| id.is_of(&pool.name)) {
            continue;
        }
        let mut orphans = Box::pin(find(context, &pool.name)).await?;
        if apply && !orphans.is_empty() {
            let session = PoolSession::new(context, &pool.name);
            orphans = session.with_lease(Box::pin(delete(context, &pool.name))).await?;
        }
        report.orphans.extend(orphans);
        considered.push(pool.name);
    }
    if names.is_empty() {
        let all = context.factory.pools().await.map_err(Error::cloud("list scale sets"))?;
        let others = all.iter().filter_map(|pool| Some((pool, pool.tags.get(CANARY_TAG)?)));
        let others = others.filter(|(_, of)| !considered.iter().any(|pool| pool.as_str().eq_ignore_ascii_case(of)));
        report.skipped = others
            .map(|(canary, of)| format!("`{}` of pool `{of}`, which has no nodes in this cluster", canary.name))
            .collect();
    }
    Ok(report)
}

async fn find<F: Factory>(context: &Context<F>, name: &PoolName) -> Result<Vec<Orphan>, Error> {
    let all = context.factory.pools().await.map_err(Error::cloud("list scale sets"))?;
    let Some(pool) = all.iter().find(|pool| pool.name.as_str().eq_ignore_ascii_case(name.as_str())) else {
        return Ok(Vec::new());
    };
    let is_canary = |set: &&Pool| {
        set.tags.get(CANARY_TAG).is_some_and(|of| of.eq_ignore_ascii_case(name.as_str()))
            && CanaryName::try_from(set.name.clone()).is_ok()
    };
    let snapshot_name = names::snapshot(name)?;
    let what = format!("read snapshot `{snapshot_name}`");
    let snapshot = context.factory.find_snapshot(&snapshot_name).await.map_err(Error::cloud(what))?;
    let runs = context.runs(name).await?;
    let open = runs.last().filter(|run| run.closed.is_none());
    let leavings = Leavings {
        pool,
        canaries: all.iter().filter(is_canary).collect(),
        snapshot: snapshot.as_ref(),
        open: open.map(|run| run.id.as_str()),
        today: &names::version_of_day(context.now()),
    };
    Ok(leavings.orphans())
}

/// Deletes the orphans of a pool, which are read again: with the lease, no run can begin meanwhile.
async fn delete<F: Factory>(context: &Context<F>, pool: &PoolName) -> Result<Vec<Orphan>, Error> {
    let orphans = Box::pin(find(context, pool)).await?;
    for orphan in &orphans {
        let what = format!("delete `{}`", orphan.name);
        let factory = context.factory.as_ref();
        let handle = match orphan.kind {
            OrphanKind::Canary => {
                let canary = CanaryName::try_from(orphan.name.parse::<PoolName>()?)?;
                context.cluster.delete_smoke_test(&context.namespace, &canary).await?;
                factory.delete_canary(&canary).await
            }
            OrphanKind::Snapshot => factory.delete_snapshot(&orphan.name.parse()?).await,
            OrphanKind::Tag => {
                let read = factory.describe_pool(pool).await.map_err(Error::cloud(format!("read `{pool}`")))?;
                factory.tag_pool(&read, &Tags::from([(CLAIM_TAG.to_owned(), String::new())])).await
            }
        };
        let handle = handle.map_err(Error::cloud(what.clone()))?;
        context.await_operation(&what, &handle).await?;
    }
    Ok(orphans)
}

impl fmt::Display for GcReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.done { "deleted" } else { "would delete" };
        self.orphans.iter().try_for_each(|orphan| writeln!(f, "{verb} {orphan}"))?;
        self.skipped.iter().try_for_each(|skipped| writeln!(f, "skipped canary {skipped}"))?;
        match self.orphans.len() {
            0 => writeln!(f, "every canary, snapshot and tag belongs to an open run"),
            _ if self.done => Ok(()),
            _ => writeln!(f, "nothing was changed; `--yes` deletes"),
        }
    }
}
