//! Writes the status of pools, documents, policies and freezes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_fleet_api::{Condition, FreezeStatus, NodeConfigStatus, Pool, PoolStatus, RolloutPolicyStatus, condition};
use kiln_kubernetes::Error;
use serde::Serialize;

use super::objects::{config_status, freeze_status, new_problem, policy_status};
use super::pools::{pool_status, set_condition};
use super::session::Session;
use super::store::Store;
use super::stores::Snapshots;
use super::writes::{Shared, Written};

impl Session {
    /// Reports all pools. An error does not keep the others from being reported; the first one is returned.
    pub(super) async fn pools(&self, view: &Snapshots, now: Timestamp) -> Result<(), Error> {
        let (shared, mut first) = (&self.shared, Ok(()));
        for (name, pool) in &view.pools {
            let mut status = pool_status(name, pool, view, &self.index, &self.documents, now);
            self.show_image(pool, &mut status, now);
            let conditions = |status: &PoolStatus| status.conditions.clone();
            let done =
                shared.show_status(&shared.stores.pools, &**pool, pool.status.as_ref(), &status, conditions).await;
            first = first.and(done);
        }
        first
    }

    /// Adds the image of new machines to the status of a pool.
    fn show_image(&self, pool: &Pool, status: &mut PoolStatus, now: Timestamp) {
        let Some(images) = self.images.as_ref().filter(|_| pool.spec.factory.is_some()) else {
            status.image = None;
            return;
        };
        match images.pool_image(pool) {
            None => {}
            Some(Ok(image)) => {
                if let Some(paused) = &image.paused {
                    let generation = pool.metadata.generation;
                    set_condition(
                        &mut status.conditions,
                        "Paused",
                        true,
                        "ImagePaused",
                        paused.clone(),
                        generation,
                        now,
                    );
                }
                status.image = Some(image);
            }
            Some(Err(error)) => {
                let message = format!("the scale set cannot be read: {error}");
                let generation = pool.metadata.generation;
                set_condition(
                    &mut status.conditions,
                    condition::READY,
                    false,
                    "FactoryUnreadable",
                    message,
                    generation,
                    now,
                );
            }
        }
    }

    /// Reports all documents, policies and freezes.
    pub(super) async fn objects(&self, view: &Snapshots, now: Timestamp) -> Result<(), Error> {
        let (shared, stores, mut first) = (&self.shared, &self.shared.stores, Ok(()));
        let mut in_force: BTreeMap<&str, usize> = BTreeMap::new();
        for state in view.states.values() {
            if let Some(current) = state.status.as_ref().and_then(|status| status.current.as_ref()) {
                *in_force.entry(current.digest.as_str()).or_default() += 1;
            }
        }
        for (name, config) in &view.configs {
            let digest = self.documents.get(name).and_then(Result::ok).map(|document| document.digest.as_str());
            let nodes = digest.and_then(|digest| in_force.get(digest)).copied().unwrap_or_default();
            let status = config_status(name, config, nodes, &self.documents, now);
            let conditions = |status: &NodeConfigStatus| status.conditions.clone();
            let done =
                shared.show_status(&stores.configs, &**config, config.status.as_ref(), &status, conditions).await;
            first = first.and(done);
        }
        for (name, policy) in &view.policies {
            let status = policy_status(name, policy, view, now);
            let conditions = |status: &RolloutPolicyStatus| status.conditions.clone();
            let done =
                shared.show_status(&stores.policies, &**policy, policy.status.as_ref(), &status, conditions).await;
            first = first.and(done);
        }
        for freeze in view.freezes.values() {
            let status = freeze_status(freeze, view, now);
            let conditions = |status: &FreezeStatus| status.conditions.clone();
            let done =
                shared.show_status(&stores.freezes, &**freeze, freeze.status.as_ref(), &status, conditions).await;
            first = first.and(done);
        }
        first
    }
}

impl Shared {
    /// Writes a status if it differs, and publishes one Event when the object becomes invalid.
    async fn show_status<K: Written, S: Serialize>(
        &self,
        store: &Store<K>,
        object: &K,
        old: Option<&S>,
        new: &S,
        conditions: fn(&S) -> Vec<Condition>,
    ) -> Result<(), Error> {
        if self.update_status(store, object, old, new).await?.is_none() {
            return Ok(());
        }
        let (before, after) = (old.map(conditions).unwrap_or_default(), conditions(new));
        if let Some((reason, message)) = new_problem(&before, &after) {
            self.notice(object, true, reason, message).await;
        }
        Ok(())
    }
}
