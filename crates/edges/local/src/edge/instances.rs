//! Instances of a pool.

use std::collections::BTreeSet;

use kiln_types::{
    Architecture, Generation, ImageFeatures, Instance, InstanceId, OsDisk, PoolName, PowerDown, PowerState, Protection,
    Provisioning, SecurityType,
};

use super::reconcile::machines_in_pool;
use super::{Local, require_revision, revision};
use crate::error::Error;
use crate::ids;
use crate::records::{MachineRecord, PoolRecord};
use crate::runner::{MachineKey, MachineRunner};

impl<P: MachineRunner> Local<P> {
    pub(super) async fn list_instances(&self, pool: &PoolName) -> Result<Vec<Instance>, Error> {
        let name = pool.clone();
        let (model, machines) = self
            .locked(move |_, store| {
                let pool: PoolRecord = store.get(name.as_str())?;
                Ok((pool.model, machines_in_pool(store, &name)?))
            })
            .await?;
        let mut instances = Vec::with_capacity(machines.len());
        for machine in machines {
            instances.extend(self.to_instance(machine, model).await?);
        }
        Ok(instances)
    }

    pub(super) async fn get_instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<Instance, Error> {
        let (name, key) = (pool.clone(), MachineKey::of_instance(pool, instance));
        let unknown = || Error::unknown("instance", &format!("{pool}/{instance}"));
        let (model, machine) = self
            .locked(move |_, store| {
                let pool: PoolRecord = store.get(name.as_str())?;
                Ok((pool.model, store.find::<MachineRecord>(key.as_str())?))
            })
            .await?;
        self.to_instance(machine.ok_or_else(unknown)?, model).await?.ok_or_else(unknown)
    }

    async fn to_instance(&self, machine: MachineRecord, model: u64) -> Result<Option<Instance>, Error> {
        let Some(membership) = &machine.membership else { return Ok(None) };
        let power = match self.runner.is_running(&machine.name).await? {
            true => PowerState::Running,
            false if machine.deallocated => PowerState::Deallocated,
            false => PowerState::Stopped,
        };
        let provisioning =
            if machine.provisioned { Provisioning::Succeeded } else { Provisioning::InProgress("Creating".to_owned()) };
        Ok(Some(Instance {
            id: membership.id(),
            latest_model: membership.model == model,
            node_name: machine.computer_name,
            vm_id: machine.vm_id,
            agent_ready: machine.provisioned && power == PowerState::Running,
            power,
            provisioning,
            protection: machine.protection,
            runs: machine.image,
            os_disk: Some(ids::disk_id(&machine.name)),
            revision: Some(revision(machine.revision)),
            zones: Vec::new(),
            tags: machine.tags,
        }))
    }

    pub(super) async fn get_disk(&self, instance: &Instance) -> Result<OsDisk, Error> {
        let text = instance.os_disk.clone().ok_or_else(|| Error::unknown("disk", &instance.node_name))?;
        let key = ids::parse_disk_id(&text)?;
        self.locked(move |_, store| store.get::<MachineRecord>(key.as_str())).await?;
        Ok(OsDisk {
            id: text,
            generation: Generation::V2,
            architecture: Architecture::X64,
            security_type: SecurityType::Standard,
            features: ImageFeatures::default(),
            encryption_set: None,
            encrypted_by_extension: false,
            size_gib: None,
        })
    }

    pub(super) async fn put_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> Result<(), Error> {
        let key = MachineKey::of_instance(pool, &instance.id);
        let seen = instance.revision.clone();
        self.locked(move |_, store| {
            let mut machine: MachineRecord = store.get(key.as_str())?;
            if machine.protection == protection {
                return Ok(());
            }
            require_revision("instance", &key, seen.as_ref(), machine.revision)?;
            machine.protection = protection;
            machine.revision += 1;
            store.put(&machine)
        })
        .await
    }

    pub(super) async fn stop_instance(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        how: PowerDown,
    ) -> Result<(), Error> {
        let key = MachineKey::of_instance(pool, instance);
        let _lock = self.lock_machine(&key).await?;
        let wanted = key.clone();
        self.locked(move |_, store| {
            let mut machine: MachineRecord = store.get(wanted.as_str())?;
            let deallocated = machine.deallocated || how == PowerDown::Deallocate;
            if machine.on || machine.deallocated != deallocated {
                machine.on = false;
                machine.deallocated = deallocated;
                store.put(&machine)?;
            }
            Ok(())
        })
        .await?;
        Ok(self.runner.stop(&key, how).await?)
    }

    pub(super) async fn start_instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<(), Error> {
        let key = MachineKey::of_instance(pool, instance);
        if self.start_machine(&key).await? {
            return Ok(());
        }
        Err(Error::unknown("instance", &format!("{pool}/{instance}")))
    }

    /// Instance numbers are never reused, so removing an instance twice is harmless.
    pub(super) async fn remove_members(&self, pool: &PoolName, instances: &[InstanceId]) -> Result<(), Error> {
        let gone: BTreeSet<u64> = instances.iter().filter_map(|id| id.as_str().parse().ok()).collect();
        let name = pool.clone();
        self.locked(move |_, store| {
            let mut pool: PoolRecord = store.get(name.as_str())?;
            let before = pool.members.len();
            pool.members.retain(|member| !gone.contains(member));
            if pool.members.len() == before {
                return Ok(());
            }
            pool.revision += 1;
            store.put(&pool)
        })
        .await?;
        self.reconcile(pool).await
    }
}
