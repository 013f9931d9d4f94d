//! Permissions of the caller.

use kiln_types::{AccessScope, Grant, Linked, Lock, Pool, PoolName};

use super::{Azure, missing_field};
use crate::arm::{Api, Call, Error, ResourceId, Scope};
use crate::models::access::{LockModel, Named, PermissionModel, References};
use crate::models::scale_set::ScaleSet;

impl Azure {
    pub(super) async fn list_permissions(&self, scope: &AccessScope) -> Result<Vec<Grant>, Error> {
        let path = match scope {
            AccessScope::Home => self.scope.collection("Microsoft.Authorization", "permissions"),
            AccessScope::Galleries => self.galleries.collection("Microsoft.Authorization", "permissions"),
            AccessScope::Resource(id) => {
                format!("{}/providers/Microsoft.Authorization/permissions", id.parse::<ResourceId>()?)
            }
        };
        let granted: Vec<PermissionModel> = self.arm.list(&Call::get(path, Api::Authorization)).await?;
        Ok(granted.into_iter().map(PermissionModel::read).collect())
    }

    pub(super) async fn list_locks(&self, pool: &PoolName) -> Result<Vec<Lock>, Error> {
        let id = self.scale_set(pool)?;
        let mut locks = self.locks_at(&self.scope, id.as_str()).await?;
        if self.galleries != self.scope {
            // A version is deleted by every later run, which a lock above the galleries prevents.
            let galleries = self.galleries.resource_group_id();
            locks.extend(self.locks_at(&self.galleries, &galleries).await?);
        }
        Ok(locks)
    }

    async fn locks_at(&self, scope: &Scope, resource: &str) -> Result<Vec<Lock>, Error> {
        let path = scope.collection("Microsoft.Authorization", "locks");
        let locks: Vec<LockModel> = self.arm.list(&Call::get(path, Api::Locks)).await?;
        Ok(locks.into_iter().filter_map(|lock| lock.read(resource)).collect())
    }

    /// The names of all regions of the subscription.
    pub(super) async fn list_regions(&self) -> Result<Vec<String>, Error> {
        let path = format!("/subscriptions/{}/locations", self.scope.subscription());
        let regions: Vec<Named> = self.arm.list(&Call::get(path, Api::Subscriptions)).await?;
        Ok(regions.into_iter().map(|region| region.name).collect())
    }

    pub(super) async fn get_linked(&self, pool: &PoolName) -> Result<(Pool, Vec<Linked>), Error> {
        let id = self.scale_set(pool)?;
        let answer = self.arm.send(&Call::get(id.as_str(), Api::Compute)).await?;
        let pool = answer.read::<ScaleSet>()?.read(&self.galleries).map_err(missing_field(&id))?;
        Ok((pool, answer.read::<References>()?.linked()))
    }
}
