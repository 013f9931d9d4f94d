//! Inspects a node and prepares it for cloning: the port, and its implementation with pods.

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kiln_types::{Inspection, Node, ThawReport};

use super::driver::TaskRun;
use super::pod::{Task, TaskImage, WITHIN};
use crate::name::{Namespace, Owner};
use crate::{Cluster, Error};

/// Inspects nodes, and prepares them for cloning.
pub trait Inspector: Send + Sync {
    /// Inspects a node without changing it.
    fn inspect(&self, node: &Node, run: &Owner) -> impl Future<Output = Result<Inspection, Error>> + Send;

    /// Installs the unit that gives a clone its own identity at first boot, and records the node's VM ID. Nothing is removed, and an
    /// installed unit is kept.
    fn install_first_boot(&self, node: &Node, run: &Owner) -> impl Future<Output = Result<(), Error>> + Send;

    /// Does `work` while the file systems of a node's OS disk are frozen, thaws them, and returns the node's own report. The work is dropped
    /// after [`FREEZE_WINDOW`](kiln_types::FREEZE_WINDOW), when the node thaws them itself.
    fn while_frozen(
        &self,
        node: &Node,
        run: &Owner,
        work: BoxFuture<'_, ()>,
    ) -> impl Future<Output = Result<ThawReport, Error>> + Send;

    /// Verifies that the file systems of a node's OS disk are not frozen, and thaws those that are.
    fn thaw(&self, node: &Node, run: &Owner) -> impl Future<Output = Result<ThawReport, Error>> + Send;
}

/// Uses pods that are announced by an event, bound to the node and removed afterwards.
#[derive(Debug, Clone)]
pub struct PodInspector {
    cluster: Cluster,
    namespace: Namespace,
    image: TaskImage,
    within: Duration,
}

impl PodInspector {
    /// Creates pods of this image in this namespace.
    pub fn new(cluster: &Cluster, namespace: &Namespace, image: impl Into<String>) -> Self {
        let image = TaskImage { name: image.into(), pull_secret: None };
        Self { cluster: cluster.clone(), namespace: namespace.clone(), image, within: WITHIN }
    }

    /// Sets the image pull secret of the pods.
    #[must_use]
    pub fn pull_secret(mut self, name: Option<String>) -> Self {
        self.image.pull_secret = name;
        self
    }

    /// Sets the timeout of each task.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    fn run<'a>(&'a self, task: Task, node: &'a Node, run: &'a Owner) -> TaskRun<'a> {
        TaskRun {
            cluster: &self.cluster,
            namespace: &self.namespace,
            image: &self.image,
            within: self.within,
            task,
            node,
            run,
        }
    }
}

impl Inspector for PodInspector {
    async fn inspect(&self, node: &Node, run: &Owner) -> Result<Inspection, Error> {
        let result = self.run(Task::Inspect, node, run).execute().await?;
        Ok(result.inspection.expect("a successful inspection has findings"))
    }

    async fn install_first_boot(&self, node: &Node, run: &Owner) -> Result<(), Error> {
        self.run(Task::InstallFirstBoot, node, run).execute().await.map(drop)
    }

    async fn while_frozen(&self, node: &Node, run: &Owner, work: BoxFuture<'_, ()>) -> Result<ThawReport, Error> {
        let stayed_frozen = self.run(Task::Freeze, node, run).hold_frozen(work).await;
        let report = self.thaw(node, run).await;
        // The first error is the one to report.
        match stayed_frozen? {
            true => report,
            // Someone else ended the freeze, possibly before the work was done. Its report would count for nothing.
            false => report.map(|report| ThawReport { freeze: None, ..report }),
        }
    }

    async fn thaw(&self, node: &Node, run: &Owner) -> Result<ThawReport, Error> {
        self.run(Task::Freeze, node, run).remove().await?;
        let result = self.run(Task::Thaw, node, run).execute().await?;
        Ok(result.thaw.expect("a successful thaw has a report"))
    }
}
