//! What is inside a node: the port, and the way by pods.

use std::future::Future;
use std::time::Duration;

use kiln_types::{Inspection, Node};

use super::driver::Errand;
use super::pod::{Task, TaskImage, WITHIN};
use crate::name::{Namespace, Owner};
use crate::{Cluster, Error};

/// Looks into nodes, and prepares them to be copied.
pub trait Inspector: Send + Sync {
    /// Reads what is inside a node. It changes nothing there.
    fn inspect(&self, node: &Node, run: &Owner) -> impl Future<Output = Result<Inspection, Error>> + Send;

    /// Installs the unit by which a copy of the node's disk gets an identity of its own, and records the node's machine. It wipes nothing,
    /// and a node that has it keeps it.
    fn install_first_boot(&self, node: &Node, run: &Owner) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Does it by pods that are announced, bound to the node and removed afterwards.
#[derive(Debug, Clone)]
pub struct PodInspector {
    cluster: Cluster,
    namespace: Namespace,
    image: TaskImage,
    within: Duration,
}

impl PodInspector {
    /// By pods in this namespace, of this image.
    pub fn new(cluster: &Cluster, namespace: &Namespace, image: impl Into<String>) -> Self {
        let image = TaskImage { name: image.into(), pull_secret: None };
        Self { cluster: cluster.clone(), namespace: namespace.clone(), image, within: WITHIN }
    }

    /// Pulled with this Secret of the namespace.
    #[must_use]
    pub fn pull_secret(mut self, name: Option<String>) -> Self {
        self.image.pull_secret = name;
        self
    }

    /// With another limit for each task.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    fn run<'a>(&'a self, task: Task, node: &'a Node, run: &'a Owner) -> Errand<'a> {
        Errand {
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
        let found = self.run(Task::Inspect, node, run).carry_out().await?;
        Ok(found.inspection.expect("an inspection that ended well has findings"))
    }

    async fn install_first_boot(&self, node: &Node, run: &Owner) -> Result<(), Error> {
        self.run(Task::InstallFirstBoot, node, run).carry_out().await.map(drop)
    }
}
