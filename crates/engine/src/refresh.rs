//! Replacing nodes that run older versions, as [`kiln_prototype::refresh`] decides it.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::{HoldWhat, NodeName, Owner, PoolLease};
use kiln_prototype::rollback::numbers;
use kiln_prototype::donor::Node;
use kiln_prototype::latest::{NewNodes, new_nodes};
use kiln_prototype::refresh::{Batch, Next, Outdated, Pace, State, next_batch, outdated};
use kiln_types::{Factory, InstanceId, PoolName, Tags, VersionNumber};
use serde::Serialize;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use crate::news::RunEventKind;
use crate::node_facts::facts_of;
use crate::request::LEASE;
use crate::side::{Reading, Error};
use crate::{Context, Error};

/// The tag of a pool that is being refreshed: how many nodes it had when that began, for whoever goes on.
pub const REFRESH_TAG: &str = "kiln-refresh";

/// How often the pool is looked at while new nodes come up. They take minutes.
const LOOK: Duration = Duration::from_secs(5);

/// How long nothing may change before a person is asked. Published boots take 3.5 minutes; a region short of machines takes longer.
const PATIENCE: Duration = Duration::from_mins(30);

/// As for the donor: a drain has three times what each pod gets.
const GRACES_PER_DRAIN: u32 = 3;

/// A pod that gets no time at all still needs some for its eviction to be answered.
const LEAST_DRAIN: Duration = Duration::from_mins(1);

/// Without grace a pod is gone as soon as its kubelet hears of it.
const FORCED_WITHIN: Duration = Duration::from_mins(1);

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct RefreshRequest {
    /// The pool; the only one where none is named.
    pub pool: Option<PoolName>,
    /// How many at a time.
    pub pace: Pace,
    /// Seconds that a pod gets to leave.
    pub grace_seconds: u32,
    /// What a drain leaves is deleted by force.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What became of a refresh.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefreshReport {
    pub pool: PoolName,
    /// What new nodes get.
    pub target: VersionNumber,
    /// Whether it was done.
    pub done: bool,
    /// The nodes that went, or would go.
    pub replaced: Vec<String>,
    /// The nodes that stay, and why.
    pub left: Vec<Outdated>,
}

/// Replaces the nodes of a pool that run something else than new nodes get.
pub async fn refresh<F: Factory>(context: &Context<F>, request: &RefreshRequest) -> Result<RefreshReport, Error> {
    request.pace.check().map_err(|error| Error::Refresh(error.to_string()))?;
    let pool = context.one_pool(request.pool.as_ref()).await?.name;
    let refresher = Refresher { context, request, pool: &pool, owner: owner(&pool) };
    if request.dry_run {
        return refresher.preview().await;
    }
    let lease = PoolLease::new(&context.cluster, &context.namespace, &pool, context.reader(), LEASE);
    match lease.take(LEASE + LEASE / 4).await {
        Ok(_) => {}
        Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => return Err(Error::Busy { pool, by }.into()),
        Err(error) => return Err(error.into()),
    }
    let done = tokio::select! {
        lost = lease.keep() => Err(lost.into()),
        done = refresher.run() => done,
    };
    if let Err(error) = lease.give_up().await {
        refresher.say(format!("the lease of the pool ends by itself, it could not be given up: {error}")).await;
    }
    done
}

/// The same for every refresh of a pool: whoever goes on finds the nodes that were held.
fn owner(pool: &PoolName) -> Owner {
    format!("refresh/{pool}").parse().expect("a pool's name is of an owner's characters")
}

struct Refresher<'a, F> {
    context: &'a Context<F>,
    request: &'a RefreshRequest,
    pool: &'a PoolName,
    owner: Owner,
}

/// What one look found.
struct Sight {
    reading: Reading,
    nodes: Vec<Node>,
    target: VersionNumber,
}

impl<F: Factory> Refresher<'_, F> {
    async fn say(&self, text: String) {
        self.context.tell(self.pool, None, RunEventKind::Note(text)).await;
    }

    async fn look(&self) -> Result<Sight, Error> {
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        let reading = self.context.read(pool).await?;
        let seen = self.context.cluster.nodes_of(self.pool).await?;
        let Reading { pool, definition_name, versions, .. } = &reading;
        let target = match new_nodes(&pool.recipe.image, definition_name, versions, &pool.location) {
            NewNodes::Latest(version) | NewNodes::Pinned(version) => version,
            NewNodes::NothingUsable => {
                return Err(Error::Refresh(format!(
                    "`{}`: no version can be used, so no node can be made",
                    pool.name
                )));
            }
            NewNodes::Elsewhere(image) => {
                let text =
                    format!("new nodes of `{}` are made from {image}, not from a version of its line", pool.name);
                return Err(Error::Refresh(text));
            }
        };
        Ok(Sight { nodes: seen.iter().map(facts_of).collect(), target, reading })
    }

    fn state<'s>(
        &'s self,
        sight: &'s Sight,
        bad: &'s std::collections::BTreeSet<VersionNumber>,
        wanted: u32,
    ) -> State<'s> {
        State {
            wanted,
            capacity: sight.reading.pool.capacity,
            target: &sight.target,
            line: &sight.reading.definition_name,
            bad,
            instances: &sight.reading.instances,
            nodes: &sight.nodes,
            own_node: self.context.own_node.as_ref().map(NodeName::as_str),
            pace: self.request.pace,
        }
    }

    async fn preview(&self) -> Result<RefreshReport, Error> {
        let sight = self.look().await?;
        let bad = bad(&sight);
        let state = self.state(&sight, &bad, sight.reading.pool.capacity);
        let (left, old): (Vec<_>, Vec<_>) = outdated(state).into_iter().partition(|node| node.stays.is_some());
        let replaced = old.into_iter().map(|node| node.node).collect();
        Ok(RefreshReport { pool: self.pool.clone(), target: sight.target, done: false, replaced, left })
    }

    async fn run(&self) -> Result<RefreshReport, Error> {
        let wanted = self.begin().await?;
        let mut replaced = Vec::new();
        let (mut waited_for, mut since) = (String::new(), Instant::now());
        loop {
            if self.context.stop.is_told() {
                return Err(Error::Stopped("the same command goes on with the refresh".to_owned()));
            }
            let sight = self.look().await?;
            let bad = bad(&sight);
            match next_batch(self.state(&sight, &bad, wanted)) {
                Next::Done { left } => {
                    self.mark(String::new()).await?;
                    let pool = self.pool.clone();
                    return Ok(RefreshReport { pool, target: sight.target, done: true, replaced, left });
                }
                Next::Wait { why } => {
                    if why != waited_for {
                        self.say(format!("waits for {why}")).await;
                        (waited_for, since) = (why, Instant::now());
                    } else if since.elapsed() > PATIENCE {
                        let text = format!(
                            "nothing changed for {} min while waiting for {why}; look at the new nodes, then give the \
                             same command again",
                            PATIENCE.as_secs() / 60
                        );
                        return Err(Error::Refresh(text));
                    }
                    self.pause().await;
                }
                Next::Batch(batch) => {
                    waited_for.clear();
                    self.change(&sight, &batch).await?;
                    replaced.extend(batch.remove.into_iter().map(|node| node.node));
                }
            }
        }
    }

    async fn pause(&self) {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = self.context.stop.told() => {}
        }
    }

    /// How many nodes the pool is to have in the end. A refresh that was cut off may have left it larger or smaller, and wrote it down.
    async fn begin(&self) -> Result<u32, Error> {
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        if let Some(wanted) = pool.tags.get(REFRESH_TAG).and_then(|text| text.parse().ok()) {
            self.say(format!("goes on with a refresh to {wanted} nodes")).await;
            return Ok(wanted);
        }
        self.mark(pool.capacity.to_string()).await?;
        Ok(pool.capacity)
    }

    async fn mark(&self, text: String) -> Result<(), Error> {
        let what = format!("write tags of `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what.as_str()))?;
        let tags = Tags::from([(REFRESH_TAG.to_owned(), text)]);
        let asked = self.context.factory.tag_pool(&pool, &tags).await.map_err(Error::cloud(what.as_str()))?;
        self.context.settle(&what, &asked).await
    }

    async fn change(&self, sight: &Sight, batch: &Batch) -> Result<(), Error> {
        let factory = &self.context.factory;
        if batch.add > 0 {
            self.say(format!("adds {} of {}", nodes(batch.add as usize), sight.target)).await;
            let what = format!("add {} instances to `{}`", batch.add, self.pool);
            let asked = factory.add_instances(&sight.reading.pool, batch.add).await;
            self.context.settle(&what, &asked.map_err(Error::cloud(what.as_str()))?).await?;
        }
        if batch.remove.is_empty() {
            return Ok(());
        }
        if batch.drain {
            let drained = join_all(batch.remove.iter().map(|node| self.empty(node))).await;
            drained.into_iter().collect::<Result<Vec<()>, Error>>()?;
        }
        let names: Vec<&str> = batch.remove.iter().map(|node| node.node.as_str()).collect();
        self.say(format!("removes {}", names.join(", "))).await;
        let ids: Vec<InstanceId> = batch.remove.iter().map(|node| node.instance.clone()).collect();
        let what = format!("remove instances of `{}`", self.pool);
        let asked = factory.remove_instances(self.pool, &ids).await.map_err(Error::cloud(what.as_str()))?;
        self.context.settle(&what, &asked).await
    }

    /// Cordons and drains a node. One that cannot be drained is given back as it was.
    async fn empty(&self, old: &Outdated) -> Result<(), Error> {
        let Ok(node) = old.node.parse::<NodeName>() else { return Ok(()) };
        let cluster = &self.context.cluster;
        match cluster.hold(&node, &self.owner, HoldWhat::CORDON).await {
            // A machine that never joined has nothing to drain.
            Err(error) if error.not_found() => return Ok(()),
            held => drop(held?),
        }
        self.say(format!("drains {node} ({})", old.runs)).await;
        let drained = tokio::select! {
            drained = self.drain(&node) => drained,
            () = self.context.stop.told() => Err(DrainError::Cancelled { node: node.clone() }),
        };
        match drained {
            Ok(()) => Ok(()),
            Err(error) => {
                cluster.release(&node, &self.owner, HoldWhat::CORDON).await?;
                if self.context.stop.is_told() {
                    return Err(Error::Stopped("the same command goes on with the refresh".to_owned()));
                }
                let text =
                    format!("{error}; node {node} is as it was, the same command goes on once it can be drained");
                Err(Error::Refresh(text))
            }
        }
    }

    async fn drain(&self, node: &NodeName) -> Result<(), DrainError> {
        let (grace, force) = (self.request.grace_seconds, self.request.force);
        let flags = Flags { force, delete_emptydir_data: true, ignore_daemonsets: true, ..Flags::default() };
        let within = Duration::from_secs((grace.saturating_mul(GRACES_PER_DRAIN)).into()).max(LEAST_DRAIN);
        let mut options = DrainOptions::new(flags, within);
        options.grace = NonZeroU32::new(grace).map(NonZeroU32::get);
        let (sender, mut news) = unbounded_channel();
        let cluster = &self.context.cluster;
        let drained = async move {
            let mut tell = |progress| drop(sender.send(progress));
            match cluster.drain(node, &options, &mut tell).await {
                Err(DrainError::Left { pods, .. }) if force => {
                    cluster.force_out(node, &pods, FORCED_WITHIN, &mut tell).await.map(drop)
                }
                drained => drained.map(drop),
            }
        };
        let forward = async {
            while let Some(progress) = news.recv().await {
                self.context.tell(self.pool, None, RunEventKind::Drain(progress)).await;
            }
        };
        tokio::join!(drained, forward).0
    }
}

fn bad(sight: &Sight) -> std::collections::BTreeSet<VersionNumber> {
    sight.reading.line.as_ref().map(|line| numbers(&line.tags)).unwrap_or_default()
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

impl fmt::Display for RefreshReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, target, done, replaced, left } = self;
        match (replaced.len(), done) {
            (0, _) if left.is_empty() => writeln!(f, "{pool}: every node runs {target}")?,
            (count, true) => writeln!(f, "{pool}: {} replaced, new ones run {target}", nodes(count))?,
            (count, false) => {
                writeln!(f, "{pool}: {} would be replaced by nodes of {target}", nodes(count))?;
                replaced.iter().try_for_each(|node| writeln!(f, "  {node}"))?;
            }
        }
        left.iter().try_for_each(|node| writeln!(f, "  {node}"))
    }
}
