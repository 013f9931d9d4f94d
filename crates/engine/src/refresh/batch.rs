//! Carrying out a batch: instances are added, then old nodes are drained and their instances deleted.

use futures_util::future::{join_all, try_join_all};
use jiff::Timestamp;
use kiln_kubernetes::HoldScope;
use kiln_kubernetes::drain::DrainError;
use kiln_prototype::refresh::{Batch, NodeState, OutdatedNode};
use kiln_types::{Factory, InstanceId, NodeName};

use super::observe::{Observation, Observer};
use super::{Refresher, is_conflict, nodes};
use crate::Error;
use crate::drain::Drain;

impl<F: Factory> Refresher<'_, F> {
    /// What a batch has to wait for, if anything.
    pub(super) async fn obstacle(&self, batch: &Batch) -> Result<Option<String>, Error> {
        if batch.remove.is_empty() || !batch.drain {
            return Ok(None);
        }
        let locks = self.context.cluster.kured_locks().await?;
        Ok(locks.first().map(|lock| format!("kured to release its lock: {lock}")))
    }

    /// Carries out a batch; `false` if another program changed the scale set meanwhile, so that it must be read again.
    pub(super) async fn change(
        &self,
        observation: &Observation,
        batch: &Batch,
        observer: &mut Observer,
    ) -> Result<bool, Error> {
        let factory = &self.context.factory;
        if batch.add > 0 {
            self.note(format!("adding {} of version {}", nodes(batch.add), observation.target)).await;
            self.lease.check().await?;
            let what = format!("add {} instances to `{}`", batch.add, self.pool);
            let added = factory.add_instances(&observation.reading.pool, batch.add).await;
            match added.map_err(Error::cloud(what.as_str())) {
                Err(error) if is_conflict(&error) => return Ok(false),
                added => self.context.await_operation(&what, &added?).await?,
            }
        }
        if batch.remove.is_empty() {
            return Ok(true);
        }
        let held = if batch.drain { self.drain_all(&batch.remove).await? } else { Vec::new() };
        let removed = self.remove(&batch.remove, observer).await;
        if removed.is_err() {
            self.release(&held).await?;
        }
        removed.map(|()| true)
    }

    async fn remove(&self, old: &[OutdatedNode], observer: &mut Observer) -> Result<(), Error> {
        let names: Vec<&str> = old.iter().map(|node| node.node.as_str()).collect();
        self.note(format!("removing {}", names.join(", "))).await;
        self.lease.check().await?;
        let ids: Vec<InstanceId> = old.iter().map(|node| node.instance.clone()).collect();
        let what = format!("remove instances of `{}`", self.pool);
        let accepted = self.context.factory.remove_instances(self.pool, &ids).await;
        self.context.await_operation(&what, &accepted.map_err(Error::cloud(what.as_str()))?).await?;
        observer.deleted(&ids);
        Ok(())
    }

    /// Holds and drains the nodes of a batch, and waits until their volumes are detached. If one of them cannot be drained, all are
    /// released.
    async fn drain_all(&self, old: &[OutdatedNode]) -> Result<Vec<NodeName>, Error> {
        // An instance that is off and has no Node has nothing to drain.
        let with_node = old.iter().filter(|one| one.state != NodeState::Off);
        let nodes: Vec<(NodeName, &str)> =
            with_node.map(|one| Ok((one.node.parse()?, one.runs.as_str()))).collect::<Result<_, Error>>()?;
        let names: Vec<NodeName> = nodes.iter().map(|(node, _)| node.clone()).collect();
        let cluster = &self.context.cluster;
        // Not cancelled when one of them fails: a write in flight could arrive after the release.
        let holds = join_all(names.iter().map(|node| cluster.hold(node, &self.owner, HoldScope::CORDON))).await;
        let held = self.context.now();
        let drained = match holds.into_iter().find_map(Result::err) {
            Some(error) => Err(DrainError::Cluster(error)),
            None => self.drain_nodes(&nodes, held).await,
        };
        if let Err(error) = drained {
            self.release(&names).await?;
            if self.context.stop.is_requested() {
                return Err(Error::Stopped("repeat the command to continue the refresh".to_owned()));
            }
            let released: Vec<String> = names.iter().map(|node| format!("`{node}`")).collect();
            let text = format!(
                "{error}; the cordon of {} was released; repeat the command when the node can be drained",
                released.join(", ")
            );
            return Err(Error::Refresh(text));
        }
        Ok(names)
    }

    /// Drains nodes that were held at this time. Their pods are listed again at the end, because a scheduler that had not seen the cordon
    /// yet may have bound one after the drain.
    async fn drain_nodes(&self, nodes: &[(NodeName, &str)], held: Timestamp) -> Result<(), DrainError> {
        try_join_all(nodes.iter().map(|(node, runs)| async move {
            self.note(format!("draining {node} ({runs})")).await;
            self.drain_node(node, false).await
        }))
        .await?;
        self.context.wait_for_balancers(held).await?;
        try_join_all(nodes.iter().map(|(node, _)| self.drain_node(node, true))).await.map(drop)
    }

    /// Drains a node. At the end, also waits until its volumes are detached.
    async fn drain_node(&self, node: &NodeName, again: bool) -> Result<(), DrainError> {
        let drain = Drain { pool: self.pool, run: None, node, again };
        self.context.drain(&drain, self.request.grace_seconds, self.request.force).await?;
        if again { self.context.wait_detached(&drain).await } else { Ok(()) }
    }

    /// Releases nodes, all of them even if one release fails.
    async fn release(&self, nodes: &[NodeName]) -> Result<(), Error> {
        let releases = nodes.iter().map(|node| self.context.cluster.release(node, &self.owner, HoldScope::CORDON));
        let failed = join_all(releases).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}
