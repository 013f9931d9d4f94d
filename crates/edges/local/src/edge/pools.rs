//! Pools.

use kiln_types::{
    OperatingSystem, Orchestration, Pool, PoolName, Provisioning, Recipe, RecipeChange, Revision, SecurityType, Tags,
    UpgradeMode,
};

use super::tend::of_pool;
use super::{Local, Shelf, must_be_at, revision};
use crate::error::Error;
use crate::ids::LOCATION;
use crate::power::Power;
use crate::records::{Kept, PoolRecord};
use crate::store::Held;

impl Shelf {
    /// A pool, and whether all that its document asks for is done.
    fn read_pool(held: &Held<'_>, pool: PoolRecord) -> Result<(Pool, bool), Error> {
        let machines = of_pool(held, &pool.name)?;
        let wanted = |instance: &u64| {
            let there = machines.iter().find(|machine| machine.place.as_ref().is_some_and(|p| p.instance == *instance));
            there.is_some_and(|machine| machine.made)
        };
        let done = machines.len() == pool.members.len() && pool.members.iter().all(wanted) && !pool.deleting;
        let provisioning = match (done, pool.deleting) {
            (true, _) => Provisioning::Succeeded,
            (false, true) => Provisioning::InProgress("Deleting".to_owned()),
            (false, false) => Provisioning::InProgress("Updating".to_owned()),
        };
        let read = Pool {
            location: LOCATION.to_owned(),
            zones: Vec::new(),
            size: pool.size.to_string(),
            capacity: u32::try_from(pool.members.len()).unwrap_or(u32::MAX),
            revision: Some(revision(pool.revision)),
            provisioning,
            tags: pool.tags,
            upgrade_mode: UpgradeMode::Manual,
            automatic_os_upgrade: false,
            automatic_repairs: false,
            orchestration: Orchestration::Uniform,
            operating_system: OperatingSystem::Linux,
            ephemeral_os_disk: false,
            plan: None,
            security_type: SecurityType::Standard,
            recipe: Recipe { image: pool.image, extensions: Vec::new() },
            name: pool.name,
        };
        Ok((read, done))
    }
}

impl<P: Power> Local<P> {
    pub(super) async fn list_pools(&self) -> Result<Vec<Pool>, Error> {
        self.held(|_, held| {
            let pools = held.list::<PoolRecord>()?.into_iter();
            pools.map(|pool| Ok(Shelf::read_pool(held, pool)?.0)).collect()
        })
        .await
    }

    /// A pool as it is. One whose maker was killed half way is completed first; what stands in the way of that is told by its state.
    pub(super) async fn get_pool(&self, pool: &PoolName) -> Result<Pool, Error> {
        let (read, done) = self.look_at_pool(pool).await?;
        if done || self.tend(pool).await.is_err() {
            return Ok(read);
        }
        Ok(self.look_at_pool(pool).await?.0)
    }

    async fn look_at_pool(&self, pool: &PoolName) -> Result<(Pool, bool), Error> {
        let name = pool.clone();
        self.held(move |_, held| Shelf::read_pool(held, held.get(name.as_str())?)).await
    }

    pub(super) async fn change_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        seen: &Revision,
    ) -> Result<(), Error> {
        let (name, change, seen) = (pool.clone(), change.clone(), seen.clone());
        self.held(move |_, held| {
            let mut pool: PoolRecord = held.get(name.as_str())?;
            must_be_at("pool", &name, Some(&seen), pool.revision)?;
            let before = pool.clone();
            if let Some(image) = change.image {
                // A recipe that makes nothing is refused while it can still be corrected.
                Shelf::resolve(held, &image)?;
                pool.image = image;
            }
            if let Some(custom_data) = change.custom_data {
                pool.custom_data = Some(Kept(custom_data));
            }
            if pool == before {
                return Ok(());
            }
            pool.model += 1;
            pool.revision += 1;
            held.put(&pool)
        })
        .await
    }

    pub(super) async fn change_tags(&self, pool: &Pool, changes: &Tags) -> Result<(), Error> {
        let (name, changes, seen) = (pool.name.clone(), changes.clone(), pool.revision.clone());
        self.held(move |_, held| {
            let mut pool: PoolRecord = held.get(name.as_str())?;
            must_be_at("pool", &name, seen.as_ref(), pool.revision)?;
            pool.tags.extend(changes);
            pool.revision += 1;
            held.put(&pool)
        })
        .await
    }

    pub(super) async fn grow(&self, pool: &Pool, more: u32) -> Result<(), Error> {
        let (name, seen) = (pool.name.clone(), pool.revision.clone());
        self.held(move |_, held| {
            let mut pool: PoolRecord = held.get(name.as_str())?;
            must_be_at("pool", &name, seen.as_ref(), pool.revision)?;
            if more > 0 {
                Shelf::resolve(held, &pool.image)?;
            }
            pool.add_members(more);
            pool.revision += 1;
            held.put(&pool)
        })
        .await?;
        self.tend(&pool.name).await
    }
}

impl PoolRecord {
    /// The next numbers become instances.
    pub(super) fn add_members(&mut self, more: u32) {
        let from = self.next;
        self.next += u64::from(more);
        self.members.extend(from..self.next);
    }
}
