//! Image versions.

use kiln_types::{DefinitionName, FactoryError, ImageVersion, Publication, VersionNumber};

use super::{Azure, missing_field};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, OperationKind, ResourceId};
use crate::models::image_reference::definition_id;
use crate::models::version::{Version, VersionPut};

impl Azure {
    pub(super) fn version(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
    ) -> Result<ResourceId, BadResourceId> {
        definition_id(&self.galleries, definition)?.child("versions", number.as_str())
    }

    async fn get_version(&self, id: &ResourceId) -> Result<Version, Error> {
        self.arm.get(&Call::get(id.as_str(), Api::Gallery).query("$expand", "ReplicationStatus")).await
    }

    pub(super) async fn list_versions(&self, definition: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        let definition = definition_id(&self.galleries, definition)?;
        let listed: Vec<Version> = match self.arm.list(&Call::get(definition.action("versions"), Api::Gallery)).await {
            Ok(versions) => versions,
            Err(error) if error.not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut versions = Vec::with_capacity(listed.len());
        for mut version in listed {
            let id = definition.child("versions", &version.name)?;
            // A list omits the progress of each region. A finished version needs no second request, since all its regions are finished.
            if !version.is_finished() {
                version = match self.get_version(&id).await {
                    Ok(version) => version,
                    Err(error) if error.not_found() => continue,
                    Err(error) => return Err(error),
                };
            }
            versions.push(version.read().map_err(missing_field(&id))?);
        }
        versions.sort_by(|a, b| a.number.cmp(&b.number));
        Ok(versions)
    }

    pub(super) async fn put_version(&self, publication: &Publication) -> Result<Handle, Error> {
        self.put(&self.version(&publication.definition, &publication.number)?, &VersionPut::new(publication)).await
    }

    pub(super) async fn patch_exclusion(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> Result<Handle, Error> {
        let id = self.version(definition, number)?;
        let version = self.get_version(&id).await?;
        let call = Call::patch(id.as_str(), Api::Gallery, &version.exclusion(excluded));
        let mut handle = self.arm.begin(&call, OperationKind::Write, id.as_str()).await?;
        handle.regions = version.regions();
        Ok(handle)
    }

    /// Checks that an update of a version kept all target regions: without its region, the pool could no longer create instances.
    pub(super) async fn check_regions(&self, handle: &Handle) -> Result<(), Error> {
        if handle.regions.is_empty() {
            return Ok(());
        }
        let after = self.get_version(&handle.resource.parse()?).await?.regions();
        let is_kept = |region: &String| after.iter().any(|one| kiln_types::same_region(one, region));
        if handle.regions.iter().all(is_kept) {
            return Ok(());
        }
        let field = "properties.publishingProfile.targetRegions";
        Err(Error::UnintendedChange { resource: handle.resource.clone(), field })
    }

    pub(super) async fn remove_version(
        &self,
        definition: &DefinitionName,
        number: &VersionNumber,
    ) -> Result<Handle, Error> {
        self.delete(&self.version(definition, number)?, Api::Gallery).await
    }
}
