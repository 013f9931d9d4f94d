//! Cordon and drain in one call: a node whose drain fails is released.

use super::driver::{DrainOptions, Drained};
use super::error::DrainError;
use super::progress::Progress;
use crate::Cluster;
use crate::name::{NodeName, Owner};
use crate::node::{HoldScope, NodeHold};

impl Cluster {
    /// Cordons a node for an owner and drains it. On success the node stays held, for the work that it was drained for. If the drain fails
    /// or `cancel` completes first, the cordon is restored to its state before the call: a cordon that the owner already held stays.
    ///
    /// A caller that drops this future leaves the hold on the node; [`Cluster::release`] restores it later.
    pub async fn cordon_and_drain(
        &self,
        node: &NodeName,
        owner: &Owner,
        options: &DrainOptions,
        cancel: impl Future<Output = ()>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Drained, DrainError> {
        let before = NodeHold::read(&self.node(node).await?)?;
        let held_before = before.is_some_and(|hold| hold.owner == *owner && hold.was_cordoned.is_some());
        // Not cancellable: a write in flight could arrive after the release.
        self.hold(node, owner, HoldScope::CORDON).await?;
        let outcome = tokio::select! {
            biased;
            () = cancel => Err(DrainError::Cancelled { node: node.clone() }),
            outcome = self.drain(node, options, progress) => outcome,
        };
        match outcome {
            Err(drain) if !held_before => match self.release(node, owner, HoldScope::CORDON).await {
                Ok(()) => Err(drain),
                Err(release) => Err(DrainError::StillHeld { drain: Box::new(drain), release }),
            },
            outcome => outcome,
        }
    }
}
