//! Image versions.

use kiln_types::{DefinitionName, FactoryError, ImageVersion, Publication, VersionNumber};

use super::{Azure, lacking};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, Kind, ResourceId};
use crate::models::image_reference::definition_id;
use crate::models::version::{Version, VersionPut};

impl Azure {
    pub(super) fn version(&self, line: &DefinitionName, number: &VersionNumber) -> Result<ResourceId, BadResourceId> {
        definition_id(&self.scope, line)?.child("versions", number.as_str())
    }

    async fn get_version(&self, id: &ResourceId) -> Result<Version, Error> {
        self.arm.get(&Call::get(id.as_str(), Api::Gallery).query("$expand", "ReplicationStatus")).await
    }

    pub(super) async fn list_versions(&self, line: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        let line = definition_id(&self.scope, line)?;
        let listed: Vec<Version> = match self.arm.list(&Call::get(line.action("versions"), Api::Gallery)).await {
            Ok(versions) => versions,
            Err(error) if error.not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut versions = Vec::with_capacity(listed.len());
        for mut version in listed {
            let id = line.child("versions", &version.name)?;
            // A list does not tell how far regions are; of a finished version they all are.
            if !version.is_finished() {
                version = match self.get_version(&id).await {
                    Ok(version) => version,
                    Err(error) if error.not_found() => continue,
                    Err(error) => return Err(error),
                };
            }
            versions.push(version.read().map_err(lacking(&id))?);
        }
        versions.sort_by(|a, b| a.number.cmp(&b.number));
        Ok(versions)
    }

    pub(super) async fn put_version(&self, publication: &Publication) -> Result<Handle, Error> {
        self.put(&self.version(&publication.definition, &publication.number)?, &VersionPut::of(publication)).await
    }

    pub(super) async fn patch_exclusion(
        &self,
        line: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> Result<Handle, Error> {
        let id = self.version(line, number)?;
        let patch = self.get_version(&id).await?.exclusion(excluded);
        self.arm.begin(&Call::patch(id.as_str(), Api::Gallery, &patch), Kind::Write, id.as_str()).await
    }

    pub(super) async fn remove_version(&self, line: &DefinitionName, number: &VersionNumber) -> Result<Handle, Error> {
        self.delete(&self.version(line, number)?, Api::Gallery).await
    }
}
