//! Request and response bodies of a gallery.

use kiln_types::{Gallery, Tags};
use serde::{Deserialize, Serialize};

use super::or_default;

#[derive(Deserialize)]
pub(crate) struct GalleryModel {
    name: String,
    location: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    description: Option<String>,
}

impl GalleryModel {
    /// Converts the response. An error names the missing field.
    pub(crate) fn read(self) -> Result<Gallery, &'static str> {
        Ok(Gallery {
            name: self.name.parse().map_err(|_| "name")?,
            location: self.location,
            description: self.properties.description.unwrap_or_default(),
            tags: self.tags,
        })
    }
}

#[derive(Serialize)]
pub(crate) struct GalleryPut<'a> {
    location: &'a str,
    #[serde(skip_serializing_if = "Tags::is_empty")]
    tags: &'a Tags,
    properties: PutProperties<'a>,
}

#[derive(Serialize)]
struct PutProperties<'a> {
    description: &'a str,
}

impl<'a> GalleryPut<'a> {
    pub(crate) fn new(gallery: &'a Gallery) -> Self {
        Self {
            location: &gallery.location,
            tags: &gallery.tags,
            properties: PutProperties { description: &gallery.description },
        }
    }
}
