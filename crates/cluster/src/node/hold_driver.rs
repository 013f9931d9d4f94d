//! Holding a node and giving it back.

use kube::api::{Patch, PatchParams};
use tokio::time::Instant;

use super::hold::{Act, Hold, HoldWhat, give_back, take};
use super::seen::NodeSeen;
use crate::call::PATIENCE;
use crate::name::{NodeName, Owner};
use crate::{Cluster, Error};

/// Kubelet's and the controllers' writes to a node come seconds apart: a tenth conflict in a row is somebody's runaway loop.
const ATTEMPTS: u32 = 10;

impl Cluster {
    /// Holds a node for an owner, and returns it as it is then. Holding what the owner holds already changes nothing.
    pub async fn hold(&self, node: &NodeName, owner: &Owner, what: HoldWhat) -> Result<NodeSeen, Error> {
        self.settle(&format!("hold node `{node}`"), node, |seen, hold| take(seen, hold, owner, what)).await
    }

    /// Gives back what the owner holds of a node, each to what it was. A node that is gone, or not held, is released.
    pub async fn release(&self, node: &NodeName, owner: &Owner, what: HoldWhat) -> Result<(), Error> {
        let why = format!("release node `{node}`");
        match self.settle(&why, node, |seen, hold| give_back(seen, hold, owner, what)).await {
            Err(error) if error.not_found() => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Reads, decides and writes until the write meets the node that was read. A write whose answer is lost is found by the next read.
    async fn settle(
        &self,
        what: &str,
        name: &NodeName,
        decide: impl Fn(&NodeSeen, Option<Hold>) -> Act,
    ) -> Result<NodeSeen, Error> {
        let api = self.nodes();
        let deadline = Instant::now() + PATIENCE;
        for _ in 0..ATTEMPTS {
            let seen = NodeSeen::of(self.persist(what, deadline, || api.get(name.as_str())).await?)?;
            let patch = match decide(&seen, seen.hold()?) {
                Act::Nothing => return Ok(seen),
                Act::HeldBy(by) => return Err(Error::HeldByAnother { node: name.clone(), by }),
                Act::Patch(patch) => Patch::Merge(patch),
            };
            let params = PatchParams::default();
            match self.persist(what, deadline, || api.patch(name.as_str(), &params, &patch)).await {
                Ok(node) => return NodeSeen::of(node),
                Err(error) if error.conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { what: what.to_owned(), attempts: ATTEMPTS })
    }
}
