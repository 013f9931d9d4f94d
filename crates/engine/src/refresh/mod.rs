//! Refresh: replaces nodes of older versions in the batches that [`kiln_prototype::refresh`] decides.
//!
//! Nothing is remembered between two batches: the pool is read again each time. Only the goal is stored, in a tag of the scale set, so that
//! an interrupted refresh ends with the right number of nodes.
//!
//! ```text
//! lease        the pool's, as for a run: a run and a refresh never work on a pool at the same time
//!   observe    observe.rs  Azure at most every 30 seconds or after a change of our own; Nodes are watched in between
//!   decide     kiln_prototype::refresh::next_batch    pure
//!   change     batch.rs    add instances; hold, drain, wait for volumes, delete
//! ```

mod batch;
mod observe;

use std::fmt;
use std::time::Duration;

use kiln_kubernetes::{HoldScope, Owner, PoolLease};
use kiln_prototype::refresh::{Budget, Goal, OutdatedNode, RefreshDecision, follow_capacity, next_batch, outdated};
use kiln_types::tags::REFRESH_TAG;
use kiln_types::{ErrorClass, Factory, PoolName, Tags, VersionNumber};
use serde::Serialize;
use tokio::time::Instant;

use crate::event::RunEventKind;
use crate::run::LEASE;
use crate::{Context, Error};
use observe::Observer;

/// How long the pool may stay unchanged before the refresh gives up. New nodes take 3.5 minutes, more in a region that is short of capacity.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A refresh, as the user requested it.
#[derive(Debug, Clone, Default)]
pub struct RefreshRequest {
    /// The only pool if absent.
    pub pool: Option<PoolName>,
    pub budget: Budget,
    /// Seconds that each pod has to terminate, 0 for none; by default each pod's own grace period.
    pub grace_seconds: Option<u32>,
    /// Force-delete pods that a drain leaves.
    pub force: bool,
    pub dry_run: bool,
}

/// The result of a refresh.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefreshReport {
    pub pool: PoolName,
    /// The version that new nodes get.
    pub target: VersionNumber,
    /// `false` for a dry run.
    pub done: bool,
    pub replaced: Vec<String>,
    /// The nodes that were not replaced, with the reasons.
    pub left: Vec<OutdatedNode>,
}

/// Replaces the nodes of a pool that do not run the version that new nodes get.
pub async fn refresh<F: Factory>(context: &Context<F>, request: &RefreshRequest) -> Result<RefreshReport, Error> {
    request.budget.check()?;
    let pool = context.one_pool(request.pool.as_ref()).await?.name;
    let lease = PoolLease::new(&context.cluster, &context.namespace, &pool, context.new_owner(), LEASE);
    let refresher = Refresher { context, request, pool: &pool, owner: owner(&pool), lease: &lease };
    if request.dry_run {
        return refresher.preview().await;
    }
    match lease.acquire(LEASE + LEASE / 4).await {
        Ok(_) => {}
        Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => return Err(Error::Busy { pool, by }),
        Err(error) => return Err(error.into()),
    }
    let done = tokio::select! {
        lost = lease.keep_renewing() => Err(lost.into()),
        done = Box::pin(refresher.run()) => done,
    };
    if let Err(error) = lease.release().await {
        refresher.note(format!("the pool's lease could not be given up and will expire: {error}")).await;
    }
    done
}

/// The same for every refresh of a pool, so that a later process can release the nodes that an earlier one held.
fn owner(pool: &PoolName) -> Owner {
    format!("refresh/{pool}").parse().expect("a pool name has only characters of an owner")
}

struct Refresher<'a, F> {
    context: &'a Context<F>,
    request: &'a RefreshRequest,
    pool: &'a PoolName,
    owner: Owner,
    lease: &'a PoolLease,
}

impl<F: Factory> Refresher<'_, F> {
    async fn note(&self, text: String) {
        self.context.emit(self.pool, None, RunEventKind::Note(text)).await;
    }

    async fn preview(&self) -> Result<RefreshReport, Error> {
        let mut observer = Observer::default();
        let observation = self.observe(&mut observer).await?;
        let state = self.state(&observation, observation.capacity());
        if let RefreshDecision::Refuse { missing } = next_batch(state) {
            return Err(refused(&missing));
        }
        let (left, old): (Vec<_>, Vec<_>) = outdated(state).into_iter().partition(|node| node.stays.is_some());
        let replaced = old.into_iter().map(|node| node.node).collect();
        let target = observation.target.clone();
        Ok(RefreshReport { pool: self.pool.clone(), target, done: false, replaced, left })
    }

    async fn run(&self) -> Result<RefreshReport, Error> {
        let mut goal = self.begin().await?;
        let mut observer = Observer::default();
        let mut expected = None;
        let mut replaced = Vec::new();
        let (mut awaited, mut since) = (String::new(), Instant::now());
        loop {
            if self.context.stop.is_requested() {
                return Err(Error::Stopped("repeat the command to continue the refresh".to_owned()));
            }
            let observation = self.observe(&mut observer).await?;
            let capacity = observation.capacity();
            let wanted = follow_capacity(goal.wanted, expected.replace(capacity).unwrap_or(capacity), capacity);
            if wanted != goal.wanted {
                self.note(format!("the capacity was changed to {capacity}: the refresh ends with {}", nodes(wanted)))
                    .await;
                goal = Goal::new(wanted, self.request.budget);
                self.set_tag(goal.to_string()).await?;
                observer.forget_azure();
            }
            let reason = match next_batch(self.state(&observation, wanted)) {
                RefreshDecision::Done { left } => {
                    self.set_tag(String::new()).await?;
                    let (pool, target) = (self.pool.clone(), observation.target.clone());
                    return Ok(RefreshReport { pool, target, done: true, replaced, left });
                }
                RefreshDecision::Refuse { missing } => return Err(refused(&missing)),
                RefreshDecision::Wait { reason } => reason,
                RefreshDecision::Batch(batch) => {
                    if let Some(reason) = self.obstacle(&batch).await? {
                        reason
                    } else {
                        observer.forget_azure();
                        if self.change(&observation, &batch, &mut observer).await? {
                            awaited.clear();
                            let removed = u32::try_from(batch.remove.len()).unwrap_or(u32::MAX);
                            expected = Some((capacity + batch.add).saturating_sub(removed));
                            replaced.extend(batch.remove.into_iter().map(|node| node.node));
                            continue;
                        }
                        "the scale set, which others are changing".to_owned()
                    }
                }
            };
            if reason != awaited {
                self.note(format!("waiting for {reason}")).await;
                (awaited, since) = (reason, Instant::now());
            } else if since.elapsed() > TIMEOUT {
                let minutes = TIMEOUT.as_secs() / 60;
                let text = format!(
                    "no change for {minutes} min while waiting for {reason}; check these, then repeat the command"
                );
                return Err(Error::Refresh(text));
            }
            self.wait(&observer, &observation).await?;
        }
    }

    /// The goal, after the nodes that an interrupted refresh left cordoned are released.
    async fn begin(&self) -> Result<Goal, Error> {
        for node in self.context.cluster.nodes_of(self.pool).await? {
            if node.held_by.as_deref() == Some(self.owner.as_str()) {
                self.context.cluster.release(&node.name, &self.owner, HoldScope::ALL).await?;
            }
        }
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        let interrupted: Option<Goal> = pool.tags.get(REFRESH_TAG).and_then(|text| text.parse().ok());
        let wanted = interrupted.map_or(pool.capacity, |goal| goal.continued_at(pool.capacity));
        if interrupted.is_some() {
            self.note(format!("continuing a refresh to {}", nodes(wanted))).await;
        }
        let goal = Goal::new(wanted, self.request.budget);
        if interrupted != Some(goal) {
            self.set_tag(goal.to_string()).await?;
        }
        Ok(goal)
    }

    async fn set_tag(&self, text: String) -> Result<(), Error> {
        let what = format!("write tags of `{}`", self.pool);
        let tags = Tags::from([(REFRESH_TAG.to_owned(), text)]);
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.lease.check().await?;
            let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what.as_str()))?;
            let tagged = self.context.factory.tag_pool(&pool, &tags).await.map_err(Error::cloud(what.as_str()));
            match tagged {
                // Another program, such as the autoscaler, changed the scale set since it was read.
                Err(error) if is_conflict(&error) && attempts < TAG_ATTEMPTS => {
                    tokio::time::sleep(AFTER_CONFLICT).await;
                }
                tagged => return self.context.await_operation(&what, &tagged?).await,
            }
        }
    }
}

/// A write of another program is over in seconds.
const TAG_ATTEMPTS: u32 = 5;
const AFTER_CONFLICT: Duration = Duration::from_secs(2);

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Cloud { class: ErrorClass::Precondition, .. })
}

fn refused(missing: &[OutdatedNode]) -> Error {
    let names: Vec<String> = missing.iter().map(|one| format!("`{}` (instance {})", one.node, one.instance)).collect();
    Error::Unmatched { instances: names.join(", ") }
}

fn nodes(count: impl Into<u64>) -> String {
    match count.into() {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

impl fmt::Display for RefreshReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, target, done, replaced, left } = self;
        match (replaced.len() as u64, done) {
            (0, _) if left.is_empty() => writeln!(f, "{pool}: every node runs {target}")?,
            (count, true) => writeln!(f, "{pool}: {} replaced by nodes of {target}", nodes(count))?,
            (count, false) => {
                writeln!(f, "{pool}: {} would be replaced by nodes of {target}", nodes(count))?;
                replaced.iter().try_for_each(|node| writeln!(f, "  {node}"))?;
            }
        }
        left.iter().try_for_each(|node| writeln!(f, "  {node}"))
    }
}
