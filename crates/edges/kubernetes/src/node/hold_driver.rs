//! Holding a node and giving it back.

use std::time::Duration;

use kiln_types::Node;
use kube::api::{Patch, PatchParams};
use tokio::time::{Instant, sleep};

use super::convert::node_from;
use super::hold::{Act, HoldWhat, NodeHold, give_back, take};
use crate::call::PATIENCE;
use crate::name::{NodeName, Owner};
use crate::{Cluster, Error};

/// Kubelet's and the controllers' writes to a node come seconds apart: who meets another's write meets none a moment later. Where
/// somebody writes in a loop, each further conflict waits that much longer, so that we are not a second loop.
const AFTER_CONFLICT: Duration = Duration::from_millis(10);
const LONGEST_AFTER_CONFLICT: Duration = Duration::from_secs(1);

impl Cluster {
    /// Holds a node for an owner, and returns it as it is then. Holding what the owner holds already changes nothing.
    pub async fn hold(&self, node: &NodeName, owner: &Owner, what: HoldWhat) -> Result<Node, Error> {
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
        decide: impl Fn(&Node, Option<NodeHold>) -> Act,
    ) -> Result<Node, Error> {
        let api = self.nodes();
        let deadline = Instant::now() + PATIENCE;
        let mut attempts = 0;
        while Instant::now() < deadline {
            attempts += 1;
            let seen = node_from(self.persist(what, deadline, || api.get(name.as_str())).await?)?;
            let patch = match decide(&seen, NodeHold::read(&seen)?) {
                Act::Nothing => return Ok(seen),
                Act::HeldBy(by) => return Err(Error::HeldByAnother { node: name.clone(), by }),
                Act::Patch(patch) => Patch::Merge(patch),
            };
            let params = PatchParams::default();
            match self.persist(what, deadline, || api.patch(name.as_str(), &params, &patch)).await {
                Ok(node) => return node_from(node),
                Err(error) if error.conflict() => {
                    let wait = (AFTER_CONFLICT * attempts).min(LONGEST_AFTER_CONFLICT);
                    sleep(self.options.spread.over(wait)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { what: what.to_owned(), attempts })
    }
}
