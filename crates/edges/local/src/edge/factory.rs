//! This machine as a factory.

use kiln_types::{
    AccessScope, Canary, CanaryName, DefinitionName, Factory, Gallery, GalleryName, Grant, ImageDefinition,
    ImageVersion, Instance, InstanceId, Linked, Need, OperationHandle, OperationState, OsDisk, Pool, PoolName,
    PowerDown, Protection, Publication, RecipeChange, Revision, SavedExtension, Snapshot, SnapshotName,
    SnapshotRequest, Tags, VersionNumber,
};

use super::{Local, ended, observed};
use crate::error::Error;
use crate::power::Power;

type Begun = Result<OperationHandle, Error>;

impl<P: Power> Factory for Local<P> {
    type Error = Error;

    /// None: who may write the state folder may do everything.
    fn needs(&self) -> &'static [Need] {
        &[]
    }

    async fn permissions(&self, _: &AccessScope) -> Result<Vec<Grant>, Error> {
        Ok(Vec::new())
    }

    async fn linked(&self, _: &PoolName) -> Result<Vec<Linked>, Error> {
        Ok(Vec::new())
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

    async fn set_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> Result<Instance, Error> {
        self.put_protection(pool, instance, protection).await
    }

    async fn power_off(&self, pool: &PoolName, instance: &InstanceId, how: PowerDown) -> Begun {
        self.stop(pool, instance, how).await.map(|()| ended())
    }

    async fn start(&self, pool: &PoolName, instance: &InstanceId) -> Begun {
        self.begin(pool, instance).await.map(|()| ended())
    }

    async fn snapshot_os_disk(&self, request: &SnapshotRequest) -> Begun {
        self.take_snapshot(request).await.map(|()| ended())
    }

    async fn find_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        self.look_for_snapshot(name).await
    }

    async fn delete_snapshot(&self, name: &SnapshotName) -> Begun {
        self.delete_snapshot(name).await.map(|()| ended())
    }

    async fn find_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        self.look_for_gallery(name).await
    }

    async fn create_gallery(&self, gallery: &Gallery) -> Begun {
        self.make_gallery(gallery).await.map(|()| ended())
    }

    async fn find_definition(&self, line: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        self.look_for_line(line).await
    }

    async fn create_definition(&self, line: &ImageDefinition) -> Begun {
        self.make_definition(line).await.map(|()| ended())
    }

    async fn tag_definition(&self, line: &ImageDefinition, changes: &Tags) -> Begun {
        self.change_line_tags(&line.name, changes).await.map(|()| ended())
    }

    async fn versions(&self, line: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        self.list_versions(line).await
    }

    async fn publish(&self, publication: &Publication) -> Begun {
        self.make_version(publication).await.map(|()| ended())
    }

    async fn set_excluded(&self, line: &DefinitionName, number: &VersionNumber, excluded: bool) -> Begun {
        self.change_exclusion(line, number, excluded).await.map(|()| ended())
    }

    async fn delete_version(&self, line: &DefinitionName, number: &VersionNumber) -> Begun {
        self.drop_version(line, number).await.map(|()| ended())
    }

    async fn set_recipe(&self, pool: &PoolName, change: &RecipeChange, revision: &Revision) -> Begun {
        self.change_recipe(pool, change, revision).await.map(|()| ended())
    }

    async fn put_extension(&self, pool: &PoolName, saved: &SavedExtension) -> Begun {
        Err(Error::NoExtensions { pool: pool.to_string(), extension: saved.extension.name.clone() })
    }

    /// A recipe here has none, so that each is removed already.
    async fn remove_extension(&self, _: &PoolName, _: &str) -> Begun {
        Ok(ended())
    }

    async fn tag_pool(&self, pool: &Pool, changes: &Tags) -> Begun {
        self.change_tags(pool, changes).await.map(|()| ended())
    }

    async fn add_instances(&self, pool: &Pool, more: u32) -> Begun {
        self.grow(pool, more).await.map(|()| ended())
    }

    async fn remove_instances(&self, pool: &PoolName, instances: &[InstanceId]) -> Begun {
        self.drop_instances(pool, instances).await.map(|()| ended())
    }

    async fn create_canary(&self, canary: &Canary) -> Begun {
        self.create_canary_pool(canary).await.map(|()| ended())
    }

    async fn delete_canary(&self, canary: &CanaryName) -> Begun {
        self.delete_canary_pool(canary).await.map(|()| ended())
    }

    async fn observe(&self, handle: &OperationHandle) -> Result<OperationState, Error> {
        observed(handle)
    }
}
