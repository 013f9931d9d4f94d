//! Reading the pool, and the checks before the first write.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use kiln_fleet_api::{Freeze, NodeFailure, NodeState};
use kiln_kubernetes::{Fleet, FleetKind};
use kiln_rollout::{FreezeObserved, Observed, PoolObserved, ResolvedTarget};
use kiln_types::{Factory, Instance, InstanceId, Node, ProviderId};
use tokio::time::Instant;

use super::record::{PushRecord, Stored};
use super::report::{PushOutcome, PushReport};
use super::{LIST_AGAIN, PushRefusal, Pusher, Reading, check, name, observe};
use crate::Error;

/// Reads of user data at the same time. Azure allows 12,000 reads per hour to a subscription.
const PARALLEL: usize = 8;

impl<F: Factory> Pusher<'_, F> {
    /// Reads the instances and their nodes.
    pub(super) async fn read(&self) -> Result<Reading, Error> {
        let mut reading = Reading {
            instances: self.instances().await?,
            listed: Instant::now(),
            nodes: Vec::new(),
            seen: Vec::new(),
            effects: BTreeMap::new(),
            written: BTreeSet::new(),
        };
        self.refresh(&mut reading).await?;
        Ok(reading)
    }

    async fn instances(&self) -> Result<Vec<Instance>, Error> {
        let what = format!("list the instances of `{}`", self.pool);
        self.context.factory.instances(self.pool).await.map_err(Error::cloud(what))
    }

    /// Reads the nodes again, and the instances if a node has none.
    pub(super) async fn refresh(&self, reading: &mut Reading) -> Result<(), Error> {
        reading.seen = self.context.cluster.nodes_of(self.pool).await?;
        let group = &self.context.resource_group;
        // A scale set of the same name in another resource group has the same pool name.
        let is_here =
            |node: &&Node| ProviderId::from_node(node).is_some_and(|id| id.resource_group.eq_ignore_ascii_case(group));
        let nodes: Vec<Node> = reading.seen.iter().filter(is_here).cloned().collect();
        let is_known = |node: &Node| reading.instances.iter().any(|one| node.is_instance(self.pool, &one.id));
        if reading.listed.elapsed() >= LIST_AGAIN && !nodes.iter().all(is_known) {
            (reading.instances, reading.listed) = (self.instances().await?, Instant::now());
        }
        let matched = nodes.into_iter().filter_map(|node| {
            let instance = reading.instances.iter().find(|one| node.is_instance(self.pool, &one.id))?.clone();
            Some((node, instance))
        });
        reading.nodes = matched.collect();
        Ok(())
    }

    /// The user data of an instance as text. Anything but a NodeConfig is not overwritten, so other bytes are an error.
    pub(super) async fn user_data(&self, instance: &InstanceId) -> Result<String, Error> {
        let what = format!("read the user data of instance {instance} of `{}`", self.pool);
        let data = self.context.factory.user_data(self.pool, instance).await.map_err(Error::cloud(what))?;
        let owner = || PushRefusal::OtherUserData(format!("instance {instance}"));
        let text = String::from_utf8(data.expose().to_vec()).map_err(|_| owner())?;
        check::documents([(format!("instance {instance}"), text.as_str())])?;
        Ok(text)
    }

    /// Refuses a push that cannot work, and stores the effect of the document on each node.
    pub(super) async fn check(&self, reading: &mut Reading) -> Result<(), Error> {
        if reading.nodes.is_empty() {
            return Err(PushRefusal::NoNodes(self.pool.to_string()).into());
        }
        self.check_owner(reading).await?;
        let ids: Vec<InstanceId> = reading.nodes.iter().map(|(_, instance)| instance.id.clone()).collect();
        let texts: Vec<String> =
            stream::iter(&ids).map(|id| self.user_data(id)).buffered(PARALLEL).try_collect().await?;
        let (model, _) = self.read_model().await?;
        let model = std::str::from_utf8(model.expose()).unwrap_or("not text");
        let owners = ids.iter().map(|id| format!("instance {id}")).zip(texts.iter().map(String::as_str));
        let known = check::documents(owners.chain([("the scale set's model".to_owned(), model)]))?;
        for (node, _) in &reading.nodes {
            if let Some(effect) = check::check_node(node, self.document, &known)? {
                reading.effects.insert(node.name.to_string(), effect);
            }
        }
        Ok(())
    }

    /// Refuses while the operator assigns documents to a node of the pool.
    async fn check_owner(&self, reading: &Reading) -> Result<(), Error> {
        let assigned: BTreeSet<String> = (self.objects::<NodeState>().await?.into_iter())
            .filter(|state| state.spec.desired.is_some())
            .filter_map(|state| state.metadata.name)
            .collect();
        match reading.nodes.iter().find(|(node, _)| assigned.contains(node.name.as_str())) {
            Some((node, _)) => Err(PushRefusal::Assigned(node.name.to_string()).into()),
            None => Ok(()),
        }
    }

    /// All objects of a kind; none where the custom resources are not installed.
    async fn objects<K: FleetKind>(&self) -> Result<Vec<K>, Error> {
        match Fleet::new(&self.context.cluster).list().await {
            // A list has no other reason for this status.
            Err(error) if error.is_not_found() || error.is_kind_missing() => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }

    /// The observation for the next decision.
    pub(super) async fn observed(
        &self,
        record: &PushRecord,
        reading: &Reading,
        now: Timestamp,
    ) -> Result<Observed, Error> {
        let freezes = self.objects::<Freeze>().await?.into_iter().map(|freeze| FreezeObserved {
            name: freeze.metadata.name.unwrap_or_default(),
            reason: freeze.spec.reason,
            pools: freeze.spec.pools,
            until: freeze.spec.until.as_deref().and_then(|until| until.parse().ok()),
        });
        let pool = self.pool.as_str();
        let nodes = reading.nodes.iter().map(|(node, _)| {
            let name = node.name.as_str();
            let effect = reading.effects.get(name).copied();
            let pushed = record.nodes.get(name).filter(|pushed| !pushed.restored);
            observe::observe(node, pool, pushed, &self.digest, effect, now)
        });
        let rejected = if record.rejected { vec![self.digest.clone()] } else { Vec::new() };
        Ok(Observed {
            target: Ok(ResolvedTarget { node_config: name(self.document), digest: self.digest.clone() }),
            pools: vec![PoolObserved { name: pool.to_owned(), rejected, ..PoolObserved::default() }],
            nodes: nodes.collect(),
            freezes: freezes.collect(),
            older_rollouts: Vec::new(),
            prometheus: Vec::new(),
            past: Vec::new(),
        })
    }

    /// Nodes that lack the document although all waves passed: they joined after the last decision.
    pub(super) fn without_document(&self, reading: &Reading) -> Vec<NodeFailure> {
        let left = reading
            .nodes
            .iter()
            .filter(|(node, _)| observe::in_force(node).is_none_or(|(_, hash)| hash != self.digest));
        let reason = "has another document; push again to update it";
        let nodes = left.map(|(node, _)| NodeFailure { node: node.name.to_string(), reason: reason.to_owned() });
        let is_matched = |one: &&Instance| !reading.nodes.iter().any(|(_, instance)| instance.id == one.id);
        let off = reading.instances.iter().filter(is_matched).map(|one| NodeFailure {
            node: one.node_name.clone(),
            reason: format!("instance {} has no Node; it keeps its user data", one.id),
        });
        nodes.chain(off).collect()
    }

    /// Reports the waves of a push without changing anything.
    pub(super) async fn preview(&self, stored: &Stored) -> Result<PushReport, Error> {
        let record = self.begin(stored)?;
        let mut reading = self.read().await?;
        self.check(&mut reading).await?;
        let now = self.context.now();
        let decision = self.decide(&record, &self.observed(&record, &reading, now).await?, now);
        let planned = PushRecord { status: decision.status, ..record };
        Ok(self.report(PushOutcome::Planned, &planned, &reading, Vec::new()))
    }
}
