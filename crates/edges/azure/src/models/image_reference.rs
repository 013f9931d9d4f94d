//! An image reference.

use kiln_types::{DefinitionName, ImageSource, MarketplaceImage, VersionNumber};
use serde::{Deserialize, Serialize};

use crate::arm::{BadResourceId, ResourceId, Scope};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ImageReference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sku: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_gallery_image_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    community_gallery_image_id: Option<String>,
    #[serde(skip_serializing)]
    exact_version: Option<String>,
}

/// An image reference in a PATCH. It sets one way of naming the image and nulls all others; otherwise the old ones would remain, and Azure
/// rejects an id combined with a publisher.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImagePatch {
    id: Option<String>,
    publisher: Option<String>,
    offer: Option<String>,
    sku: Option<String>,
    version: Option<String>,
    shared_gallery_image_id: Option<String>,
    community_gallery_image_id: Option<String>,
}

impl From<ImageReference> for ImagePatch {
    fn from(reference: ImageReference) -> Self {
        let ImageReference {
            id,
            publisher,
            offer,
            sku,
            version,
            shared_gallery_image_id,
            community_gallery_image_id,
            exact_version: _,
        } = reference;
        Self { id, publisher, offer, sku, version, shared_gallery_image_id, community_gallery_image_id }
    }
}

/// Prefixes of images in shared and community galleries. They are not resource ids.
const SHARED: &str = "/SharedGalleries/";
const COMMUNITY: &str = "/CommunityGalleries/";

fn begins(id: &str, start: &str) -> bool {
    id.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

impl ImageReference {
    pub(crate) fn by_id(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    /// Creates a reference from an id, in the field that its kind of gallery requires.
    pub(crate) fn from_any_id(id: &str) -> Self {
        if begins(id, SHARED) {
            return Self { shared_gallery_image_id: Some(id.to_owned()), ..Self::default() };
        }
        if begins(id, COMMUNITY) {
            return Self { community_gallery_image_id: Some(id.to_owned()), ..Self::default() };
        }
        Self::by_id(id)
    }

    pub(crate) fn from_source(source: &ImageSource, scope: &Scope) -> Result<Self, BadResourceId> {
        Ok(match source {
            ImageSource::Definition(definition) => Self::by_id(definition_id(scope, definition)?),
            ImageSource::ExactVersion(definition, number) => {
                Self::by_id(definition_id(scope, definition)?.child("versions", number.as_str())?)
            }
            ImageSource::Other(id) => Self::from_any_id(id),
            ImageSource::Marketplace(image) => Self {
                publisher: Some(image.publisher.clone()),
                offer: Some(image.offer.clone()),
                sku: Some(image.sku.clone()),
                version: Some(image.version.clone()),
                ..Self::default()
            },
        })
    }

    /// Returns the image that a pool uses.
    pub(crate) fn source(&self, scope: &Scope) -> ImageSource {
        let shared = self.shared_gallery_image_id.as_ref().or(self.community_gallery_image_id.as_ref());
        match self.id.as_ref().or(shared) {
            Some(id) => definition_of(id, scope).map_or_else(
                || ImageSource::Other(id.clone()),
                |(definition, number)| match number {
                    Some(number) => ImageSource::ExactVersion(definition, number),
                    None => ImageSource::Definition(definition),
                },
            ),
            None => ImageSource::Marketplace(MarketplaceImage {
                publisher: self.publisher.clone().unwrap_or_default(),
                offer: self.offer.clone().unwrap_or_default(),
                sku: self.sku.clone().unwrap_or_default(),
                version: self.version.clone().unwrap_or_default(),
            }),
        }
    }

    /// Returns the image that an instance was created from. If the pool uses an image definition, this is the version that `latest`
    /// resolved to at that time.
    pub(crate) fn exact_source(&self, scope: &Scope) -> ImageSource {
        let exact = self.exact_version.as_deref().filter(|v| !v.is_empty());
        match (self.source(scope), exact) {
            (ImageSource::Definition(definition), Some(exact)) => match exact.parse() {
                Ok(number) => ImageSource::ExactVersion(definition, number),
                Err(_) => ImageSource::Definition(definition),
            },
            (ImageSource::Marketplace(image), Some(exact)) => {
                ImageSource::Marketplace(MarketplaceImage { version: exact.to_owned(), ..image })
            }
            (source, _) => source,
        }
    }
}

/// Returns the id of an image definition in this resource group.
pub(crate) fn definition_id(scope: &Scope, definition: &DefinitionName) -> Result<ResourceId, BadResourceId> {
    scope
        .resource("Microsoft.Compute", "galleries", definition.gallery.as_str())?
        .child("images", &definition.definition)
}

/// Parses an id in this resource group into the image definition and, if present, the version.
fn definition_of(id: &str, scope: &Scope) -> Option<(DefinitionName, Option<VersionNumber>)> {
    let id: ResourceId = id.parse().ok()?;
    if !scope.contains(&id) {
        return None;
    }
    let gallery = id.value_of("galleries")?.parse().ok()?;
    let definition = id.value_of("images")?.to_owned();
    let number = match id.value_of("versions") {
        // Both forms mean the newest version.
        None | Some("latest") => None,
        Some(version) => Some(version.parse().ok()?),
    };
    Some((DefinitionName { gallery, definition }, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str =
        "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/galleries/SIG_rg/images/kamino-p-prototype";

    fn scope() -> Scope {
        Scope::new("s", "rg").unwrap()
    }

    fn read(json: &str) -> ImageReference {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn ids_are_parsed_as_definition_version_or_other() {
        let definition = DefinitionName { gallery: "SIG_rg".parse().unwrap(), definition: "kamino-p-prototype".into() };
        let by = |id: String| ImageReference::by_id(id).source(&scope());
        assert_eq!(by(DEFINITION.into()), ImageSource::Definition(definition.clone()));
        assert_eq!(by(format!("{DEFINITION}/versions/latest")), ImageSource::Definition(definition.clone()));
        assert_eq!(
            by(format!("{DEFINITION}/versions/2026.11.05")),
            ImageSource::ExactVersion(definition, "2026.11.05".parse().unwrap())
        );
        let foreign = DEFINITION.replace("RG", "other");
        assert_eq!(by(foreign.clone()), ImageSource::Other(foreign));
    }

    #[test]
    fn exact_source_is_the_version_that_latest_resolved_to() {
        let reference = read(&format!(r#"{{"id":"{DEFINITION}","exactVersion":"2026.11.05"}}"#));
        assert!(
            matches!(reference.exact_source(&scope()), ImageSource::ExactVersion(_, v) if v.as_str() == "2026.11.05")
        );
        let market = read(r#"{"publisher":"p","offer":"o","sku":"s","version":"latest","exactVersion":"22.04.1"}"#);
        assert!(matches!(market.exact_source(&scope()), ImageSource::Marketplace(i) if i.version == "22.04.1"));
    }

    #[test]
    fn shared_images_round_trip() {
        for (field, id) in [
            ("communityGalleryImageId", "/CommunityGalleries/g/Images/i/Versions/latest"),
            ("sharedGalleryImageId", "/SharedGalleries/g/Images/i"),
        ] {
            let json = format!(r#"{{"{field}":"{id}"}}"#);
            let source = read(&json).source(&scope());
            assert_eq!(source, ImageSource::Other(id.to_owned()));
            let written = serde_json::to_string(&ImageReference::from_source(&source, &scope()).unwrap()).unwrap();
            assert_eq!(written, json);
        }
    }

    #[test]
    fn reference_names_the_image_in_one_way_only() {
        let source = ImageReference::by_id(DEFINITION).source(&scope());
        let written = serde_json::to_value(ImageReference::from_source(&source, &scope()).unwrap()).unwrap();
        let expected =
            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/galleries/SIG_rg/images/kamino-p-prototype";
        assert_eq!(written, serde_json::json!({ "id": expected }));
    }
}
