//! Galleries and image definitions.

use kiln_types::{DefinitionName, Gallery, GalleryName, ImageDefinition, Tags};

use super::{Azure, COMPUTE, lacking};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, Kind, ResourceId};
use crate::models::gallery::{GalleryModel, GalleryPut};
use crate::models::image_reference::definition_id;
use crate::models::line::{Definition, DefinitionPut};
use crate::models::patch::TagPatch;

impl Azure {
    fn gallery(&self, name: &GalleryName) -> Result<ResourceId, BadResourceId> {
        self.scope.resource(COMPUTE, "galleries", name.as_str())
    }

    pub(super) async fn get_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        let id = self.gallery(name)?;
        let found: Option<GalleryModel> = self.arm.find(&Call::get(id.as_str(), Api::Gallery)).await?;
        found.map(|gallery| gallery.read().map_err(lacking(&id))).transpose()
    }

    pub(super) async fn put_gallery(&self, gallery: &Gallery) -> Result<Handle, Error> {
        self.put(&self.gallery(&gallery.name)?, &GalleryPut::of(gallery)).await
    }

    pub(super) async fn get_line(&self, line: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        let id = definition_id(&self.scope, line)?;
        let found: Option<Definition> = self.arm.find(&Call::get(id.as_str(), Api::Gallery)).await?;
        Ok(found.map(|definition| definition.read(line.clone())))
    }

    pub(super) async fn put_line(&self, line: &ImageDefinition) -> Result<Handle, Error> {
        self.put(&definition_id(&self.scope, &line.name)?, &DefinitionPut::of(line)).await
    }

    pub(super) async fn patch_line_tags(&self, line: &ImageDefinition, changes: &Tags) -> Result<Handle, Error> {
        let id = definition_id(&self.scope, &line.name)?;
        let patch = TagPatch::of(&line.tags, changes);
        self.arm.begin(&Call::patch(id.as_str(), Api::Gallery, &patch), Kind::Write, id.as_str()).await
    }
}
