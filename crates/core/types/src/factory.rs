//! What the prototype operation needs of a cloud.

use std::future::Future;

use crate::access::{AccessScope, Grant, Linked, Need};
use crate::canary::{Canary, CanaryName};
use crate::error::FactoryError;
use crate::image::{DefinitionName, Gallery, ImageDefinition, ImageVersion, Publication};
use crate::instance::{Instance, PowerDown, Protection};
use crate::name::{GalleryName, InstanceId, PoolName, SnapshotName};
use crate::operation::{OperationHandle, OperationState, Revision};
use crate::pool::{Pool, Tags};
use crate::recipe::{RecipeChange, SavedExtension};
use crate::snapshot::{OsDisk, Snapshot, SnapshotRequest};
use crate::version::VersionNumber;

/// Anything that makes VMs from a common recipe and keeps images of them.
///
/// A verb that takes long returns as soon as the cloud accepted it, with the handle to [`observe`](Factory::observe) it by. Every verb may
/// be repeated: asking for what is so already changes nothing. A lookup of what does not exist is `None` where that is an ordinary answer,
/// and an error that says so elsewhere.
pub trait Factory: Send + Sync {
    /// What can go wrong.
    type Error: FactoryError;

    /// Every action that the verbs below take, in the cloud's words.
    fn needs(&self) -> &'static [Need];

    /// What roles grant to the caller at a scope: one entry for each role. A caller may be too weak to ask even this.
    fn permissions(&self, scope: &AccessScope) -> impl Future<Output = Result<Vec<Grant>, Self::Error>> + Send;

    /// The resources that a pool's recipe names and that take a permission of their own.
    fn linked(&self, pool: &PoolName) -> impl Future<Output = Result<Vec<Linked>, Self::Error>> + Send;

    /// All pools.
    fn pools(&self) -> impl Future<Output = Result<Vec<Pool>, Self::Error>> + Send;

    /// One pool.
    fn describe_pool(&self, pool: &PoolName) -> impl Future<Output = Result<Pool, Self::Error>> + Send;

    /// All instances of a pool.
    fn instances(&self, pool: &PoolName) -> impl Future<Output = Result<Vec<Instance>, Self::Error>> + Send;

    /// One instance.
    fn describe_instance(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
    ) -> impl Future<Output = Result<Instance, Self::Error>> + Send;

    /// What the OS disk of an instance says of the machine that can boot it.
    fn os_disk(&self, instance: &Instance) -> impl Future<Output = Result<OsDisk, Self::Error>> + Send;

    /// Sets what the pool may not do to an instance, given what the instance was when it was read, and returns what it is afterwards.
    fn set_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> impl Future<Output = Result<Instance, Self::Error>> + Send;

    /// Turns an instance off.
    fn power_off(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        how: PowerDown,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Turns an instance on.
    fn start(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Copies a disk.
    fn snapshot_os_disk(
        &self,
        request: &SnapshotRequest,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// A copy by its name.
    fn find_snapshot(&self, name: &SnapshotName) -> impl Future<Output = Result<Option<Snapshot>, Self::Error>> + Send;

    /// Deletes a copy.
    fn delete_snapshot(&self, name: &SnapshotName)
    -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// A gallery by its name.
    fn find_gallery(&self, name: &GalleryName) -> impl Future<Output = Result<Option<Gallery>, Self::Error>> + Send;

    /// Makes a gallery.
    fn create_gallery(&self, gallery: &Gallery) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// A line by its place.
    fn find_definition(
        &self,
        line: &DefinitionName,
    ) -> impl Future<Output = Result<Option<ImageDefinition>, Self::Error>> + Send;

    /// Makes a line in a gallery that exists.
    fn create_definition(
        &self,
        line: &ImageDefinition,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Adds or changes tags of a line; others stay. A tag is emptied, never removed: clouds differ in whether a write of tags replaces all.
    fn tag_definition(
        &self,
        line: &ImageDefinition,
        changes: &Tags,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// All versions of a line, lowest number first; none where the line does not exist.
    fn versions(&self, line: &DefinitionName) -> impl Future<Output = Result<Vec<ImageVersion>, Self::Error>> + Send;

    /// Makes a version.
    fn publish(&self, publication: &Publication) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Takes a version out of what `latest` means, or puts it in, everywhere.
    fn set_excluded(
        &self,
        line: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Deletes a version.
    fn delete_version(
        &self,
        line: &DefinitionName,
        number: &VersionNumber,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Changes what new instances are made from.
    fn set_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        revision: &Revision,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Puts an extension back into a recipe that has none of its name, with the settings that cannot be read. One that is there already
    /// stays as it is; one of that name that is something else is in the way, and said so.
    fn put_extension(
        &self,
        pool: &PoolName,
        saved: &SavedExtension,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Removes an extension from the recipe.
    fn remove_extension(
        &self,
        pool: &PoolName,
        extension: &str,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Adds or changes tags of a pool, given what it was when it was read; others stay, as with [`tag_definition`](Factory::tag_definition).
    fn tag_pool(
        &self,
        pool: &Pool,
        changes: &Tags,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Makes the pool larger than it was when it was read. Repeated with the same reading it fails, so that it never adds twice.
    fn add_instances(
        &self,
        pool: &Pool,
        more: u32,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Removes instances, and the pool's wish to have them.
    fn remove_instances(
        &self,
        pool: &PoolName,
        instances: &[InstanceId],
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Makes one throw-away instance of a version.
    fn create_canary(&self, canary: &Canary) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Deletes a canary and its instance.
    fn delete_canary(&self, canary: &CanaryName) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// How far an operation is.
    fn observe(&self, handle: &OperationHandle) -> impl Future<Output = Result<OperationState, Self::Error>> + Send;
}
