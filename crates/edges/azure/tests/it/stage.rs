//! A world with a client in it, and what every story about an image begins with.

use kiln_azure::Azure;
use kiln_prototype::names;
use kiln_types::{
    DefinitionName, Factory, ImageDefinition, Instance, OperationHandle, Pool, Publication, Snapshot, SnapshotRequest,
    Storage, Tags, VersionNumber,
};

use crate::embedded::Embedded;

pub(crate) struct Stage {
    pub(crate) world: Embedded,
    pub(crate) azure: Azure,
    group: String,
}

impl Stage {
    pub(crate) fn new(faults: &str) -> Self {
        Self::within(Embedded::in_real_pace(faults))
    }

    pub(crate) fn within(world: Embedded) -> Self {
        let azure = world.azure();
        let group = world.sim.spec().resource_group.clone();
        Self { world, azure, group }
    }

    pub(crate) async fn pool(&self) -> Pool {
        self.azure.describe_pool(&self.world.pool()).await.unwrap()
    }

    pub(crate) async fn donor(&self) -> Instance {
        self.azure.describe_instance(&self.world.pool(), &"3".parse().unwrap()).await.unwrap()
    }

    pub(crate) fn line(&self) -> DefinitionName {
        names::definition(&self.group, &self.world.pool()).unwrap()
    }

    pub(crate) async fn settle(&self, handle: OperationHandle) {
        self.azure.settle(&handle).await.unwrap();
    }

    /// Gallery and line, with the donor's traits.
    pub(crate) async fn make_definition(&self) {
        let pool = self.pool().await;
        let disk = self.azure.os_disk(&self.donor().await).await.unwrap();
        let gallery = names::new_gallery(&self.group, &pool.location).unwrap();
        assert_eq!(self.azure.find_gallery(&gallery.name).await.unwrap(), None);
        self.settle(self.azure.create_gallery(&gallery).await.unwrap()).await;
        assert_eq!(self.azure.find_gallery(&gallery.name).await.unwrap(), Some(gallery));

        let line = ImageDefinition {
            name: self.line(),
            location: pool.location,
            generation: disk.generation,
            architecture: disk.architecture,
            security_type: disk.security_type,
            identity: names::definition_identity(&self.group, &pool.name),
            plan: None,
            tags: Tags::new(),
        };
        self.settle(self.azure.create_definition(&line).await.unwrap()).await;
        assert_eq!(self.azure.find_definition(&line.name).await.unwrap(), Some(line));
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        let donor = self.donor().await;
        let request = SnapshotRequest {
            name: names::snapshot(&self.world.pool()).unwrap(),
            location: self.pool().await.location,
            disk: donor.os_disk.clone().unwrap(),
            tags: Tags::from([(kiln_types::tags::BUILT_FROM_TAG.to_owned(), donor.node_name)]),
        };
        self.settle(self.azure.snapshot_os_disk(&request).await.unwrap()).await;
        self.azure.find_snapshot(&request.name).await.unwrap().unwrap()
    }

    pub(crate) fn publication(&self, source: &str, storage: Storage) -> Publication {
        let location = self.world.sim.spec().location.clone();
        Publication {
            definition: self.line(),
            number: day(),
            location: location.clone(),
            source: source.to_owned(),
            regions: vec![location],
            replicas: 3,
            storage,
            excluded: true,
            disk_encryption_set: None,
            tags: Tags::from([(kiln_types::tags::BUILT_FROM_TAG.to_owned(), "node".to_owned())]),
        }
    }
}

pub(crate) fn day() -> VersionNumber {
    names::version_of_day("2026-11-15T12:00:00Z".parse().unwrap())
}
