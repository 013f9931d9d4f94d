//! Carries out the acts of a decision.
//!
//! The acts of one node run one after another, those of different nodes at the same time. Every write to a NodeState has the revision that
//! the decision was based on as its precondition. A release removes the hold last: an operator that dies before that finds the hold, and
//! releases the node again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{NodeState, Phase, Target};
use kiln_kubernetes::{Error, HoldScope, NodeName, Owner};
use kiln_rollout::{Act, PastTurn};
use kiln_types::PoolName;
use serde_json::json;

use super::drains::{DrainRequest, Drains};
use super::images::{Images, Job, provider_id, scale_set};
use super::index::{hold, state_of};
use super::observe::{CONDITIONS_BEFORE, conditions};
use super::stores::Snapshots;
use super::writes::{Shared, merge_diff};
use crate::stop::Stop;

/// Writes at the same time. The API server serves hundreds; this many assign a wave of a thousand nodes in seconds.
const PARALLEL: usize = 16;
/// Past turns that are kept for the end of windows.
const PAST: usize = 200;

/// The acts of one rollout.
pub(super) struct Acting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) drains: &'a Drains,
    pub(super) view: &'a Snapshots,
    /// Name of the rollout.
    pub(super) rollout: &'a str,
    pub(super) owner: &'a Owner,
    pub(super) drain_timeout: SignedDuration,
    pub(super) now: Timestamp,
    pub(super) past: &'a Mutex<VecDeque<PastTurn>>,
    pub(super) images: Option<&'a Images>,
    pub(super) stop: &'a Stop,
}

impl Acting<'_> {
    /// Carries out all acts, and returns the first error. After a stop was requested, no further node is begun.
    pub(super) async fn carry_out(&self, acts: Vec<Act>) -> Result<(), Error> {
        let mut groups: Vec<(String, Vec<Act>)> = Vec::new();
        let (machines, acts): (Vec<Act>, Vec<Act>) = acts.into_iter().partition(is_about_machines);
        self.change_machines(&machines);
        for act in acts {
            let key = match &act {
                Act::CompletePool { pool, .. } | Act::RejectDigest { pool, .. } => format!("pool/{pool}"),
                act => act.node().unwrap_or_default().to_owned(),
            };
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(act),
                None => groups.push((key, vec![act])),
            }
        }
        let groups: Vec<_> = groups.into_iter().map(|(_, group)| self.group(group)).collect();
        let results: Vec<Result<(), Error>> = stream::iter(groups).buffer_unordered(PARALLEL).collect().await;
        results.into_iter().collect()
    }

    async fn group(&self, acts: Vec<Act>) -> Result<(), Error> {
        if self.stop.is_requested() {
            return Ok(());
        }
        let mut written: Option<NodeState> = None;
        for act in acts {
            match act {
                Act::CompletePool { pool, target } => {
                    let target = Target::document(target.node_config, Some(target.digest));
                    self.change_pool(&pool, |status| status.target = Some(target)).await?;
                }
                Act::RejectDigest { pool, digest } => {
                    self.change_pool(&pool, |status| {
                        if !status.rejected.contains(&digest) {
                            status.rejected.push(digest);
                        }
                    })
                    .await?;
                }
                Act::Drain { node } => self.drain(&node),
                act => {
                    let Some(node) = act.node().map(ToOwned::to_owned) else { continue };
                    let known = written.take().or_else(|| self.state(&node).cloned());
                    written = self.node_act(&node, known, act).await?;
                }
            }
        }
        Ok(())
    }

    fn state(&self, node: &str) -> Option<&NodeState> {
        state_of(&self.view.states, self.view.nodes.get(node)?)
    }

    /// An act on a node, and its NodeState after it.
    async fn node_act(&self, node: &str, state: Option<NodeState>, act: Act) -> Result<Option<NodeState>, Error> {
        if let Act::Release { .. } = act {
            return self.release(node, state).await;
        }
        // A NodeState that is missing is created in the next pass, and the act is decided again.
        let Some(state) = state else { return Ok(None) };
        let mut new = state.clone();
        match act {
            Act::Assign { desired, .. } => {
                new.spec.desired = Some(desired);
                (new.spec.allow, new.spec.reboot) = (None, None);
                if let Some(node) = self.view.nodes.get(node) {
                    let before = json!(conditions(node)).to_string();
                    new.metadata.annotations.get_or_insert_default().insert(CONDITIONS_BEFORE.to_owned(), before);
                }
            }
            Act::Unassign { .. } => {
                (new.spec.desired, new.spec.allow, new.spec.reboot) = (None, None, None);
            }
            Act::Allow { digest, .. } => new.spec.allow = Some(digest),
            Act::Reboot { boot_id, .. } => new.spec.reboot = Some(boot_id),
            _ => {}
        }
        self.change_state(state, &new).await.map(Some)
    }

    /// Writes the spec and the annotations of a NodeState, if they differ.
    async fn change_state(&self, old: NodeState, new: &NodeState) -> Result<NodeState, Error> {
        let Some(spec) = merge_diff(&json!(old.spec), &json!(new.spec)) else { return Ok(old) };
        let mut patch = json!({"spec": spec});
        let empty = BTreeMap::new();
        let annotations = |state: &NodeState| json!(state.metadata.annotations.as_ref().unwrap_or(&empty));
        if let Some(annotations) = merge_diff(&annotations(&old), &annotations(new)) {
            patch["metadata"] = json!({"annotations": annotations});
        }
        self.shared.patch(&self.shared.stores.states, &old, patch).await
    }

    /// Starts one job for each scale set. It runs in the background; until it ends, every decision repeats its acts.
    fn change_machines(&self, acts: &[Act]) {
        let Some(images) = self.images else { return };
        let mut jobs: BTreeMap<PoolName, Job> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Remove { node } => {
                    let id = self.view.nodes.get(node).and_then(|node| provider_id(node));
                    if let Some(id) = id {
                        jobs.entry(id.pool).or_default().remove.push(id.instance);
                    }
                }
                Act::Grow { pool, to } => {
                    if let Some(set) = self.scale_set(pool) {
                        jobs.entry(set).or_default().grow = u32::try_from(*to).ok();
                    }
                }
                Act::RejectVersion { pool, version, reason } => {
                    if let (Some(set), Ok(version)) = (self.scale_set(pool), version.parse()) {
                        jobs.entry(set).or_default().reject = Some((version, reason.clone()));
                    }
                }
                Act::RemoveUnjoined { pool, version } => {
                    if let Some(set) = self.scale_set(pool) {
                        let unjoined = images.unjoined(&set, version, self.view);
                        jobs.entry(set).or_default().remove.extend(unjoined);
                    }
                }
                _ => {}
            }
        }
        for (set, job) in jobs {
            images.start(&set, job);
        }
    }

    fn scale_set(&self, pool: &str) -> Option<PoolName> {
        scale_set(self.view.pools.get(pool)?)?.ok()
    }

    fn drain(&self, node: &str) {
        let Ok(name) = node.parse::<NodeName>() else { return };
        let held = self.view.nodes.get(node).and_then(|node| hold(node)).filter(|hold| hold.owner == *self.owner);
        let status = self.state(node).and_then(|state| state.status.as_ref());
        self.drains.start(DrainRequest {
            node: name,
            owner: self.owner.clone(),
            since: held.and_then(|hold| hold.since).unwrap_or(self.now),
            limit: self.drain_timeout,
            effect: status.and_then(|status| status.effect),
        });
    }

    /// Ends the drain, removes the consent, kured's lock and then the hold.
    pub(super) async fn release(&self, node: &str, state: Option<NodeState>) -> Result<Option<NodeState>, Error> {
        let drained = self.drains.end(node, self.owner).await;
        let state = match state {
            Some(state) if state.spec.desired.as_ref().is_none_or(|desired| desired.rollout == self.rollout) => {
                if let Some((since, Some(effect))) = drained
                    && state.status.as_ref().is_some_and(|status| status.phase == Phase::Current)
                {
                    self.remember(PastTurn { effect, took: self.now.duration_since(since) });
                }
                let mut new = state.clone();
                (new.spec.allow, new.spec.reboot) = (None, None);
                Some(self.change_state(state, &new).await?)
            }
            other => other,
        };
        let is_held =
            self.view.nodes.get(node).and_then(|node| hold(node)).is_some_and(|hold| hold.owner == *self.owner);
        if (is_held || drained.is_some())
            && let Ok(name) = node.parse::<NodeName>()
        {
            self.shared.cluster.release_kured_lock(&name).await?;
            self.shared.metrics.add("kiln_operator_writes_total", &["nodes"], 1.0);
            match self.shared.cluster.release(&name, self.owner, HoldScope::CORDON).await {
                // The hold of another run, which took the node after this one had released it.
                Err(Error::HeldByAnother { .. }) => {}
                released => released?,
            }
        }
        Ok(state)
    }

    fn remember(&self, turn: PastTurn) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.push_back(turn);
        while past.len() > PAST {
            past.pop_front();
        }
    }

    async fn change_pool(&self, name: &str, change: impl FnOnce(&mut kiln_fleet_api::PoolStatus)) -> Result<(), Error> {
        // The pool as the last act of this decision left it.
        let Some(pool) = self.shared.stores.pools.snapshot().get(name).cloned() else { return Ok(()) };
        let mut status = pool.status.clone().unwrap_or_default();
        change(&mut status);
        self.shared.update_status(&self.shared.stores.pools, &*pool, pool.status.as_ref(), &status).await.map(drop)
    }
}

/// Whether an act changes the machines of a pool and not its objects.
fn is_about_machines(act: &Act) -> bool {
    matches!(act, Act::Grow { .. } | Act::Remove { .. } | Act::RemoveUnjoined { .. } | Act::RejectVersion { .. })
}
