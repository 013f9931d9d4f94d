//! The port that the prototype operation needs of a cloud.

use std::future::Future;

use crate::access::{AccessScope, Grant, Linked, Lock, Need};
use crate::canary::{Canary, CanaryName};
use crate::error::FactoryError;
use crate::image::{DefinitionName, Gallery, ImageDefinition, ImageVersion, Publication};
use crate::instance::{Instance, PowerDown, Protection};
use crate::name::{GalleryName, InstanceId, PoolName, SnapshotName};
use crate::operation::{OperationHandle, OperationState, Revision};
use crate::pool::Pool;
use crate::recipe::{RecipeChange, SavedExtension};
use crate::secret::SecretBytes;
use crate::snapshot::{OsDisk, Snapshot, SnapshotRequest};
use crate::tags::Tags;
use crate::version::VersionNumber;

/// A system that creates instances from a recipe and stores images of them.
///
/// A long operation returns as soon as the cloud has accepted it, with the handle for [`observe`](Factory::observe). Every operation is
/// idempotent: requesting a state that exists already changes nothing. A lookup returns `None` for a resource that may well be missing,
/// and an error of class [`NotFound`](crate::ErrorClass::NotFound) otherwise.
pub trait Factory: Send + Sync {
    /// The error type of this cloud.
    type Error: FactoryError;

    /// Whether a canary can get the pool's own custom data and protected settings. Azure never returns them.
    fn knows_secrets(&self) -> bool {
        false
    }

    /// Every action that the operations below perform, as the cloud writes it.
    fn needs(&self) -> &'static [Need];

    /// The permissions that each of the caller's roles grants at a scope. Fails where the caller may not read its own permissions.
    fn permissions(&self, scope: &AccessScope) -> impl Future<Output = Result<Vec<Grant>, Self::Error>> + Send;

    /// Reads a pool, and the resources that its recipe refers to and whose use requires another permission.
    fn describe_linked(&self, pool: &PoolName)
    -> impl Future<Output = Result<(Pool, Vec<Linked>), Self::Error>> + Send;

    /// Whether the permissions at [`AccessScope::Home`] also apply to a resource.
    fn is_home(&self, _resource: &str) -> bool {
        false
    }

    /// The locks that apply to a pool: its own, and those above it. A cloud without locks has none.
    fn locks(&self, _pool: &PoolName) -> impl Future<Output = Result<Vec<Lock>, Self::Error>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Where the galleries are, if not where the pools are.
    fn gallery_scope(&self) -> Option<String> {
        None
    }

    /// Lists the names of the regions that a version can be replicated to. A cloud without regions has none.
    fn regions(&self) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Lists all pools.
    fn pools(&self) -> impl Future<Output = Result<Vec<Pool>, Self::Error>> + Send;

    /// Reads a pool.
    fn describe_pool(&self, pool: &PoolName) -> impl Future<Output = Result<Pool, Self::Error>> + Send;

    /// Lists the instances of a pool.
    fn instances(&self, pool: &PoolName) -> impl Future<Output = Result<Vec<Instance>, Self::Error>> + Send;

    /// Reads an instance.
    fn describe_instance(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
    ) -> impl Future<Output = Result<Instance, Self::Error>> + Send;

    /// Reads the properties of an instance's OS disk that an image definition has to match.
    fn os_disk(&self, instance: &Instance) -> impl Future<Output = Result<OsDisk, Self::Error>> + Send;

    /// Sets an instance's protection, if the instance is still at the revision that was read.
    fn set_protection(
        &self,
        pool: &PoolName,
        instance: &Instance,
        protection: Protection,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Sets an instance's protection at whatever revision the instance is. Returns `false` and changes nothing if the instance is another
    /// machine than the one with this VM id.
    fn restore_protection(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        protection: Protection,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        async move {
            let read = self.describe_instance(pool, instance).await?;
            if read.vm_id != vm_id {
                return Ok(false);
            }
            self.set_protection(pool, &read, protection).await.map(|()| true)
        }
    }

    /// Reads the user data of an instance; empty if it has none.
    fn user_data(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
    ) -> impl Future<Output = Result<SecretBytes, Self::Error>> + Send;

    /// Replaces the user data of an instance at whatever revision it is; empty user data removes it. Returns `false` and changes nothing if
    /// the instance is another machine than the one with this VM id. The machine reads it from the metadata service from then on.
    fn set_user_data(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        vm_id: &str,
        user_data: &SecretBytes,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Reads the user data of the recipe, which new instances get, and the revision of the pool.
    fn pool_user_data(
        &self,
        pool: &PoolName,
    ) -> impl Future<Output = Result<(SecretBytes, Revision), Self::Error>> + Send;

    /// Replaces the user data of the recipe, if the pool is still at this revision. Instances keep theirs.
    fn set_pool_user_data(
        &self,
        pool: &PoolName,
        user_data: &SecretBytes,
        revision: &Revision,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Powers an instance off.
    fn power_off(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
        how: PowerDown,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Starts an instance.
    fn start(
        &self,
        pool: &PoolName,
        instance: &InstanceId,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Creates a snapshot of a disk.
    fn snapshot_os_disk(
        &self,
        request: &SnapshotRequest,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Looks a snapshot up.
    fn find_snapshot(&self, name: &SnapshotName) -> impl Future<Output = Result<Option<Snapshot>, Self::Error>> + Send;

    /// Deletes a snapshot.
    fn delete_snapshot(&self, name: &SnapshotName)
    -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Looks a gallery up.
    fn find_gallery(&self, name: &GalleryName) -> impl Future<Output = Result<Option<Gallery>, Self::Error>> + Send;

    /// Creates a gallery.
    fn create_gallery(&self, gallery: &Gallery) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Looks an image definition up.
    fn find_definition(
        &self,
        definition: &DefinitionName,
    ) -> impl Future<Output = Result<Option<ImageDefinition>, Self::Error>> + Send;

    /// Creates an image definition in an existing gallery.
    fn create_definition(
        &self,
        definition: &ImageDefinition,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Adds or changes tags of an image definition and keeps its other tags.
    fn tag_definition(
        &self,
        definition: &ImageDefinition,
        changes: &Tags,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Lists the versions of an image definition, lowest first. A definition that does not exist has none.
    fn versions(
        &self,
        definition: &DefinitionName,
    ) -> impl Future<Output = Result<Vec<ImageVersion>, Self::Error>> + Send;

    /// Creates an image version.
    fn publish(&self, publication: &Publication) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Excludes a version from `latest` in all regions, or includes it.
    fn set_excluded(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Deletes an image version.
    fn delete_version(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Changes the recipe for new instances, if the pool is still at this revision.
    fn set_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        revision: &Revision,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Adds an extension to the recipe, including its protected settings. Does nothing if the recipe has this extension already, and
    /// fails if it has a different one of the same name.
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

    /// Adds or changes tags of a pool, if it is still at the revision that was read, and keeps its other tags.
    fn tag_pool(
        &self,
        pool: &Pool,
        changes: &Tags,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Adds instances to a pool, if it is still at the revision that was read. A repeated request therefore fails instead of adding
    /// instances twice.
    fn add_instances(
        &self,
        pool: &Pool,
        more: u32,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Deletes instances and lowers the pool's capacity accordingly.
    fn remove_instances(
        &self,
        pool: &PoolName,
        instances: &[InstanceId],
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Creates a canary.
    fn create_canary(&self, canary: &Canary) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Deletes a canary that the calling process has created itself.
    fn delete_own_canary(
        &self,
        canary: &CanaryName,
    ) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send {
        self.delete_canary(canary)
    }

    /// Deletes a canary with its instance.
    fn delete_canary(&self, canary: &CanaryName) -> impl Future<Output = Result<OperationHandle, Self::Error>> + Send;

    /// Reads the state of a long operation.
    fn observe(&self, handle: &OperationHandle) -> impl Future<Output = Result<OperationState, Self::Error>> + Send;
}
