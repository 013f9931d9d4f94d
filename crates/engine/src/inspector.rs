//! The inspector of nodes as a trait object, so that [`Context`](crate::Context) does not name an edge.

use futures_util::future::BoxFuture;
use kiln_kubernetes::{Error, Inspector, Owner};
use kiln_types::{Inspection, Node, ThawReport};

/// Inspects nodes, installs the first-boot unit, and freezes file systems.
pub trait NodeInspector: Send + Sync {
    /// Inspects a node with a read-only pod.
    fn inspect<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>>;

    /// Installs the first-boot unit on a node and changes nothing else.
    fn install_first_boot<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>>;

    /// Does `work` while the file systems of a node are frozen.
    fn while_frozen<'a>(
        &'a self,
        node: &'a Node,
        run: &'a Owner,
        work: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<ThawReport, Error>>;

    /// Verifies that the file systems of a node are not frozen.
    fn thaw<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<ThawReport, Error>>;
}

impl<I: Inspector> NodeInspector for I {
    fn inspect<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>> {
        Box::pin(Inspector::inspect(self, node, run))
    }

    fn install_first_boot<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Inspector::install_first_boot(self, node, run))
    }

    fn while_frozen<'a>(
        &'a self,
        node: &'a Node,
        run: &'a Owner,
        work: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<ThawReport, Error>> {
        Box::pin(Inspector::while_frozen(self, node, run, work))
    }

    fn thaw<'a>(&'a self, node: &'a Node, run: &'a Owner) -> BoxFuture<'a, Result<ThawReport, Error>> {
        Box::pin(Inspector::thaw(self, node, run))
    }
}
