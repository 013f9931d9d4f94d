//! Everything that an operation works with.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kiln_kubernetes::{Cluster, Namespace};
use kiln_prototype::run::RunId;
use kiln_types::{Factory, NodeName, PoolName};

use crate::event::{EventSink, RunEvent, RunEventKind};
use crate::inspector::NodeInspector;
use crate::stop::Stop;

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns a new unique id with each call.
pub type Ids = Arc<dyn Fn() -> RunId + Send + Sync>;

/// Everything that an operation works with. Clones are cheap and share all parts.
pub struct Context<F> {
    pub factory: Arc<F>,
    pub cluster: Cluster,
    pub inspector: Arc<dyn NodeInspector>,
    /// The namespace of leases, journals and saved recipes.
    pub namespace: Namespace,
    /// The resource group of the pools; galleries are named after it.
    pub resource_group: String,
    pub clock: Clock,
    pub ids: Ids,
    /// The node that kiln runs on, if it runs in the cluster. It is never a donor.
    pub own_node: Option<NodeName>,
    /// Who started the operation, for journals and tags.
    pub who: String,
    pub events: Arc<dyn EventSink>,
    pub stop: Stop,
}

impl<F> Clone for Context<F> {
    fn clone(&self) -> Self {
        Self {
            factory: self.factory.clone(),
            cluster: self.cluster.clone(),
            inspector: self.inspector.clone(),
            namespace: self.namespace.clone(),
            resource_group: self.resource_group.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            own_node: self.own_node.clone(),
            who: self.who.clone(),
            events: self.events.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<F> fmt::Debug for Context<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, resource_group, own_node, who, .. } = self;
        f.debug_struct("Context")
            .field("namespace", namespace)
            .field("resource_group", resource_group)
            .field("own_node", own_node)
            .field("who", who)
            .finish_non_exhaustive()
    }
}

impl<F: Factory> Context<F> {
    /// The current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A new unique id.
    pub fn new_id(&self) -> RunId {
        (self.ids)()
    }

    /// Sends an event with the current time.
    pub async fn emit(&self, pool: &PoolName, run: Option<&RunId>, kind: RunEventKind) {
        self.emit_at(self.now(), pool, run, kind).await;
    }

    /// Sends an event with the time of its journal entry.
    pub(crate) async fn emit_at(&self, at: Timestamp, pool: &PoolName, run: Option<&RunId>, kind: RunEventKind) {
        self.events.record(RunEvent { at, pool: pool.clone(), run: run.cloned(), kind }).await;
    }
}
