//! Reading the pool: Azure rarely, the Nodes often.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_prototype::latest::{NewNodes, new_nodes};
use kiln_prototype::refresh::RefreshState;
use kiln_prototype::rollback::rejected_numbers;
use kiln_types::{Factory, InstanceId, Node, NodeName, ProviderId, VersionNumber};
use tokio::time::Instant;

use super::Refresher;
use crate::Error;
use crate::pools::PoolReading;

/// Azure allows about 900 lists of instances in 30 minutes to all clients of a subscription. What changes quickly, the readiness of
/// nodes, is in the cluster.
const AZURE_INTERVAL: Duration = Duration::from_secs(30);

/// What was read last of Azure.
#[derive(Default)]
pub(super) struct Observer {
    last: Option<(Instant, PoolReading)>,
    /// Instances that the refresh deleted. Azure may list them for a moment longer, and their Nodes are gone already.
    deleted: BTreeSet<InstanceId>,
}

impl Observer {
    /// Azure is read again for the next decision, because the refresh itself changed the pool.
    pub(super) fn forget_azure(&mut self) {
        self.last = None;
    }

    pub(super) fn deleted(&mut self, instances: &[InstanceId]) {
        self.deleted.extend(instances.iter().cloned());
    }

    /// The time until Azure may be asked again.
    fn due_in(&self) -> Duration {
        self.last.as_ref().map_or(AZURE_INTERVAL, |(at, _)| AZURE_INTERVAL.saturating_sub(at.elapsed()))
    }
}

/// The state of the pool, read for one decision.
pub(super) struct Observation {
    pub(super) reading: PoolReading,
    nodes: Vec<Node>,
    /// The nodes of a scale set of the same name in another resource group.
    elsewhere: Vec<Node>,
    pub(super) target: VersionNumber,
    rejected: BTreeSet<VersionNumber>,
}

impl Observation {
    pub(super) fn capacity(&self) -> u32 {
        self.reading.pool.capacity
    }
}

impl<F: Factory> Refresher<'_, F> {
    pub(super) async fn observe(&self, observer: &mut Observer) -> Result<Observation, Error> {
        let fresh = observer.last.take().filter(|(at, _)| at.elapsed() < AZURE_INTERVAL);
        let (at, reading) = match fresh {
            Some(fresh) => fresh,
            None => (Instant::now(), self.read_azure(observer).await?),
        };
        observer.last = Some((at, reading.clone()));
        let group = &self.context.resource_group;
        let is_of_group =
            |node: &Node| ProviderId::from_node(node).is_some_and(|id| id.resource_group.eq_ignore_ascii_case(group));
        let (nodes, elsewhere) = self.context.cluster.nodes_of(self.pool).await?.into_iter().partition(is_of_group);
        let PoolReading { pool, definition_name, versions, definition, .. } = &reading;
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
        let rejected = definition.as_ref().map(|one| rejected_numbers(&one.tags)).unwrap_or_default();
        Ok(Observation { reading, nodes, elsewhere, target, rejected })
    }

    async fn read_azure(&self, observer: &Observer) -> Result<PoolReading, Error> {
        let what = format!("read scale set `{}`", self.pool);
        let pool = self.context.factory.describe_pool(self.pool).await.map_err(Error::cloud(what))?;
        let mut reading = self.context.read(pool).await?;
        reading.instances.retain(|instance| !observer.deleted.contains(&instance.id));
        Ok(reading)
    }

    pub(super) fn state<'s>(&'s self, observation: &'s Observation, wanted: u32) -> RefreshState<'s> {
        RefreshState {
            pool: self.pool,
            wanted,
            capacity: observation.capacity(),
            target: &observation.target,
            definition: &observation.reading.definition_name,
            rejected: &observation.rejected,
            instances: &observation.reading.instances,
            nodes: &observation.nodes,
            own_node: self.context.own_node.as_ref().map(NodeName::as_str),
            owner: self.owner.as_str(),
            budget: self.request.budget,
        }
    }

    /// Waits for a change of the Nodes, a request to stop, or until Azure may be asked again.
    pub(super) async fn wait(&self, observer: &Observer, observation: &Observation) -> Result<(), Error> {
        let within = observer.due_in();
        let seen = [observation.nodes.as_slice(), &observation.elsewhere].concat();
        tokio::select! {
            changed = self.context.cluster.wait_for_node_change(self.pool, &seen, within) => Ok(changed?),
            () = self.context.stop.requested() => Ok(()),
        }
    }
}
