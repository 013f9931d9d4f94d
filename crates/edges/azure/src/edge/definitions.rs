//! Galleries and image definitions.

use kiln_types::{DefinitionName, Gallery, GalleryName, ImageDefinition, Tags};

use super::{Azure, COMPUTE, missing_field};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, OperationKind, ResourceId};
use crate::models::definition::{Definition, DefinitionPut};
use crate::models::gallery::{GalleryModel, GalleryPut};
use crate::models::image_reference::definition_id;
use crate::models::patch::TagPatch;

impl Azure {
    fn gallery(&self, name: &GalleryName) -> Result<ResourceId, BadResourceId> {
        self.galleries.resource(COMPUTE, "galleries", name.as_str())
    }

    pub(super) async fn get_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        let id = self.gallery(name)?;
        let found: Option<GalleryModel> = self.arm.find(&Call::get(id.as_str(), Api::Gallery)).await?;
        found.map(|gallery| gallery.read().map_err(missing_field(&id))).transpose()
    }

    pub(super) async fn put_gallery(&self, gallery: &Gallery) -> Result<Handle, Error> {
        self.put(&self.gallery(&gallery.name)?, &GalleryPut::new(gallery)).await
    }

    pub(super) async fn get_definition(&self, definition: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        let id = definition_id(&self.galleries, definition)?;
        let found: Option<Definition> = self.arm.find(&Call::get(id.as_str(), Api::Gallery)).await?;
        Ok(found.map(|model| model.read(definition.clone())))
    }

    pub(super) async fn put_definition(&self, definition: &ImageDefinition) -> Result<Handle, Error> {
        self.put(&definition_id(&self.galleries, &definition.name)?, &DefinitionPut::new(definition)).await
    }

    pub(super) async fn patch_definition_tags(
        &self,
        definition: &ImageDefinition,
        changes: &Tags,
    ) -> Result<Handle, Error> {
        let id = definition_id(&self.galleries, &definition.name)?;
        let patch = TagPatch::new(&definition.tags, changes);
        self.arm.begin(&Call::patch(id.as_str(), Api::Gallery, &patch), OperationKind::Write, id.as_str()).await
    }
}
