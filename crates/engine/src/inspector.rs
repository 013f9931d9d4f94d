//! The inspector of nodes as a trait object, so that [`Context`](crate::Context) does not name an edge.

use futures_util::future::BoxFuture;
use kiln_kubernetes::{Error, Inspector, Owner};
use kiln_types::{Inspection, Node};

/// Inspects nodes, and installs the first-boot unit.
pub trait NodeInspector: Send + Sync {
    /// Inspects a node with a read-only pod.
    fn inspect<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>>;

    /// Installs the first-boot unit on a node and changes nothing else.
    fn install_first_boot<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>>;
}

impl<I: Inspector> NodeInspector for I {
    fn inspect<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>> {
        Box::pin(Inspector::inspect(self, node, run))
    }

    fn install_first_boot<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Inspector::install_first_boot(self, node, run))
    }
}
