//! Pools.

use kiln_types::{
    OperatingSystem, Orchestration, Pool, PoolName, Provisioning, Recipe, RecipeChange, Revision, SecurityType, Tags,
    UpgradeMode,
};

use super::reconcile::machines_in_pool;
use super::{Local, State, require_revision, revision};
use crate::error::Error;
use crate::ids::LOCATION;
use crate::records::{PoolRecord, StoredSecret};
use crate::runner::MachineRunner;
use crate::store::LockedStore;

impl State {
    /// A pool, and whether its machines match its document.
    fn read_pool(store: &LockedStore<'_>, pool: PoolRecord) -> Result<(Pool, bool), Error> {
        let machines = machines_in_pool(store, &pool.name)?;
        let is_provisioned = |instance: &u64| {
            let machine =
                machines.iter().find(|machine| machine.membership.as_ref().is_some_and(|p| p.instance == *instance));
            machine.is_some_and(|machine| machine.provisioned)
        };
        let done = machines.len() == pool.members.len() && pool.members.iter().all(is_provisioned) && !pool.deleting;
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
            nvme: None,
            recipe: Recipe { image: pool.image, extensions: Vec::new() },
            name: pool.name,
        };
        Ok((read, done))
    }
}

impl<P: MachineRunner> Local<P> {
    pub(super) async fn list_pools(&self) -> Result<Vec<Pool>, Error> {
        self.locked(|_, store| {
            let pools = store.list::<PoolRecord>()?.into_iter();
            pools.map(|pool| Ok(State::read_pool(store, pool)?.0)).collect()
        })
        .await
    }

    /// The state of a pool. An interrupted operation is completed first; if that fails, the provisioning state shows it.
    pub(super) async fn get_pool(&self, pool: &PoolName) -> Result<Pool, Error> {
        let (read, done) = self.read_pool_record(pool).await?;
        if done || self.reconcile(pool).await.is_err() {
            return Ok(read);
        }
        Ok(self.read_pool_record(pool).await?.0)
    }

    async fn read_pool_record(&self, pool: &PoolName) -> Result<(Pool, bool), Error> {
        let name = pool.clone();
        self.locked(move |_, store| State::read_pool(store, store.get(name.as_str())?)).await
    }

    pub(super) async fn change_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        seen: &Revision,
    ) -> Result<(), Error> {
        let (name, change, seen) = (pool.clone(), change.clone(), seen.clone());
        self.locked(move |_, store| {
            let mut pool: PoolRecord = store.get(name.as_str())?;
            require_revision("pool", &name, Some(&seen), pool.revision)?;
            let before = pool.clone();
            if let Some(image) = change.image {
                // A recipe without a usable image is refused now, before an instance needs it.
                State::resolve(store, &image)?;
                pool.image = image;
            }
            if let Some(custom_data) = change.custom_data {
                pool.custom_data = Some(StoredSecret(custom_data));
            }
            if pool == before {
                return Ok(());
            }
            pool.model += 1;
            pool.revision += 1;
            store.put(&pool)
        })
        .await
    }

    pub(super) async fn change_tags(&self, pool: &Pool, changes: &Tags) -> Result<(), Error> {
        let (name, changes, seen) = (pool.name.clone(), changes.clone(), pool.revision.clone());
        self.locked(move |_, store| {
            let mut pool: PoolRecord = store.get(name.as_str())?;
            require_revision("pool", &name, seen.as_ref(), pool.revision)?;
            pool.tags.extend(changes);
            pool.revision += 1;
            store.put(&pool)
        })
        .await
    }

    pub(super) async fn grow(&self, pool: &Pool, more: u32) -> Result<(), Error> {
        let (name, seen) = (pool.name.clone(), pool.revision.clone());
        self.locked(move |_, store| {
            let mut pool: PoolRecord = store.get(name.as_str())?;
            require_revision("pool", &name, seen.as_ref(), pool.revision)?;
            if more > 0 {
                State::resolve(store, &pool.image)?;
            }
            pool.add_members(more);
            pool.revision += 1;
            store.put(&pool)
        })
        .await?;
        self.reconcile(&pool.name).await
    }
}

impl PoolRecord {
    /// Adds instances with the next numbers.
    pub(super) fn add_members(&mut self, more: u32) {
        let from = self.next;
        self.next += u64::from(more);
        self.members.extend(from..self.next);
    }
}
