//! The trait `Factory`. The other modules implement its methods.

use kiln_types::{
    AccessScope, Canary, CanaryName, DefinitionName, Factory, Gallery, GalleryName, Grant, ImageDefinition,
    ImageVersion, Instance, InstanceId, Linked, Need, OperationHandle, OperationState, OsDisk, Pool, PoolName,
    PowerDown, Protection, Publication, RecipeChange, Revision, SavedExtension, SecretBytes, Snapshot, SnapshotName,
    SnapshotRequest, Tags, VersionNumber,
};

use super::{Local, completed, observe_handle};
use crate::error::Error;
use crate::runner::MachineRunner;

type Operation = Result<OperationHandle, Error>;

impl<P: MachineRunner> Factory for Local<P> {
    type Error = Error;

    /// Custom data is in the pool's document.
    fn knows_secrets(&self) -> bool {
        true
    }

    /// None: write access to the state folder permits everything.
    fn needs(&self) -> &'static [Need] {
        &[]
    }

    async fn permissions(&self, _: &AccessScope) -> Result<Vec<Grant>, Error> {
        Ok(Vec::new())
    }

    async fn describe_linked(&self, pool: &PoolName) -> Result<(Pool, Vec<Linked>), Error> {
        Ok((self.get_pool(pool).await?, Vec::new()))
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
        self.get_disk(instance).await
    }

    async fn set_protection(&self, pool: &PoolName, instance: &Instance, protection: Protection) -> Result<(), Error> {
        self.put_protection(pool, instance, protection).await
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

    async fn set_pool_user_data(&self, pool: &PoolName, user_data: &SecretBytes, revision: &Revision) -> Operation {
        self.change_pool_user_data(pool, user_data, revision).await.map(|()| completed())
    }

    async fn power_off(&self, pool: &PoolName, instance: &InstanceId, how: PowerDown) -> Operation {
        self.stop_instance(pool, instance, how).await.map(|()| completed())
    }

    async fn start(&self, pool: &PoolName, instance: &InstanceId) -> Operation {
        self.start_instance(pool, instance).await.map(|()| completed())
    }

    async fn snapshot_os_disk(&self, request: &SnapshotRequest) -> Operation {
        self.take_snapshot(request).await.map(|()| completed())
    }

    async fn find_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        self.read_snapshot(name).await
    }

    async fn delete_snapshot(&self, name: &SnapshotName) -> Operation {
        self.delete_snapshot(name).await.map(|()| completed())
    }

    async fn find_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        self.read_gallery(name).await
    }

    async fn create_gallery(&self, gallery: &Gallery) -> Operation {
        self.put_gallery(gallery).await.map(|()| completed())
    }

    async fn find_definition(&self, line: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        self.read_definition(line).await
    }

    async fn create_definition(&self, line: &ImageDefinition) -> Operation {
        self.put_definition(line).await.map(|()| completed())
    }

    async fn tag_definition(&self, line: &ImageDefinition, changes: &Tags) -> Operation {
        self.change_definition_tags(&line.name, changes).await.map(|()| completed())
    }

    async fn versions(&self, line: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        self.list_versions(line).await
    }

    async fn publish(&self, publication: &Publication) -> Operation {
        self.put_version(publication).await.map(|()| completed())
    }

    async fn set_excluded(&self, line: &DefinitionName, number: &VersionNumber, excluded: bool) -> Operation {
        self.change_exclusion(line, number, excluded).await.map(|()| completed())
    }

    async fn delete_version(&self, line: &DefinitionName, number: &VersionNumber) -> Operation {
        self.remove_version(line, number).await.map(|()| completed())
    }

    async fn set_recipe(&self, pool: &PoolName, change: &RecipeChange, revision: &Revision) -> Operation {
        self.change_recipe(pool, change, revision).await.map(|()| completed())
    }

    async fn put_extension(&self, pool: &PoolName, saved: &SavedExtension) -> Operation {
        Err(Error::NoExtensions { pool: pool.to_string(), extension: saved.extension.name.clone() })
    }

    /// Local recipes have no extensions, so there is none to remove.
    async fn remove_extension(&self, _: &PoolName, _: &str) -> Operation {
        Ok(completed())
    }

    async fn tag_pool(&self, pool: &Pool, changes: &Tags) -> Operation {
        self.change_tags(pool, changes).await.map(|()| completed())
    }

    async fn add_instances(&self, pool: &Pool, more: u32) -> Operation {
        self.grow(pool, more).await.map(|()| completed())
    }

    async fn remove_instances(&self, pool: &PoolName, instances: &[InstanceId]) -> Operation {
        self.remove_members(pool, instances).await.map(|()| completed())
    }

    async fn create_canary(&self, canary: &Canary) -> Operation {
        self.create_canary_pool(canary).await.map(|()| completed())
    }

    async fn delete_canary(&self, canary: &CanaryName) -> Operation {
        self.delete_canary_pool(canary).await.map(|()| completed())
    }

    async fn observe(&self, handle: &OperationHandle) -> Result<OperationState, Error> {
        observe_handle(handle)
    }
}
