//! Holds and releases nodes.

use std::time::Duration;

use jiff::Timestamp;
use kiln_types::Node;
use kube::api::{Patch, PatchParams};
use tokio::time::{Instant, sleep};

use super::convert::node_from;
use super::hold::{HoldAction, HoldScope, NodeHold, plan_hold, plan_release};
use crate::name::{NodeName, Owner};
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// Writes of the kubelet and the controllers to a node are seconds apart, so a retry rarely conflicts again. If another actor writes in a
/// loop, each further conflict waits longer, so that we do not become a second loop.
const AFTER_CONFLICT: Duration = Duration::from_millis(10);
const LONGEST_AFTER_CONFLICT: Duration = Duration::from_secs(1);

impl Cluster {
    /// Holds a node for an owner, and returns its new state. Holding again what the owner already holds changes nothing.
    pub async fn hold(&self, node: &NodeName, owner: &Owner, scope: HoldScope) -> Result<Node, Error> {
        self.hold_at(node, owner, scope, None).await
    }

    /// Like [`Self::hold`], and records the time in the hold, for an owner without a journal.
    pub async fn hold_since(
        &self,
        node: &NodeName,
        owner: &Owner,
        scope: HoldScope,
        since: Timestamp,
    ) -> Result<Node, Error> {
        self.hold_at(node, owner, scope, Some(since)).await
    }

    async fn hold_at(
        &self,
        node: &NodeName,
        owner: &Owner,
        scope: HoldScope,
        since: Option<Timestamp>,
    ) -> Result<Node, Error> {
        self.patch_until_settled(&format!("hold node `{node}`"), node, |current, hold| {
            plan_hold(current, hold, owner, scope, since)
        })
        .await
    }

    /// Releases an owner's hold, restoring each part to its previous state. A node that does not exist or is not held counts as released.
    pub async fn release(&self, node: &NodeName, owner: &Owner, scope: HoldScope) -> Result<(), Error> {
        let action = format!("release node `{node}`");
        match self.patch_until_settled(&action, node, |current, hold| plan_release(current, hold, owner, scope)).await {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Reads, decides and writes until a write succeeds. If the response to a write is lost, the next read shows its result.
    async fn patch_until_settled(
        &self,
        action: &str,
        name: &NodeName,
        decide: impl Fn(&Node, Option<NodeHold>) -> HoldAction,
    ) -> Result<Node, Error> {
        let api = self.nodes();
        let deadline = Instant::now() + RETRY_FOR;
        let mut attempts = 0;
        while Instant::now() < deadline {
            attempts += 1;
            let current = node_from(self.retry(action, deadline, || api.get(name.as_str())).await?)?;
            let patch = match decide(&current, NodeHold::read(&current)?) {
                HoldAction::None => return Ok(current),
                HoldAction::HeldBy(by) => return Err(Error::HeldByAnother { node: name.clone(), by }),
                HoldAction::Patch(patch) => Patch::Merge(patch),
            };
            let params = PatchParams::default();
            match self.retry(action, deadline, || api.patch(name.as_str(), &params, &patch)).await {
                Ok(node) => return node_from(node),
                Err(error) if error.is_conflict() => {
                    let wait = (AFTER_CONFLICT * attempts).min(LONGEST_AFTER_CONFLICT);
                    sleep(self.options.jitter.apply(wait)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { action: action.to_owned(), attempts })
    }
}
