//! Instances of a pool.

use std::collections::BTreeSet;

use kiln_types::{
    Architecture, Generation, Instance, InstanceId, OsDisk, PoolName, PowerDown, PowerState, Protection, Provisioning,
    SecurityType,
};

use super::tend::of_pool;
use super::{Local, must_be_at, revision};
use crate::error::Error;
use crate::ids;
use crate::power::{MachineKey, Power};
use crate::records::{MachineRecord, PoolRecord};

impl<P: Power> Local<P> {
    pub(super) async fn list_instances(&self, pool: &PoolName) -> Result<Vec<Instance>, Error> {
        let name = pool.clone();
        let (model, machines) = self
            .held(move |_, held| {
                let pool: PoolRecord = held.get(name.as_str())?;
                Ok((pool.model, of_pool(held, &name)?))
            })
            .await?;
        let mut instances = Vec::with_capacity(machines.len());
        for machine in machines {
            instances.extend(self.shown(machine, model).await?);
        }
        Ok(instances)
    }

    pub(super) async fn get_instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<Instance, Error> {
        let (name, key) = (pool.clone(), MachineKey::of_instance(pool, instance));
        let unknown = || Error::unknown("instance", &format!("{pool}/{instance}"));
        let (model, machine) = self
            .held(move |_, held| {
                let pool: PoolRecord = held.get(name.as_str())?;
                Ok((pool.model, held.find::<MachineRecord>(key.as_str())?))
            })
            .await?;
        self.shown(machine.ok_or_else(unknown)?, model).await?.ok_or_else(unknown)
    }

    async fn shown(&self, machine: MachineRecord, model: u64) -> Result<Option<Instance>, Error> {
        let Some(place) = &machine.place else { return Ok(None) };
        let power = match self.power.is_on(&machine.name).await? {
            true => PowerState::Running,
            false if machine.deallocated => PowerState::Deallocated,
            false => PowerState::Stopped,
        };
        let provisioning =
            if machine.made { Provisioning::Succeeded } else { Provisioning::InProgress("Creating".to_owned()) };
        Ok(Some(Instance {
            id: place.id(),
            latest_model: place.model == model,
            node_name: machine.computer_name,
            vm_id: machine.vm_id,
            power,
            provisioning,
            protection: machine.protection,
            runs: machine.image,
            os_disk: Some(ids::of_disk(&machine.name)),
            revision: Some(revision(machine.revision)),
            zones: Vec::new(),
            tags: machine.tags,
        }))
    }

    pub(super) async fn get_disk(&self, instance: &Instance) -> Result<OsDisk, Error> {
        let text = instance.os_disk.clone().ok_or_else(|| Error::unknown("disk", &instance.node_name))?;
        let key = ids::disk(&text)?;
        self.held(move |_, held| held.get::<MachineRecord>(key.as_str())).await?;
        Ok(OsDisk {
            id: text,
            generation: Generation::V2,
            architecture: Architecture::X64,
            security_type: SecurityType::Standard,
            size_gib: None,
        })
    }

    pub(super) async fn put_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> Result<Instance, Error> {
        let key = MachineKey::of_instance(pool, &instance.id);
        let seen = instance.revision.clone();
        self.held(move |_, held| {
            let mut machine: MachineRecord = held.get(key.as_str())?;
            if machine.protection == protection {
                return Ok(());
            }
            must_be_at("instance", &key, seen.as_ref(), machine.revision)?;
            machine.protection = protection;
            machine.revision += 1;
            held.put(&machine)
        })
        .await?;
        self.get_instance(pool, &instance.id).await
    }

    pub(super) async fn stop(&self, pool: &PoolName, instance: &InstanceId, how: PowerDown) -> Result<(), Error> {
        let key = MachineKey::of_instance(pool, instance);
        let _alone = self.alone(&key).await?;
        let wanted = key.clone();
        self.held(move |_, held| {
            let mut machine: MachineRecord = held.get(wanted.as_str())?;
            let deallocated = machine.deallocated || how == PowerDown::Deallocate;
            if machine.on || machine.deallocated != deallocated {
                machine.on = false;
                machine.deallocated = deallocated;
                held.put(&machine)?;
            }
            Ok(())
        })
        .await?;
        Ok(self.power.switch_off(&key, how).await?)
    }

    pub(super) async fn begin(&self, pool: &PoolName, instance: &InstanceId) -> Result<(), Error> {
        let key = MachineKey::of_instance(pool, instance);
        if self.switch_on(&key).await? {
            return Ok(());
        }
        Err(Error::unknown("instance", &format!("{pool}/{instance}")))
    }

    /// An instance's number is never given again, so that removing it twice removes it once.
    pub(super) async fn drop_instances(&self, pool: &PoolName, instances: &[InstanceId]) -> Result<(), Error> {
        let gone: BTreeSet<u64> = instances.iter().filter_map(|id| id.as_str().parse().ok()).collect();
        let name = pool.clone();
        self.held(move |_, held| {
            let mut pool: PoolRecord = held.get(name.as_str())?;
            let before = pool.members.len();
            pool.members.retain(|member| !gone.contains(member));
            if pool.members.len() == before {
                return Ok(());
            }
            pool.revision += 1;
            held.put(&pool)
        })
        .await?;
        self.tend(pool).await
    }
}
