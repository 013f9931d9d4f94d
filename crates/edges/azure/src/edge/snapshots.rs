//! Snapshots.

use kiln_types::{Snapshot, SnapshotName, SnapshotRequest};

use super::{Azure, COMPUTE, missing_field};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, ResourceId};
use crate::models::snapshot::{SnapshotPut, SnapshotResource};

impl Azure {
    fn snapshot(&self, name: &SnapshotName) -> Result<ResourceId, BadResourceId> {
        self.scope.resource(COMPUTE, "snapshots", name.as_str())
    }

    pub(super) async fn put_snapshot(&self, request: &SnapshotRequest) -> Result<Handle, Error> {
        self.put(&self.snapshot(&request.name)?, &SnapshotPut::new(request)).await
    }

    pub(super) async fn find_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        let id = self.snapshot(name)?;
        let found: Option<SnapshotResource> = self.arm.find(&Call::get(id.as_str(), Api::Disk)).await?;
        found.map(|snapshot| snapshot.read().map_err(missing_field(&id))).transpose()
    }

    pub(super) async fn delete_snapshot(&self, name: &SnapshotName) -> Result<Handle, Error> {
        self.delete(&self.snapshot(name)?, Api::Disk).await
    }
}
