//! Everything that an operation works with.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kiln_kubernetes::{Cluster, Namespace, NodeName};
use kiln_prototype::run::RunId;
use kiln_types::{Factory, PoolName};

use crate::inside::Inside;
use crate::news::{RunEventKind, RunEvent, EventSink};
use crate::stop::Stop;

/// The time of day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Names that nobody else ever gets, each call another one.
pub type Ids = Arc<dyn Fn() -> RunId + Send + Sync>;

/// Everything that an operation works with. A copy is cheap and works with the same things.
pub struct Context<F> {
    pub factory: Arc<F>,
    pub cluster: Cluster,
    /// Reads the inside of nodes, and puts the first-boot unit on them.
    pub inside: Arc<dyn Inside>,
    /// Where leases, journals and saved recipes are kept.
    pub namespace: Namespace,
    /// The resource group of the pools, after which galleries are named.
    pub resource_group: String,
    /// The time of day.
    pub clock: Clock,
    /// Fresh names.
    pub ids: Ids,
    /// The node that this program runs on, where it runs in the cluster: never a donor.
    pub own_node: Option<NodeName>,
    /// Who asks, for journals and tags.
    pub who: String,
    /// Who is told.
    pub watcher: Arc<dyn EventSink>,
    /// Whether to stop.
    pub stop: Stop,
}

impl<F> Clone for Context<F> {
    fn clone(&self) -> Self {
        Self {
            factory: self.factory.clone(),
            cluster: self.cluster.clone(),
            inside: self.inside.clone(),
            namespace: self.namespace.clone(),
            resource_group: self.resource_group.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            own_node: self.own_node.clone(),
            who: self.who.clone(),
            watcher: self.watcher.clone(),
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
    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A fresh name.
    pub fn fresh(&self) -> RunId {
        (self.ids)()
    }

    /// Tells something.
    pub async fn tell(&self, pool: &PoolName, run: Option<&RunId>, what: RunEventKind) {
        self.watcher.told(RunEvent { pool: pool.clone(), run: run.cloned(), what }).await;
    }
}
