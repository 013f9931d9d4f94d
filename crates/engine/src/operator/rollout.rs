//! One Rollout: decide, write its status, act.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use kiln_fleet_api::{Pool, Rollout};
use kiln_kubernetes::{Error, Owner};
use kiln_rollout::{Decision, DrainState, PastTurn, Reading, Severity};
use serde_json::json;

use super::act::Acting;
use super::images::{ImageState, scale_set};
use super::index::{hold, owner_of, state_of};
use super::observe::{Local, ResolvedPolicy, is_open, observe, resolve_policy};
use super::session::Session;
use super::stores::Snapshots;
use crate::stop::Stop;

/// Keeps a Rollout until its nodes are released.
const FINALIZER: &str = "node.kiln.dev/release-nodes";

impl Local for Session {
    fn drain(&self, node: &str, owner: &Owner) -> Option<DrainState> {
        self.drains.state(node, owner)
    }

    fn daemon_sets_ready(&self, node: &str) -> bool {
        self.pods.is_ready(node)
    }

    fn readings(&self, rollout: &str) -> Vec<Reading> {
        self.queries.readings(rollout)
    }

    fn past(&self) -> Vec<PastTurn> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn images(&self, pool: &Pool) -> ImageState {
        match (&self.images, scale_set(pool)) {
            (None, _) => ImageState::Off,
            (Some(images), Some(Ok(set))) => images.state(&set),
            (Some(_), _) => ImageState::Unread,
        }
    }

    fn own_node(&self) -> Option<&str> {
        self.images.as_ref()?.own_node()
    }
}

impl Session {
    /// Takes the next steps of a rollout, and returns when to decide again.
    ///
    /// The status is written before the acts: it records which nodes are started and held, so that an operator that continues after a crash
    /// counts them. If the status cannot be written, because the decision was based on an old copy, nothing is done.
    pub(super) async fn reconcile(&mut self, name: &str, stop: &Stop) -> Result<Option<Timestamp>, Error> {
        let view = self.shared.stores.snapshots();
        let Some(rollout) = view.rollouts.get(name).cloned() else { return Ok(None) };
        let Some(owner) = owner_of(&rollout) else { return Ok(None) };
        if rollout.metadata.deletion_timestamp.is_some() || !is_open(&rollout) {
            self.finish(&rollout, &owner, &view, stop).await?;
            return Ok(None);
        }
        if self.is_unread(&rollout, &view) {
            return Ok(None);
        }
        let rollout = self.with_finalizer(rollout).await?;
        let policy = resolve_policy(&rollout, &view);
        let now = (self.shared.options.clock)();
        let decision = self.decide(&rollout, &owner, &policy, &view, now);
        let written = self.report(&rollout, &view, &decision).await?;
        for index in &decision.queries {
            if let Some(query) = policy.policy.queries().get(*index) {
                self.queries.start(name, *index, query);
            }
        }
        let acting = self.acting(name, &owner, &policy, &view, now, stop);
        acting.carry_out(decision.acts).await?;
        if !is_open(&written) {
            // The finalizer is removed in the next pass, when the nodes show their release.
            self.shared.stores.changed.notify_one();
        }
        Ok(decision.wake)
    }

    /// Whether the scale set of a rollout with an image version is being read for the first time.
    fn is_unread(&self, rollout: &Rollout, view: &Snapshots) -> bool {
        let pool = rollout.spec.pools.first().and_then(|name| view.pools.get(name));
        let pool = pool.filter(|pool| {
            rollout.spec.target.image_version.is_some() && scale_set(pool).is_some_and(|set| set.is_ok())
        });
        pool.is_some_and(|pool| matches!(Local::images(self, pool), ImageState::Unread))
    }

    fn decide(
        &mut self,
        rollout: &Rollout,
        owner: &Owner,
        policy: &ResolvedPolicy,
        view: &Snapshots,
        now: Timestamp,
    ) -> Decision {
        let mut documents = std::mem::take(&mut self.documents);
        let observed = observe(rollout, owner, policy, view, &self.index, &mut documents, self);
        self.documents = documents;
        let status = rollout.status.clone().unwrap_or_default();
        let decided = kiln_rollout::Rollout {
            name: rollout.metadata.name.as_deref().unwrap_or_default(),
            generation: rollout.metadata.generation,
            spec: &rollout.spec,
            status: &status,
            policy: &policy.policy,
        };
        let mut decision = kiln_rollout::next(&decided, &observed, now);
        decision.status.observed_generation = rollout.metadata.generation;
        decision
    }

    /// Writes the status and publishes the notices. Returns the rollout with its new status.
    async fn report(
        &self,
        rollout: &Arc<Rollout>,
        view: &Snapshots,
        decision: &Decision,
    ) -> Result<Arc<Rollout>, Error> {
        let shared = &self.shared;
        let store = &shared.stores.rollouts;
        let written =
            shared.update_status(store, &**rollout, rollout.status.as_ref(), &decision.status).await?.map(Arc::new);
        for notice in &decision.notices {
            let warning = notice.severity == Severity::Warning;
            shared.notice(&**rollout, warning, notice.reason, &notice.message).await;
            let node = notice.node.as_ref().and_then(|node| view.nodes.get(node));
            if let Some(node) = node {
                shared.notice(&**node, warning, notice.reason, &notice.message).await;
            }
        }
        Ok(written.unwrap_or_else(|| rollout.clone()))
    }

    fn acting<'a>(
        &'a self,
        rollout: &'a str,
        owner: &'a Owner,
        policy: &ResolvedPolicy,
        view: &'a Snapshots,
        now: Timestamp,
        stop: &'a Stop,
    ) -> Acting<'a> {
        Acting {
            shared: &self.shared,
            drains: &self.drains,
            view,
            rollout,
            owner,
            drain_timeout: policy.drain_timeout(),
            now,
            past: &self.past,
            images: self.images.as_ref(),
            stop,
        }
    }

    async fn with_finalizer(&self, rollout: Arc<Rollout>) -> Result<Arc<Rollout>, Error> {
        let mut finalizers = rollout.metadata.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|name| name == FINALIZER) {
            return Ok(rollout);
        }
        finalizers.push(FINALIZER.to_owned());
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.shared.patch(&self.shared.stores.rollouts, &*rollout, patch).await.map(Arc::new)
    }

    /// Releases the nodes of a rollout that ended or is being deleted, and removes the finalizer. A rollout without it has been finished.
    async fn finish(&self, rollout: &Arc<Rollout>, owner: &Owner, view: &Snapshots, stop: &Stop) -> Result<(), Error> {
        let mut finalizers = rollout.metadata.finalizers.clone().unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|name| name != FINALIZER);
        if finalizers.len() == before {
            return Ok(());
        }
        let name = rollout.metadata.name.as_deref().unwrap_or_default();
        let mut nodes: BTreeSet<String> = self.drains.nodes_of(owner).into_iter().collect();
        for (name_of_node, node) in &view.nodes {
            let is_held = hold(node).is_some_and(|hold| hold.owner == *owner);
            let has_consent = state_of(&view.states, node).is_some_and(|state| {
                let is_ours = state.spec.desired.as_ref().is_some_and(|desired| desired.rollout == name);
                is_ours && (state.spec.allow.is_some() || state.spec.reboot.is_some())
            });
            if is_held || has_consent {
                nodes.insert(name_of_node.clone());
            }
        }
        let policy = resolve_policy(rollout, view);
        let now = (self.shared.options.clock)();
        let acting = self.acting(name, owner, &policy, view, now, stop);
        for node in &nodes {
            let state = view.nodes.get(node).and_then(|node| state_of(&view.states, node)).cloned();
            acting.release(node, state).await?;
        }
        if !nodes.is_empty() && rollout.metadata.deletion_timestamp.is_some() {
            let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let message = format!("the Rollout is deleted; released {}", names.join(", "));
            self.shared.notice(&**rollout, false, "Released", &message).await;
        }
        let patch = json!({"metadata": {"finalizers": finalizers}});
        match self.shared.patch(&self.shared.stores.rollouts, &**rollout, patch).await {
            Err(error) if error.is_not_found() => Ok(()),
            patched => patched.map(drop),
        }
    }
}
