//! Request and response bodies of an image version.

use kiln_types::{ImageVersion, Publication, RegionProgress, Storage, Tags, VersionState, same_region};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Reference, or_default};

#[derive(Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    provisioning_state: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    publishing_profile: Publishing,
    replication_status: Option<ReplicationStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Publishing {
    exclude_from_latest: Option<bool>,
    storage_account_type: Option<String>,
    published_date: Option<String>,
    #[serde(deserialize_with = "or_default")]
    target_regions: Vec<TargetRegion>,
}

/// A target region. The fields that kiln does not know are kept, because a patch replaces the whole list.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetRegion {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    regional_replica_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_account_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude_from_latest: Option<bool>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct ReplicationStatus {
    #[serde(default, deserialize_with = "or_default")]
    summary: Vec<RegionStatus>,
}

#[derive(Deserialize)]
struct RegionStatus {
    region: String,
    state: Option<String>,
    progress: Option<u8>,
}

impl Version {
    /// Returns whether all regions are finished, which the list shows without their progress.
    pub(crate) fn is_finished(&self) -> bool {
        self.properties.provisioning_state.as_deref() == Some("Succeeded")
    }

    /// Converts the response. An error names the missing field.
    pub(crate) fn read(self) -> Result<ImageVersion, &'static str> {
        let finished = self.is_finished();
        let p = self.properties;
        let statuses = p.replication_status.map(|r| r.summary).unwrap_or_default();
        let region = |target: &TargetRegion| {
            let status = statuses.iter().find(|s| same_region(&s.region, &target.name));
            RegionProgress {
                region: target.name.clone(),
                excluded: target.exclude_from_latest.unwrap_or(false),
                percent: status.and_then(|s| s.progress).or(finished.then_some(100)),
                complete: status.map_or(finished, |s| s.state.as_deref() == Some("Completed")),
            }
        };
        Ok(ImageVersion {
            number: self.name.parse().map_err(|_| "name")?,
            id: self.id,
            state: match p.provisioning_state.as_deref() {
                Some("Creating") => VersionState::Creating,
                Some("Updating") => VersionState::Updating,
                Some("Deleting") => VersionState::Deleting,
                Some("Failed") => VersionState::Failed,
                None | Some("Succeeded") => VersionState::Succeeded,
                Some(other) => VersionState::Other(other.to_owned()),
            },
            excluded: p.publishing_profile.exclude_from_latest.unwrap_or(false),
            regions: p.publishing_profile.target_regions.iter().map(region).collect(),
            storage: storage(p.publishing_profile.storage_account_type.as_deref()),
            tags: self.tags,
            created: p.publishing_profile.published_date,
        })
    }

    /// Returns the names of the target regions.
    pub(crate) fn regions(&self) -> Vec<String> {
        self.properties.publishing_profile.target_regions.iter().map(|region| region.name.clone()).collect()
    }

    /// Creates the patch that excludes this version from `latest` or includes it in all regions.
    ///
    /// It has all target regions: a publishing profile without them could mean that there are none. It has no source, because the
    /// snapshot is deleted by then. The specification requires the storage profile, which may be empty.
    pub(crate) fn exclusion(&self, excluded: bool) -> ExclusionPatch {
        let flagged = |region: &TargetRegion| TargetRegion {
            exclude_from_latest: region.exclude_from_latest.map(|_| excluded),
            ..region.clone()
        };
        ExclusionPatch {
            properties: ExclusionProperties {
                publishing_profile: ExclusionProfile {
                    exclude_from_latest: excluded,
                    target_regions: self.properties.publishing_profile.target_regions.iter().map(flagged).collect(),
                },
                storage_profile: EmptyProfile {},
            },
        }
    }
}

fn storage(word: Option<&str>) -> Option<Storage> {
    match word {
        Some("Standard_ZRS") => Some(Storage::ZoneRedundant),
        Some("Standard_LRS") => Some(Storage::Local),
        Some("Premium_LRS") => Some(Storage::PremiumLocal),
        _ => None,
    }
}

fn storage_word(storage: Storage) -> &'static str {
    match storage {
        Storage::ZoneRedundant => "Standard_ZRS",
        Storage::Local => "Standard_LRS",
        Storage::PremiumLocal => "Premium_LRS",
    }
}

#[derive(Serialize)]
pub(crate) struct ExclusionPatch {
    properties: ExclusionProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExclusionProperties {
    publishing_profile: ExclusionProfile,
    storage_profile: EmptyProfile,
}

#[derive(Serialize)]
struct EmptyProfile {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExclusionProfile {
    exclude_from_latest: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target_regions: Vec<TargetRegion>,
}

#[derive(Serialize)]
pub(crate) struct VersionPut<'a> {
    location: &'a str,
    tags: &'a Tags,
    properties: PutProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProperties {
    publishing_profile: PutProfile,
    storage_profile: PutStorage,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutStorage {
    os_disk_image: OsDiskImage,
}

#[derive(Serialize)]
struct OsDiskImage {
    source: Reference,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProfile {
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_count: Option<u32>,
    storage_account_type: &'static str,
    exclude_from_latest: bool,
    target_regions: Vec<TargetRegion>,
}

impl<'a> VersionPut<'a> {
    pub(crate) fn new(publication: &'a Publication) -> Self {
        let word = storage_word(publication.storage);
        let encryption =
            publication.disk_encryption_set.as_ref().map(|id| json!({"osDiskImage": {"diskEncryptionSetId": id}}));
        let region = |region: &kiln_types::TargetRegion| TargetRegion {
            name: region.name.clone(),
            regional_replica_count: Some(region.replicas),
            storage_account_type: Some(word.to_owned()),
            encryption: encryption.clone(),
            exclude_from_latest: None,
            rest: Map::new(),
        };
        Self {
            location: &publication.location,
            tags: &publication.tags,
            properties: PutProperties {
                publishing_profile: PutProfile {
                    replica_count: publication.regions.first().map(|region| region.replicas),
                    storage_account_type: word,
                    exclude_from_latest: publication.excluded,
                    target_regions: publication.regions.iter().map(region).collect(),
                },
                storage_profile: PutStorage {
                    os_disk_image: OsDiskImage { source: Reference { id: Some(publication.source.clone()) } },
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(state: &str, region: &Value) -> Version {
        serde_json::from_value(json!({
            "name": "2026.11.15", "id": "/x", "tags": null,
            "properties": {
                "provisioningState": state,
                "publishingProfile": {"storageAccountType": "Standard_LRS", "targetRegions": [region]},
                "storageProfile": {"osDiskImage": {"sizeInGB": 30, "hostCaching": "ReadOnly", "source": {"id": "/snap"}}},
                "replicationStatus": {"aggregatedState": "InProgress", "summary": [{"region": "West US 2", "state": "Replicating", "progress": 40}]}
            }
        }))
        .unwrap()
    }

    #[test]
    fn unfinished_version_has_progress_per_region() {
        let read = version("Creating", &json!({"name": "westus2"})).read().unwrap();
        assert_eq!(read.state, VersionState::Creating);
        assert_eq!((read.regions[0].percent, read.regions[0].complete), (Some(40), false));
    }

    #[test]
    fn exclusion_patch_has_all_regions_as_read_and_no_source() {
        let region = json!({
            "name": "West US 2", "regionalReplicaCount": 3, "storageAccountType": "Standard_ZRS",
            "encryption": {"osDiskImage": {"diskEncryptionSetId": "/set"}, "dataDiskImages": []}, "additionalReplicaSets": [],
        });
        let patch = serde_json::to_value(version("Succeeded", &region).exclusion(true)).unwrap();
        let profile = json!({"excludeFromLatest": true, "targetRegions": [region]});
        assert_eq!(patch, json!({"properties": {"publishingProfile": profile, "storageProfile": {}}}));
    }

    #[test]
    fn exclusion_patch_changes_the_flag_of_regions_that_have_one() {
        let region = json!({"name": "westus2", "regionalReplicaCount": 3, "excludeFromLatest": true});
        let contradicted = serde_json::to_value(version("Succeeded", &region).exclusion(false)).unwrap();
        assert_eq!(
            contradicted["properties"]["publishingProfile"]["targetRegions"],
            json!([{"name": "westus2", "regionalReplicaCount": 3, "excludeFromLatest": false}])
        );
    }
}
