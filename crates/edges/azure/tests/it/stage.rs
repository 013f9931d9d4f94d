//! A simulated Azure with a client, and the common first steps of the image tests.

use kiln_azure::Azure;
use kiln_prototype::names;
use kiln_types::{
    DefinitionName, Factory, ImageDefinition, Instance, OperationHandle, Pool, Publication, Snapshot, SnapshotRequest,
    Storage, Tags, TargetRegion, VersionNumber,
};

use crate::embedded::Embedded;

pub(crate) struct Stage {
    pub(crate) embedded: Embedded,
    pub(crate) azure: Azure,
    group: String,
}

impl Stage {
    pub(crate) fn new(faults: &str) -> Self {
        Self::within(Embedded::in_real_pace(faults))
    }

    pub(crate) fn within(embedded: Embedded) -> Self {
        let azure = embedded.azure();
        let group = embedded.sim.spec().resource_group.clone();
        Self { embedded, azure, group }
    }

    pub(crate) async fn pool(&self) -> Pool {
        self.azure.describe_pool(&self.embedded.pool()).await.unwrap()
    }

    pub(crate) async fn donor(&self) -> Instance {
        self.azure.describe_instance(&self.embedded.pool(), &"3".parse().unwrap()).await.unwrap()
    }

    pub(crate) fn definition(&self) -> DefinitionName {
        names::definition(&self.group, &self.embedded.pool()).unwrap()
    }

    pub(crate) async fn settle(&self, handle: OperationHandle) {
        self.azure.settle(&handle).await.unwrap();
    }

    /// Creates the gallery and an image definition with the donor's properties.
    pub(crate) async fn make_definition(&self) {
        let pool = self.pool().await;
        let disk = self.azure.os_disk(&self.donor().await).await.unwrap();
        let gallery = names::new_gallery(&self.group, &pool.location).unwrap();
        assert_eq!(self.azure.find_gallery(&gallery.name).await.unwrap(), None);
        self.settle(self.azure.create_gallery(&gallery).await.unwrap()).await;
        assert_eq!(self.azure.find_gallery(&gallery.name).await.unwrap(), Some(gallery));

        let definition = ImageDefinition {
            name: self.definition(),
            location: pool.location,
            generation: disk.generation,
            architecture: disk.architecture,
            security_type: disk.security_type,
            features: disk.features,
            identity: names::definition_identity(&self.group, &pool.name),
            plan: None,
            tags: Tags::new(),
        };
        self.settle(self.azure.create_definition(&definition).await.unwrap()).await;
        assert_eq!(self.azure.find_definition(&definition.name).await.unwrap(), Some(definition));
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        let donor = self.donor().await;
        let request = SnapshotRequest {
            name: names::snapshot(&self.embedded.pool()).unwrap(),
            location: self.pool().await.location,
            disk: donor.os_disk.clone().unwrap(),
            encryption_set: None,
            tags: Tags::from([(kiln_types::tags::BUILT_FROM_TAG.to_owned(), donor.node_name)]),
        };
        self.settle(self.azure.snapshot_os_disk(&request).await.unwrap()).await;
        self.azure.find_snapshot(&request.name).await.unwrap().unwrap()
    }

    pub(crate) fn publication(&self, source: &str, storage: Storage) -> Publication {
        let location = self.embedded.sim.spec().location.clone();
        Publication {
            definition: self.definition(),
            number: day(),
            location: location.clone(),
            source: source.to_owned(),
            regions: vec![TargetRegion { name: location, replicas: 3 }],
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
