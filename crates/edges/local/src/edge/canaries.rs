//! Canaries: temporary pools with one machine.

use std::collections::BTreeSet;

use kiln_types::{CANARY_TAG, Canary, CanaryName, ImageSource, NO_OP_CUSTOM_DATA, Secret};

use super::{Local, State};
use crate::error::Error;
use crate::records::{PoolRecord, StoredSecret};
use crate::runner::MachineRunner;

impl<P: MachineRunner> Local<P> {
    pub(super) async fn create_canary_pool(&self, canary: &Canary) -> Result<(), Error> {
        let wanted = canary.clone();
        self.locked(move |_, store| {
            let name = wanted.name.pool();
            let image = ImageSource::ExactVersion(wanted.definition.clone(), wanted.number.clone());
            if let Some(found) = store.find::<PoolRecord>(name.as_str())? {
                let is_canary = found.tags.get(CANARY_TAG).is_some_and(|pool| pool == wanted.pool.as_str());
                if is_canary && found.image == image && !found.deleting {
                    return Ok(());
                }
                let existing = if found.deleting { "it is being deleted" } else { "it is another pool" }.to_owned();
                return Err(Error::AlreadyExists { noun: "pool", name: name.to_string(), existing });
            }
            let tested: PoolRecord = store.get(wanted.pool.as_str())?;
            State::resolve(store, &image)?;
            let mut tags = wanted.tags.clone();
            tags.insert(CANARY_TAG.to_owned(), wanted.pool.to_string());
            store.put(&PoolRecord {
                name: name.clone(),
                revision: 1,
                size: tested.size,
                next: 1,
                members: BTreeSet::from([0]),
                model: 1,
                image,
                // As in the recipe after the run: the pool's own bootstrap or its NodeConfig, or the image must bring its configuration itself.
                custom_data: match wanted.bootstrap {
                    Some(_) => tested.custom_data,
                    None => Some(StoredSecret(wanted.custom_data.unwrap_or_else(|| Secret::new(NO_OP_CUSTOM_DATA)))),
                },
                user_data: tested.user_data,
                tags,
                deleting: false,
            })
        })
        .await?;
        self.reconcile(canary.name.pool()).await
    }

    /// Only a pool with the canary tag is deleted. A user may have given the name to another pool.
    pub(super) async fn delete_canary_pool(&self, canary: &CanaryName) -> Result<(), Error> {
        let name = canary.pool().clone();
        self.locked(move |_, store| {
            let Some(mut pool) = store.find::<PoolRecord>(name.as_str())? else { return Ok(()) };
            if !pool.tags.contains_key(CANARY_TAG) {
                return Err(Error::NotCanary { pool: name.to_string() });
            }
            pool.deleting = true;
            pool.members.clear();
            pool.revision += 1;
            store.put(&pool)
        })
        .await?;
        self.reconcile(canary.pool()).await
    }
}
