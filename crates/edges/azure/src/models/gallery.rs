//! Request and response bodies of a gallery.

use kiln_types::Gallery;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub(crate) struct GalleryModel {
    name: String,
    location: String,
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
        })
    }
}

#[derive(Serialize)]
pub(crate) struct GalleryPut<'a> {
    location: &'a str,
    properties: PutProperties<'a>,
}

#[derive(Serialize)]
struct PutProperties<'a> {
    description: &'a str,
}

impl<'a> GalleryPut<'a> {
    pub(crate) fn new(gallery: &'a Gallery) -> Self {
        Self { location: &gallery.location, properties: PutProperties { description: &gallery.description } }
    }
}
