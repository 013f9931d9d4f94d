//! Scale sets.

use kiln_types::{InstanceId, Pool, PoolName, RecipeChange, Revision, SavedExtension, SecretBytes, Tags};

use super::{Azure, COMPUTE, decode_user_data, missing_field};
use crate::arm::{Api, Call, Error, Handle, OperationKind, ResourceId};
use crate::models::extension::{ExtensionModel, ExtensionPut};
use crate::models::patch::{CapacityPatch, InstanceIds, RecipePatch, TagPatch, Tagged};
use crate::models::scale_set::ScaleSet;

impl Azure {
    pub(super) async fn list_pools(&self) -> Result<Vec<Pool>, Error> {
        let collection = self.scope.collection(COMPUTE, "virtualMachineScaleSets");
        let sets: Vec<ScaleSet> = self.arm.list(&Call::get(collection, Api::Compute)).await?;
        sets.into_iter()
            .map(|set| {
                let id = self.scope.resource(COMPUTE, "virtualMachineScaleSets", &set.name)?;
                set.read(&self.galleries).map_err(missing_field(&id))
            })
            .collect()
    }

    pub(super) async fn get_pool(&self, pool: &PoolName) -> Result<Pool, Error> {
        let id = self.scale_set(pool)?;
        let set: ScaleSet = self.arm.get(&Call::get(id.as_str(), Api::Compute)).await?;
        set.read(&self.galleries).map_err(missing_field(&id))
    }

    pub(super) async fn patch_recipe(
        &self,
        pool: &PoolName,
        change: &RecipeChange,
        seen: &Revision,
    ) -> Result<Handle, Error> {
        let id = self.scale_set(pool)?;
        self.patch_scale_set(&id, &RecipePatch::new(change, &self.galleries)?, seen).await
    }

    pub(super) async fn get_pool_user_data(&self, pool: &PoolName) -> Result<(SecretBytes, Revision), Error> {
        let id = self.scale_set(pool)?;
        let call = Call::get(id.as_str(), Api::Compute).query("$expand", "userData");
        let mut set: ScaleSet = self.arm.get(&call).await?;
        let user_data = decode_user_data(&id, set.take_user_data())?;
        Ok((user_data, set.etag.map(Revision::new).ok_or_else(|| missing_field(&id)("etag"))?))
    }

    pub(super) async fn patch_user_data(
        &self,
        pool: &PoolName,
        user_data: &SecretBytes,
        seen: &Revision,
    ) -> Result<Handle, Error> {
        self.patch_scale_set(&self.scale_set(pool)?, &RecipePatch::user_data(user_data), seen).await
    }

    pub(super) async fn patch_tags(&self, pool: &Pool, changes: &Tags) -> Result<Handle, Error> {
        let id = self.scale_set(&pool.name)?;
        let seen = pool.revision.as_ref().ok_or_else(|| missing_field(&id)("etag"))?;
        let patch = TagPatch::new(&pool.tags, changes);
        let answer = self.arm.send(&Call::patch(id.as_str(), Api::Compute, &patch).if_match(seen)).await?;
        // The response has the model as it was accepted.
        let accepted: Tagged = answer.read()?;
        if changes.iter().any(|(name, value)| accepted.tags.get(name) != Some(value)) {
            return Err(Error::Unchanged { resource: id.to_string(), field: "tags" });
        }
        Ok(Handle::from_answer(&answer, OperationKind::Write, id.as_str(), Api::Compute))
    }

    pub(super) async fn patch_capacity(&self, pool: &Pool, more: u32) -> Result<Handle, Error> {
        let id = self.scale_set(&pool.name)?;
        let seen = pool.revision.as_ref().ok_or_else(|| missing_field(&id)("etag"))?;
        self.patch_scale_set(&id, &CapacityPatch::to(pool.capacity.saturating_add(more)), seen).await
    }

    async fn patch_scale_set(
        &self,
        id: &ResourceId,
        patch: &(impl serde::Serialize + Sync),
        seen: &Revision,
    ) -> Result<Handle, Error> {
        let call = Call::patch(id.as_str(), Api::Compute, patch).if_match(seen);
        self.arm.begin(&call, OperationKind::Write, id.as_str()).await
    }

    /// Creates an extension as a sub-resource, and only if none of its name exists: the protected settings of an existing one cannot be
    /// read, so overwriting it would lose them. Azure documents no precondition for this resource, so the preceding read is the actual
    /// check and the header an additional one.
    pub(super) async fn restore_extension(&self, pool: &PoolName, saved: &SavedExtension) -> Result<Handle, Error> {
        let wanted = &saved.extension;
        let id = self.scale_set(pool)?.child("extensions", &wanted.name)?;
        let body = ExtensionPut::from_saved(saved).map_err(missing_field(&id))?;
        let found: Option<ExtensionModel> = self.arm.find(&Call::get(id.as_str(), Api::Compute)).await?;
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        match found.map(ExtensionModel::read) {
            None => {
                let call = Call::put(id.as_str(), Api::Compute, &body).if_absent();
                self.arm.begin(&call, OperationKind::Write, id.as_str()).await
            }
            Some(there) if same(&there.publisher, &wanted.publisher) && same(&there.kind, &wanted.kind) => {
                Ok(Handle::watching(OperationKind::Write, id.as_str(), Api::Compute))
            }
            Some(there) => {
                let found = format!("extension `{}` of publisher `{}`", there.kind, there.publisher);
                Err(Error::NameTaken { resource: id.to_string(), found })
            }
        }
    }

    /// Deletes an extension as a sub-resource. Removing it by writing the model back would lose the protected settings of the others.
    pub(super) async fn delete_extension(&self, pool: &PoolName, extension: &str) -> Result<Handle, Error> {
        let id = self.scale_set(pool)?.child("extensions", extension)?;
        self.delete(&id, Api::Compute).await
    }

    pub(super) async fn delete_instances(&self, pool: &PoolName, instances: &[InstanceId]) -> Result<Handle, Error> {
        let id = self.scale_set(pool)?;
        // Azure does not reuse instance numbers, so deleting twice is safe.
        let body = InstanceIds { instance_ids: instances.iter().map(InstanceId::as_str).collect() };
        let call = Call::post_idempotent(id.action("delete"), Api::Compute).body(&body);
        self.arm.begin(&call, OperationKind::Act, id.as_str()).await
    }
}
