//! Request and response bodies of a snapshot.

use kiln_types::{Provisioning, Snapshot, SnapshotRequest, Tags};
use serde::{Deserialize, Serialize};

use super::or_default;

#[derive(Deserialize)]
pub(crate) struct SnapshotResource {
    name: String,
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    provisioning_state: Option<String>,
    time_created: Option<String>,
    creation_data: Option<Source>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    source_resource_id: Option<String>,
}

impl SnapshotResource {
    /// Converts the response. An error names the missing field.
    pub(crate) fn read(self) -> Result<Snapshot, &'static str> {
        Ok(Snapshot {
            name: self.name.parse().map_err(|_| "name")?,
            id: self.id,
            source: self.properties.creation_data.and_then(|c| c.source_resource_id),
            provisioning: Provisioning::from_name(self.properties.provisioning_state.as_deref()),
            created: self.properties.time_created,
            tags: self.tags,
        })
    }
}

#[derive(Serialize)]
pub(crate) struct SnapshotPut<'a> {
    location: &'a str,
    tags: &'a Tags,
    sku: Sku,
    properties: PutProperties<'a>,
}

#[derive(Serialize)]
struct Sku {
    name: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProperties<'a> {
    creation_data: CreationData<'a>,
    incremental: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<Encryption<'a>>,
}

/// Azure takes the type of encryption from the set.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Encryption<'a> {
    disk_encryption_set_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreationData<'a> {
    create_option: &'static str,
    source_resource_id: &'a str,
}

impl<'a> SnapshotPut<'a> {
    pub(crate) fn new(request: &'a SnapshotRequest) -> Self {
        Self {
            location: &request.location,
            tags: &request.tags,
            // The snapshot exists only while one version is published, so the cheapest storage is enough.
            sku: Sku { name: "Standard_LRS" },
            properties: PutProperties {
                creation_data: CreationData { create_option: "Copy", source_resource_id: &request.disk },
                incremental: false,
                encryption: request
                    .encryption_set
                    .as_deref()
                    .map(|disk_encryption_set_id| Encryption { disk_encryption_set_id }),
            },
        }
    }
}
