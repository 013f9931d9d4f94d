//! Cordon and drain as one: a node that is not drained is given back as it was.

use super::driver::{DrainOptions, Drained};
use super::failure::DrainError;
use super::progress::Progress;
use crate::Cluster;
use crate::name::{NodeName, Owner};
use crate::node::{HoldWhat, NodeHold};

impl Cluster {
    /// Cordons a node for an owner and drains it. When it succeeds the node stays held, for what it was drained for. When it fails or
    /// `cancel` ends first, the cordon is given back as it was before the call: also when it was the owner's own already.
    ///
    /// A caller that drops this future leaves the record of the hold on the node, by which [`Cluster::release`] gives it back later.
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
        // Not called off half-way: a write that is on its way could land after the release.
        self.hold(node, owner, HoldWhat::CORDON).await?;
        let outcome = tokio::select! {
            biased;
            () = cancel => Err(DrainError::Cancelled { node: node.clone() }),
            outcome = self.drain(node, options, progress) => outcome,
        };
        match outcome {
            Err(drain) if !held_before => match self.release(node, owner, HoldWhat::CORDON).await {
                Ok(()) => Err(drain),
                Err(release) => Err(DrainError::StillHeld { drain: Box::new(drain), release }),
            },
            outcome => outcome,
        }
    }
}
