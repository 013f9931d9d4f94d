//! Throw-away pools of one machine.

use std::collections::BTreeSet;

use kiln_types::{CANARY_TAG, Canary, CanaryName, ImageSource, NO_OP_CUSTOM_DATA, Secret};

use super::{Local, Shelf};
use crate::error::Error;
use crate::power::Power;
use crate::records::{Kept, PoolRecord};

impl<P: Power> Local<P> {
    pub(super) async fn create_canary_pool(&self, canary: &Canary) -> Result<(), Error> {
        let wanted = canary.clone();
        self.held(move |_, held| {
            let name = wanted.name.pool();
            let image = ImageSource::ExactVersion(wanted.definition.clone(), wanted.number.clone());
            if let Some(found) = held.find::<PoolRecord>(name.as_str())? {
                let tried = found.tags.get(CANARY_TAG).is_some_and(|of| of == wanted.pool.as_str());
                if tried && found.image == image && !found.deleting {
                    return Ok(());
                }
                let found = if found.deleting { "it is being deleted" } else { "it is not this canary" };
                return Err(Error::InTheWay { noun: "pool", name: name.to_string(), found: found.to_owned() });
            }
            let tried: PoolRecord = held.get(wanted.pool.as_str())?;
            Shelf::resolve(held, &image)?;
            let mut tags = wanted.tags.clone();
            tags.insert(CANARY_TAG.to_owned(), wanted.pool.to_string());
            held.put(&PoolRecord {
                name: name.clone(),
                revision: 1,
                size: tried.size,
                next: 1,
                members: BTreeSet::from([0]),
                model: 1,
                image,
                // As the pool's recipe will be: what the image itself must bring is what is tried.
                custom_data: Some(Kept(Secret::new(NO_OP_CUSTOM_DATA))),
                tags,
                deleting: false,
            })
        })
        .await?;
        self.tend(canary.name.pool()).await
    }

    /// The name alone does not make a canary: somebody may have given it to a pool.
    pub(super) async fn delete_canary_pool(&self, canary: &CanaryName) -> Result<(), Error> {
        let name = canary.pool().clone();
        self.held(move |_, held| {
            let Some(mut pool) = held.find::<PoolRecord>(name.as_str())? else { return Ok(()) };
            if !pool.tags.contains_key(CANARY_TAG) {
                return Err(Error::NoCanary { pool: name.to_string() });
            }
            pool.deleting = true;
            pool.members.clear();
            pool.revision += 1;
            held.put(&pool)
        })
        .await?;
        self.tend(canary.pool()).await
    }
}
