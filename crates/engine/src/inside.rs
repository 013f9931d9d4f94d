//! What is inside a node: read, and the one thing that is put there. The edge's port as a trait object, so that a context names no edge.

use futures_util::future::BoxFuture;
use kiln_kubernetes::{Error, Inspector, NodeSeen, Owner};
use kiln_types::Inspection;

/// Reads the inside of nodes, and puts the first-boot unit on them.
pub trait Inside: Send + Sync {
    /// Reads what is inside a node, by a program that changes nothing.
    fn inspect<'a>(&'a self, node: &'a NodeSeen, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>>;

    /// Puts the first-boot unit on a node. It wipes nothing.
    fn install_first_boot<'a>(&'a self, node: &'a NodeSeen, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>>;
}

impl<I: Inspector> Inside for I {
    fn inspect<'a>(&'a self, node: &'a NodeSeen, run: &'a Owner) -> BoxFuture<'a, Result<Inspection, Error>> {
        Box::pin(Inspector::inspect(self, node, run))
    }

    fn install_first_boot<'a>(&'a self, node: &'a NodeSeen, run: &'a Owner) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Inspector::install_first_boot(self, node, run))
    }
}
