//! Instances of a scale set.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{Instance, InstanceId, OsDisk, PoolName, PowerDown, Protection, Revision, SecretBytes};

use super::{Azure, decode_user_data, missing_field};
use crate::arm::{Api, Call, Error, Handle, OperationKind, ResourceId};
use crate::models::disk::Disk;
use crate::models::instance::{Properties, ProtectionPolicy, PutProperties, ScaleSetVm, ScaleSetVmPut};

/// The properties to change in an instance. `None` keeps the current value.
#[derive(Default)]
struct Change {
    protection: Option<ProtectionPolicy>,
    user_data: Option<String>,
}

impl Azure {
    pub(super) async fn list_instances(&self, pool: &PoolName) -> Result<Vec<Instance>, Error> {
        let id = self.scale_set(pool)?;
        let call = Call::get(id.action("virtualMachines"), Api::Compute).query("$expand", "instanceView");
        let vms: Vec<ScaleSetVm> = self.arm.list(&call).await?;
        vms.into_iter()
            .filter(|vm| !vm.is_bare())
            .map(|vm| {
                let id = id.child("virtualMachines", &vm.instance_id)?;
                vm.read(&self.galleries).map_err(missing_field(&id))
            })
            .collect()
    }

    pub(super) async fn get_instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<Instance, Error> {
        let id = self.instance(pool, instance)?;
        self.get_vm(&id, "instanceView").await?.read(&self.galleries).map_err(missing_field(&id))
    }

    async fn get_vm(&self, id: &ResourceId, expand: &'static str) -> Result<ScaleSetVm, Error> {
        self.arm.get(&Call::get(id.as_str(), Api::Compute).query("$expand", expand)).await
    }

    pub(super) async fn get_os_disk(&self, pool_instance: &Instance) -> Result<OsDisk, Error> {
        let missing = || Error::MissingField {
            resource: pool_instance.node_name.clone(),
            field: "properties.storageProfile.osDisk.managedDisk.id",
        };
        let id: ResourceId = pool_instance.os_disk.as_deref().ok_or_else(missing)?.parse()?;
        let disk: Disk = self.arm.get(&Call::get(id.as_str(), Api::Disk)).await?;
        Ok(disk.read())
    }

    pub(super) async fn put_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> Result<(), Error> {
        if instance.protection == protection {
            return Ok(());
        }
        let change = Change { protection: Some(protection.into()), ..Change::default() };
        self.put_instance(pool, instance, change).await
    }

    /// Sets the protection at whatever revision the instance is; `false` if it is another machine than the one with this VM id.
    pub(super) async fn put_protection_back(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        protection: Protection,
    ) -> Result<bool, Error> {
        let id = self.instance(pool, instance)?;
        let before = self.get_vm(&id, "userData").await?;
        if before.vm_id() != Some(vm_id) {
            return Ok(false);
        }
        let protection = ProtectionPolicy::from(protection);
        if before.properties.protection_policy.unwrap_or_default() != protection {
            let seen = before.etag.clone().map(Revision::new).ok_or_else(|| missing_field(&id)("etag"))?;
            let change = Change { protection: Some(protection), ..Change::default() };
            self.put_vm(&id, &before, &seen, change).await?;
        }
        Ok(true)
    }

    pub(super) async fn get_user_data(&self, pool: &PoolName, instance: &InstanceId) -> Result<SecretBytes, Error> {
        let id = self.instance(pool, instance)?;
        decode_user_data(&id, self.get_vm(&id, "userData").await?.properties.user_data)
    }

    /// Replaces the user data at whatever revision the instance is; `false` if it is another machine than the one with this VM id.
    pub(super) async fn put_user_data(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        user_data: &SecretBytes,
    ) -> Result<bool, Error> {
        let id = self.instance(pool, instance)?;
        let before = self.get_vm(&id, "userData").await?;
        if before.vm_id() != Some(vm_id) {
            return Ok(false);
        }
        // An empty text removes it; an absent field would keep it.
        let wanted = STANDARD.encode(user_data.expose());
        if before.properties.user_data.as_deref().unwrap_or_default() != wanted {
            let seen = before.etag.clone().map(Revision::new).ok_or_else(|| missing_field(&id)("etag"))?;
            let change = Change { user_data: Some(wanted), ..Change::default() };
            self.put_vm(&id, &before, &seen, change).await?;
        }
        Ok(true)
    }

    /// Updates an instance, if it is still at the revision that was read.
    async fn put_instance(&self, pool: &PoolName, instance: &Instance, change: Change) -> Result<(), Error> {
        let id = self.instance(pool, &instance.id)?;
        let seen = instance.revision.as_ref().ok_or_else(|| missing_field(&id)("etag"))?;
        let before = self.get_vm(&id, "userData").await?;
        self.put_vm(&id, &before, seen, change).await
    }

    /// Updates an instance. Instances have no PATCH, so this sends the smallest accepted PUT plus the readable fields that it would
    /// otherwise drop (tags and the other of the two properties), then compares the fields that must not have changed.
    async fn put_vm(&self, id: &ResourceId, before: &ScaleSetVm, seen: &Revision, change: Change) -> Result<(), Error> {
        let protection = change.protection.or(before.properties.protection_policy);
        let user_data = change.user_data.or_else(|| before.properties.user_data.clone());
        let body = ScaleSetVmPut {
            location: &before.location,
            tags: before.tags.clone(),
            properties: PutProperties { protection_policy: protection, user_data: user_data.clone() },
        };
        let call = Call::put(id.as_str(), Api::Compute, &body).if_match(seen);
        let handle = self.arm.begin(&call, OperationKind::Write, id.as_str()).await?;
        let text = |properties: &Properties| properties.user_data.clone().unwrap_or_default();
        let wanted_data = user_data.unwrap_or_default();
        let wanted = |vm: &ScaleSetVm| {
            let is = &vm.properties;
            text(is) == wanted_data && is.protection_policy.unwrap_or_default() == protection.unwrap_or_default()
        };
        // An instance that has the new values and is not being changed any more needs no look at the operation.
        let mut after = self.get_vm(id, "userData").await?;
        if !after.is_settled() || !wanted(&after) {
            self.arm.settle(&handle).await?;
            after = self.get_vm(id, "userData").await?;
        }
        if let Some(field) = before.differs_in(&after) {
            return Err(Error::UnintendedChange { resource: id.to_string(), field });
        }
        let differs = |field, as_before| {
            let resource = id.to_string();
            if as_before { Error::Unchanged { resource, field } } else { Error::UnintendedChange { resource, field } }
        };
        let (was, is) = (&before.properties, &after.properties);
        if text(is) != wanted_data {
            return Err(differs("properties.userData", text(is) == text(was)));
        }
        if is.protection_policy.unwrap_or_default() != protection.unwrap_or_default() {
            let as_before = is.protection_policy.unwrap_or_default() == was.protection_policy.unwrap_or_default();
            return Err(differs("properties.protectionPolicy", as_before));
        }
        Ok(())
    }

    pub(super) async fn stop(&self, pool: &PoolName, instance: &InstanceId, how: PowerDown) -> Result<Handle, Error> {
        let id = self.instance(pool, instance)?;
        let call = match how {
            // A clean shutdown, because a snapshot of the disk follows.
            PowerDown::KeepHardware => {
                Call::post_idempotent(id.action("poweroff"), Api::Compute).query("skipShutdown", "false")
            }
            PowerDown::Deallocate => Call::post_idempotent(id.action("deallocate"), Api::Compute),
        };
        self.arm.begin(&call, OperationKind::Act, id.as_str()).await
    }

    pub(super) async fn begin_start(&self, pool: &PoolName, instance: &InstanceId) -> Result<Handle, Error> {
        let id = self.instance(pool, instance)?;
        self.arm.begin(&Call::post_idempotent(id.action("start"), Api::Compute), OperationKind::Act, id.as_str()).await
    }
}
