//! Refresh: replaces nodes of older versions in the batches that [`kiln_prototype::refresh`] decides.
//!
//! Nothing is remembered between two batches: the pool is read again each time. Only the number of nodes at the beginning is stored, in a
//! tag of the scale set, so that an interrupted refresh ends with the same number.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::{HoldScope, Owner, PoolLease};
use kiln_prototype::latest::{NewNodes, new_nodes};
use kiln_prototype::refresh::{Batch, Budget, OutdatedNode, RefreshDecision, RefreshState, next_batch, outdated};
use kiln_prototype::rollback::rejected_numbers;
use kiln_types::tags::REFRESH_TAG;
use kiln_types::{Factory, InstanceId, Node, NodeName, PoolName, Tags, VersionNumber};
use serde::Serialize;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use crate::event::RunEventKind;
use crate::pools::PoolReading;
use crate::run::{FORCED_WITHIN, GRACES_PER_DRAIN, LEASE, MIN_DRAIN};
use crate::{Context, Error};

/// Poll interval while new nodes come up, which takes minutes.
const POLL: Duration = Duration::from_secs(5);

/// How long the pool may stay unchanged before the refresh gives up. New nodes take 3.5 minutes, more in a region that is short of capacity.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A refresh, as the user requested it.
#[derive(Debug, Clone, Default)]
pub struct RefreshRequest {
    /// The only pool if absent.
    pub pool: Option<PoolName>,
    pub budget: Budget,
    /// Seconds that each pod has to terminate.
    pub grace_seconds: u32,
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
    let refresher = Refresher { context, request, pool: &pool, owner: owner(&pool) };
    if request.dry_run {
        return refresher.preview().await;
    }
    let lease = PoolLease::new(&context.cluster, &context.namespace, &pool, context.new_owner(), LEASE);
    match lease.acquire(LEASE + LEASE / 4).await {
        Ok(_) => {}
        Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => return Err(Error::Busy { pool, by }),
        Err(error) => return Err(error.into()),
    }
    let done = tokio::select! {
        lost = lease.keep_renewing() => Err(lost.into()),
        done = refresher.run() => done,
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
}

/// The state of the pool, read for one decision.
struct Observation {
    reading: PoolReading,
    nodes: Vec<Node>,
    target: VersionNumber,
}

impl<F: Factory> Refresher<'_, F> {
    async fn note(&self, text: String) {
        self.context.emit(self.pool, None, RunEventKind::Note(text)).await;
    }

    async fn observe(&self) -> Result<Observation, Error> {
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        let reading = self.context.read(pool).await?;
        let nodes = self.context.cluster.nodes_of(self.pool).await?;
        let PoolReading { pool, definition_name, versions, .. } = &reading;
        let target = match new_nodes(&pool.recipe.image, definition_name, versions, &pool.location) {
            NewNodes::Latest(version) | NewNodes::Pinned(version) => version,
            NewNodes::NothingUsable => {
                let text = format!("no version of `{}` can be used, so no node can be created", pool.name);
                return Err(Error::Refresh(text));
            }
            NewNodes::OtherImage(image) => {
                let text = format!(
                    "new nodes of `{}` are created from {image}, not from a version of its definition",
                    pool.name
                );
                return Err(Error::Refresh(text));
            }
        };
        Ok(Observation { reading, nodes, target })
    }

    fn state<'s>(
        &'s self,
        observation: &'s Observation,
        rejected: &'s BTreeSet<VersionNumber>,
        wanted: u32,
    ) -> RefreshState<'s> {
        RefreshState {
            wanted,
            capacity: observation.reading.pool.capacity,
            target: &observation.target,
            definition: &observation.reading.definition_name,
            rejected,
            instances: &observation.reading.instances,
            nodes: &observation.nodes,
            own_node: self.context.own_node.as_ref().map(NodeName::as_str),
            budget: self.request.budget,
        }
    }

    async fn preview(&self) -> Result<RefreshReport, Error> {
        let observation = self.observe().await?;
        let rejected = rejected(&observation);
        let state = self.state(&observation, &rejected, observation.reading.pool.capacity);
        let (left, old): (Vec<_>, Vec<_>) = outdated(state).into_iter().partition(|node| node.stays.is_some());
        let replaced = old.into_iter().map(|node| node.node).collect();
        Ok(RefreshReport { pool: self.pool.clone(), target: observation.target, done: false, replaced, left })
    }

    async fn run(&self) -> Result<RefreshReport, Error> {
        let wanted = self.begin().await?;
        let mut replaced = Vec::new();
        let (mut awaited, mut since) = (String::new(), Instant::now());
        loop {
            if self.context.stop.is_requested() {
                return Err(Error::Stopped("repeat the command to continue the refresh".to_owned()));
            }
            let observation = self.observe().await?;
            let rejected = rejected(&observation);
            match next_batch(self.state(&observation, &rejected, wanted)) {
                RefreshDecision::Done { left } => {
                    self.set_tag(String::new()).await?;
                    let pool = self.pool.clone();
                    return Ok(RefreshReport { pool, target: observation.target, done: true, replaced, left });
                }
                RefreshDecision::Wait { reason } => {
                    if reason != awaited {
                        self.note(format!("waiting for {reason}")).await;
                        (awaited, since) = (reason, Instant::now());
                    } else if since.elapsed() > TIMEOUT {
                        let minutes = TIMEOUT.as_secs() / 60;
                        let text = format!(
                            "no change for {minutes} min while waiting for {reason}; check the new nodes, then repeat the command"
                        );
                        return Err(Error::Refresh(text));
                    }
                    self.pause().await;
                }
                RefreshDecision::Batch(batch) => {
                    awaited.clear();
                    self.change(&observation, &batch).await?;
                    replaced.extend(batch.remove.into_iter().map(|node| node.node));
                }
            }
        }
    }

    async fn pause(&self) {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = self.context.stop.requested() => {}
        }
    }

    /// The number of nodes at the end. An interrupted refresh may have left the pool larger or smaller and stored the number.
    async fn begin(&self) -> Result<u32, Error> {
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        if let Some(wanted) = pool.tags.get(REFRESH_TAG).and_then(|text| text.parse().ok()) {
            self.note(format!("continuing a refresh to {wanted} nodes")).await;
            return Ok(wanted);
        }
        self.set_tag(pool.capacity.to_string()).await?;
        Ok(pool.capacity)
    }

    async fn set_tag(&self, text: String) -> Result<(), Error> {
        let what = format!("write tags of `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what.as_str()))?;
        let tags = Tags::from([(REFRESH_TAG.to_owned(), text)]);
        let accepted = self.context.factory.tag_pool(&pool, &tags).await.map_err(Error::cloud(what.as_str()))?;
        self.context.await_operation(&what, &accepted).await
    }

    async fn change(&self, observation: &Observation, batch: &Batch) -> Result<(), Error> {
        let factory = &self.context.factory;
        if batch.add > 0 {
            self.note(format!("adding {} of version {}", nodes(batch.add as usize), observation.target)).await;
            let what = format!("add {} instances to `{}`", batch.add, self.pool);
            let accepted = factory.add_instances(&observation.reading.pool, batch.add).await;
            self.context.await_operation(&what, &accepted.map_err(Error::cloud(what.as_str()))?).await?;
        }
        if batch.remove.is_empty() {
            return Ok(());
        }
        if batch.drain {
            let drained = join_all(batch.remove.iter().map(|node| self.drain_node(node))).await;
            drained.into_iter().collect::<Result<Vec<()>, Error>>()?;
        }
        let names: Vec<&str> = batch.remove.iter().map(|node| node.node.as_str()).collect();
        self.note(format!("removing {}", names.join(", "))).await;
        let ids: Vec<InstanceId> = batch.remove.iter().map(|node| node.instance.clone()).collect();
        let what = format!("remove instances of `{}`", self.pool);
        let accepted = factory.remove_instances(self.pool, &ids).await.map_err(Error::cloud(what.as_str()))?;
        self.context.await_operation(&what, &accepted).await
    }

    /// Cordons and drains a node. If the drain fails, the cordon is released.
    async fn drain_node(&self, old: &OutdatedNode) -> Result<(), Error> {
        let Ok(node) = old.node.parse::<NodeName>() else { return Ok(()) };
        let cluster = &self.context.cluster;
        match cluster.hold(&node, &self.owner, HoldScope::CORDON).await {
            // An instance without a node has nothing to drain.
            Err(error) if error.is_not_found() => return Ok(()),
            held => drop(held?),
        }
        self.note(format!("draining {node} ({})", old.runs)).await;
        let drained = tokio::select! {
            drained = self.drain(&node) => drained,
            () = self.context.stop.requested() => Err(DrainError::Cancelled { node: node.clone() }),
        };
        match drained {
            Ok(()) => Ok(()),
            Err(error) => {
                cluster.release(&node, &self.owner, HoldScope::CORDON).await?;
                if self.context.stop.is_requested() {
                    return Err(Error::Stopped("repeat the command to continue the refresh".to_owned()));
                }
                let text =
                    format!("{error}; the cordon of `{node}` was released; repeat the command when it can be drained");
                Err(Error::Refresh(text))
            }
        }
    }

    async fn drain(&self, node: &NodeName) -> Result<(), DrainError> {
        let (grace, force) = (self.request.grace_seconds, self.request.force);
        let flags = Flags { force, delete_emptydir_data: true, ignore_daemonsets: true, ..Flags::default() };
        let within = Duration::from_secs((grace.saturating_mul(GRACES_PER_DRAIN)).into()).max(MIN_DRAIN);
        let mut options = DrainOptions::new(flags, within);
        options.grace = NonZeroU32::new(grace).map(NonZeroU32::get);
        let (sender, mut progress) = unbounded_channel();
        let cluster = &self.context.cluster;
        let drained = async move {
            let mut report = |progress| drop(sender.send(progress));
            match cluster.drain(node, &options, &mut report).await {
                Err(DrainError::Remaining { pods, .. }) if force => {
                    cluster.force_out(node, &pods, FORCED_WITHIN, &mut report).await.map(drop)
                }
                drained => drained.map(drop),
            }
        };
        let forward = async {
            while let Some(progress) = progress.recv().await {
                self.context.emit(self.pool, None, RunEventKind::Drain(progress)).await;
            }
        };
        tokio::join!(drained, forward).0
    }
}

fn rejected(observation: &Observation) -> BTreeSet<VersionNumber> {
    observation.reading.definition.as_ref().map(|one| rejected_numbers(&one.tags)).unwrap_or_default()
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

impl fmt::Display for RefreshReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, target, done, replaced, left } = self;
        match (replaced.len(), done) {
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
