//! Draining a node before its machine is stopped or deleted, for runs and refreshes alike.

use std::time::Duration;

use jiff::Timestamp;
use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags, Progress};
use kiln_prototype::run::RunId;
use kiln_types::{Factory, NodeName, PoolName};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::Context;
use crate::event::RunEventKind;

/// A pod without a grace period is gone as soon as its kubelet notices, unless a finalizer keeps it.
const FORCED_WITHIN: Duration = Duration::from_mins(1);

/// The attach-detach controller detaches by force after six minutes. What is attached after that needs a person.
const DETACHED_WITHIN: Duration = Duration::from_mins(10);

/// The time from a hold until the node's machine may stop: the cloud provider takes it out of the load balancers meanwhile. Draining
/// usually takes longer.
const BALANCERS_WITHIN: Duration = Duration::from_secs(15);

/// A node to drain.
pub(crate) struct Drain<'a> {
    pub(crate) pool: &'a PoolName,
    /// The run that drains it, if it is one.
    pub(crate) run: Option<&'a RunId>,
    pub(crate) node: &'a NodeName,
    /// Whether the node was drained before. The pods that stay were reported then.
    pub(crate) again: bool,
}

impl<F: Factory> Context<F> {
    /// Evicts the pods of a node, with this grace period or each pod's own. `force` also evicts pods without a controller, and deletes the
    /// pods that remain.
    pub(crate) async fn drain(&self, drain: &Drain<'_>, grace: Option<u32>, force: bool) -> Result<(), DrainError> {
        let flags = Flags { force, delete_emptydir_data: true, ignore_daemonsets: true, ..Flags::default() };
        // The pods are listed again right before the machine stops.
        let options = DrainOptions { settle: Duration::ZERO, ..DrainOptions::with_grace(flags, grace) };
        let (cluster, node) = (&self.cluster, drain.node);
        self.reporting(drain, async move |sender: UnboundedSender<Progress>| {
            let mut report = |progress| drop(sender.send(progress));
            match cluster.drain(node, &options, &mut report).await {
                Err(DrainError::Remaining { pods, .. }) if force => {
                    cluster.force_out(node, &pods, FORCED_WITHIN, &mut report).await.map(drop)
                }
                drained => drained.map(drop),
            }
        })
        .await
    }

    /// Waits until the load balancers of the cluster had time to take out a node that was held at this time. A cluster without load
    /// balancers has nothing to wait for.
    pub(crate) async fn wait_for_balancers(&self, held: Timestamp) -> Result<(), kiln_kubernetes::Error> {
        let passed = self.now().duration_since(held).try_into().unwrap_or(Duration::ZERO);
        let left = BALANCERS_WITHIN.saturating_sub(passed);
        if !left.is_zero() && self.cluster.has_load_balancers().await? {
            tokio::time::sleep(left).await;
        }
        Ok(())
    }

    /// Waits until the volumes of a drained node are detached.
    pub(crate) async fn wait_detached(&self, drain: &Drain<'_>) -> Result<(), DrainError> {
        let (cluster, node) = (&self.cluster, drain.node);
        self.reporting(drain, async move |sender: UnboundedSender<Progress>| {
            let mut report = |progress| drop(sender.send(progress));
            cluster.wait_detached(node, DETACHED_WITHIN, &mut report).await
        })
        .await
    }

    /// Works until the end or until a stop is requested, and emits the progress meanwhile.
    async fn reporting(
        &self,
        drain: &Drain<'_>,
        work: impl AsyncFnOnce(UnboundedSender<Progress>) -> Result<(), DrainError>,
    ) -> Result<(), DrainError> {
        let (sender, mut progress) = unbounded_channel();
        let work = async {
            tokio::select! {
                done = work(sender) => done,
                () = self.stop.requested() => Err(DrainError::Cancelled { node: drain.node.clone() }),
            }
        };
        let forward = async {
            while let Some(progress) = progress.recv().await {
                if drain.again && matches!(progress, Progress::Skipped(..)) {
                    continue;
                }
                self.emit(drain.pool, drain.run, RunEventKind::Drain(progress)).await;
            }
        };
        tokio::join!(work, forward).0
    }
}
