//! User data of pools and machines.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{InstanceId, PoolName, Revision, Secret, SecretBytes};

use super::reconcile::machines_in_pool;
use super::{Local, State, require_revision, revision};
use crate::error::Error;
use crate::records::{MachineRecord, PoolRecord, StoredUserData};
use crate::runner::{MachineKey, MachineRunner};
use crate::store::LockedStore;

impl State {
    /// Replaces the user data of a pool and of its machines; empty user data keeps it.
    pub(super) fn replace_user_data(
        store: &LockedStore<'_>,
        mut pool: PoolRecord,
        user_data: StoredUserData,
    ) -> Result<(), Error> {
        if user_data.is_empty() || pool.user_data == user_data {
            return Ok(());
        }
        for mut machine in machines_in_pool(store, &pool.name)? {
            machine.user_data = user_data.clone();
            machine.revision += 1;
            store.put(&machine)?;
        }
        pool.user_data = user_data;
        pool.model += 1;
        pool.revision += 1;
        store.put(&pool)
    }
}

impl<P: MachineRunner> Local<P> {
    /// The user data of all machines that have some, in base64, as the metadata service returns it.
    pub async fn encoded_user_data(&self) -> Result<BTreeMap<MachineKey, Secret>, Error> {
        let machines = self.locked(|_, store| store.list::<MachineRecord>()).await?;
        let with_data = machines.into_iter().filter(|machine| !machine.user_data.is_empty());
        let encoded = |data: &StoredUserData| Secret::new(STANDARD.encode(data.0.expose()));
        Ok(with_data.map(|machine| (machine.name, encoded(&machine.user_data))).collect())
    }

    pub(super) async fn get_user_data(&self, pool: &PoolName, instance: &InstanceId) -> Result<SecretBytes, Error> {
        let key = MachineKey::of_instance(pool, instance);
        self.locked(move |_, store| Ok(store.get::<MachineRecord>(key.as_str())?.user_data.0)).await
    }

    pub(super) async fn put_user_data(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        user_data: &SecretBytes,
    ) -> Result<bool, Error> {
        let key = MachineKey::of_instance(pool, instance);
        let (vm_id, user_data) = (vm_id.to_owned(), StoredUserData(user_data.clone()));
        self.locked(move |_, store| {
            let mut machine: MachineRecord = store.get(key.as_str())?;
            if machine.vm_id != vm_id {
                return Ok(false);
            }
            if machine.user_data != user_data {
                machine.user_data = user_data;
                machine.revision += 1;
                store.put(&machine)?;
            }
            Ok(true)
        })
        .await
    }

    pub(super) async fn get_pool_user_data(&self, pool: &PoolName) -> Result<(SecretBytes, Revision), Error> {
        let name = pool.clone();
        self.locked(move |_, store| {
            let pool: PoolRecord = store.get(name.as_str())?;
            Ok((pool.user_data.0, revision(pool.revision)))
        })
        .await
    }

    pub(super) async fn change_pool_user_data(
        &self,
        pool: &PoolName,
        user_data: &SecretBytes,
        seen: &Revision,
    ) -> Result<(), Error> {
        let (name, seen, user_data) = (pool.clone(), seen.clone(), StoredUserData(user_data.clone()));
        self.locked(move |_, store| {
            let mut pool: PoolRecord = store.get(name.as_str())?;
            require_revision("pool", &name, Some(&seen), pool.revision)?;
            if pool.user_data == user_data {
                return Ok(());
            }
            pool.user_data = user_data;
            pool.model += 1;
            pool.revision += 1;
            store.put(&pool)
        })
        .await
    }
}
