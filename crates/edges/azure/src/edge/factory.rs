//! [`Factory`] for Azure.

use kiln_types::{
    AccessScope, Canary, CanaryName, DefinitionName, Factory, Gallery, GalleryName, Grant, ImageDefinition,
    ImageVersion, Instance, InstanceId, Linked, Lock, Need, OperationHandle, OperationState, OsDisk, Pool, PoolName,
    PowerDown, Protection, Publication, RecipeChange, Revision, SavedExtension, SecretBytes, Snapshot, SnapshotName,
    SnapshotRequest, Tags, VersionNumber,
};

use super::Azure;
use crate::arm::{Api, Error};
use crate::role;

impl Factory for Azure {
    type Error = Error;

    fn needs(&self) -> &'static [Need] {
        &role::ACTIONS
    }

    async fn permissions(&self, scope: &AccessScope) -> Result<Vec<Grant>, Error> {
        self.list_permissions(scope).await
    }

    async fn describe_linked(&self, pool: &PoolName) -> Result<(Pool, Vec<Linked>), Error> {
        self.get_linked(pool).await
    }

    /// Role assignments at the resource group also apply to the resources in it.
    fn is_home(&self, resource: &str) -> bool {
        resource.parse().is_ok_and(|id| self.scope().contains(&id))
    }

    async fn locks(&self, pool: &PoolName) -> Result<Vec<Lock>, Error> {
        self.list_locks(pool).await
    }

    fn gallery_scope(&self) -> Option<String> {
        (self.galleries != self.scope).then(|| self.galleries.to_string())
    }

    async fn regions(&self) -> Result<Vec<String>, Error> {
        self.list_regions().await
    }

    async fn pools(&self) -> Result<Vec<Pool>, Error> {
        self.list_pools().await
    }

    async fn describe_pool(&self, pool: &PoolName) -> Result<Pool, Error> {
        self.get_pool(pool).await
    }

    async fn instances(&self, pool: &PoolName) -> Result<Vec<Instance>, Error> {
        self.list_instances(pool).await
    }

    async fn describe_instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<Instance, Error> {
        self.get_instance(pool, instance).await
    }

    async fn os_disk(&self, instance: &Instance) -> Result<OsDisk, Error> {
        self.get_os_disk(instance).await
    }

    async fn set_protection(&self, pool: &PoolName, instance: &Instance, protection: Protection) -> Result<(), Error> {
        self.put_protection(pool, instance, protection).await
    }

    async fn restore_protection(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        protection: Protection,
    ) -> Result<bool, Error> {
        self.put_protection_back(pool, instance, vm_id, protection).await
    }

    async fn user_data(&self, pool: &PoolName, instance: &InstanceId) -> Result<SecretBytes, Error> {
        self.get_user_data(pool, instance).await
    }

    async fn set_user_data(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        user_data: &SecretBytes,
    ) -> Result<bool, Error> {
        self.put_user_data(pool, instance, vm_id, user_data).await
    }

    async fn pool_user_data(&self, pool: &PoolName) -> Result<(SecretBytes, Revision), Error> {
        self.get_pool_user_data(pool).await
    }

    async fn set_pool_user_data(
        &self,
        pool: &PoolName,
        user_data: &SecretBytes,
        revision: &Revision,
    ) -> Result<OperationHandle, Error> {
        Ok(self.patch_user_data(pool, user_data, revision).await?.encode())
    }

    async fn power_off(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        how: PowerDown,
    ) -> Result<OperationHandle, Error> {
        Ok(self.stop(pool, instance, how).await?.encode())
    }

    async fn start(&self, pool: &PoolName, instance: &InstanceId) -> Result<OperationHandle, Error> {
        Ok(self.begin_start(pool, instance).await?.encode())
    }

    async fn snapshot_os_disk(&self, request: &SnapshotRequest) -> Result<OperationHandle, Error> {
        Ok(self.put_snapshot(request).await?.encode())
    }

    async fn find_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        self.find_snapshot(name).await
    }

    async fn delete_snapshot(&self, name: &SnapshotName) -> Result<OperationHandle, Error> {
        Ok(self.delete_snapshot(name).await?.encode())
    }

    async fn find_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        self.get_gallery(name).await
    }

    async fn create_gallery(&self, gallery: &Gallery) -> Result<OperationHandle, Error> {
        Ok(self.put_gallery(gallery).await?.encode())
    }

    async fn find_definition(&self, definition: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        self.get_definition(definition).await
    }

    async fn create_definition(&self, definition: &ImageDefinition) -> Result<OperationHandle, Error> {
        Ok(self.put_definition(definition).await?.encode())
    }

    async fn tag_definition(&self, definition: &ImageDefinition, changes: &Tags) -> Result<OperationHandle, Error> {
        Ok(self.patch_definition_tags(definition, changes).await?.encode())
    }

    async fn versions(&self, definition: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        self.list_versions(definition).await
    }

    async fn publish(&self, publication: &Publication) -> Result<OperationHandle, Error> {
        Ok(self.put_version(publication).await?.encode())
    }

    async fn set_excluded(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> Result<OperationHandle, Error> {
        Ok(self.patch_exclusion(definition, number, excluded).await?.encode())
    }

    async fn delete_version(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
    ) -> Result<OperationHandle, Error> {
        Ok(self.remove_version(definition, number).await?.encode())
    }

    async fn set_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        revision: &Revision,
    ) -> Result<OperationHandle, Error> {
        Ok(self.patch_recipe(pool, change, revision).await?.encode())
    }

    async fn put_extension(&self, pool: &PoolName, saved: &SavedExtension) -> Result<OperationHandle, Error> {
        Ok(self.restore_extension(pool, saved).await?.encode())
    }

    async fn remove_extension(&self, pool: &PoolName, extension: &str) -> Result<OperationHandle, Error> {
        Ok(self.delete_extension(pool, extension).await?.encode())
    }

    async fn tag_pool(&self, pool: &Pool, changes: &Tags) -> Result<OperationHandle, Error> {
        Ok(self.patch_tags(pool, changes).await?.encode())
    }

    async fn add_instances(&self, pool: &Pool, more: u32) -> Result<OperationHandle, Error> {
        Ok(self.patch_capacity(pool, more).await?.encode())
    }

    async fn remove_instances(&self, pool: &PoolName, instances: &[InstanceId]) -> Result<OperationHandle, Error> {
        Ok(self.delete_instances(pool, instances).await?.encode())
    }

    async fn create_canary(&self, canary: &Canary) -> Result<OperationHandle, Error> {
        Ok(self.put_canary(canary).await?.encode())
    }

    async fn delete_own_canary(&self, canary: &CanaryName) -> Result<OperationHandle, Error> {
        // Its creation succeeded only because no scale set of its name existed.
        Ok(self.delete(&self.scale_set(canary.pool())?, Api::Compute).await?.encode())
    }

    async fn delete_canary(&self, canary: &CanaryName) -> Result<OperationHandle, Error> {
        Ok(self.delete_canary_set(canary).await?.encode())
    }

    async fn observe(&self, handle: &OperationHandle) -> Result<OperationState, Error> {
        self.poll(handle).await
    }
}
