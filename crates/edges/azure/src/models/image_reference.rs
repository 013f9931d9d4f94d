//! Where an image comes from, as Azure writes it.

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

/// A reference in a patch: it names the image in one way and takes back every other. Left out, the other names would stay, and Azure refuses
/// an id beside a publisher.
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

/// Ids of images that others share begin so, unlike those of resources.
const SHARED: &str = "/SharedGalleries/";
const COMMUNITY: &str = "/CommunityGalleries/";

fn begins(id: &str, start: &str) -> bool {
    id.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

impl ImageReference {
    pub(crate) fn by_id(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    /// Any id, by the name that its gallery asks for.
    pub(crate) fn anywhere(id: &str) -> Self {
        if begins(id, SHARED) {
            return Self { shared_gallery_image_id: Some(id.to_owned()), ..Self::default() };
        }
        if begins(id, COMMUNITY) {
            return Self { community_gallery_image_id: Some(id.to_owned()), ..Self::default() };
        }
        Self::by_id(id)
    }

    pub(crate) fn of(source: &ImageSource, scope: &Scope) -> Result<Self, BadResourceId> {
        Ok(match source {
            ImageSource::Definition(line) => Self::by_id(definition_id(scope, line)?),
            ImageSource::ExactVersion(line, number) => {
                Self::by_id(definition_id(scope, line)?.child("versions", number.as_str())?)
            }
            ImageSource::Other(id) => Self::anywhere(id),
            ImageSource::Marketplace(image) => Self {
                publisher: Some(image.publisher.clone()),
                offer: Some(image.offer.clone()),
                sku: Some(image.sku.clone()),
                version: Some(image.version.clone()),
                ..Self::default()
            },
        })
    }

    /// The image that a pool names.
    pub(crate) fn source(&self, scope: &Scope) -> ImageSource {
        let shared = self.shared_gallery_image_id.as_ref().or(self.community_gallery_image_id.as_ref());
        match self.id.as_ref().or(shared) {
            Some(id) => line_of(id, scope).map_or_else(
                || ImageSource::Other(id.clone()),
                |(line, number)| match number {
                    Some(number) => ImageSource::ExactVersion(line, number),
                    None => ImageSource::Definition(line),
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

    /// The image that an instance was made from: where the pool names a line, the version that it was then.
    pub(crate) fn exact_source(&self, scope: &Scope) -> ImageSource {
        let exact = self.exact_version.as_deref().filter(|v| !v.is_empty());
        match (self.source(scope), exact) {
            (ImageSource::Definition(line), Some(exact)) => match exact.parse() {
                Ok(number) => ImageSource::ExactVersion(line, number),
                Err(_) => ImageSource::Definition(line),
            },
            (ImageSource::Marketplace(image), Some(exact)) => {
                ImageSource::Marketplace(MarketplaceImage { version: exact.to_owned(), ..image })
            }
            (source, _) => source,
        }
    }
}

/// The id of a line of this resource group.
pub(crate) fn definition_id(scope: &Scope, line: &DefinitionName) -> Result<ResourceId, BadResourceId> {
    scope.resource("Microsoft.Compute", "galleries", line.gallery.as_str())?.child("images", &line.definition)
}

/// The line, and the version if it names one, of an id in this resource group.
fn line_of(id: &str, scope: &Scope) -> Option<(DefinitionName, Option<VersionNumber>)> {
    let id: ResourceId = id.parse().ok()?;
    if !scope.holds(&id) {
        return None;
    }
    let gallery = id.value_of("galleries")?.parse().ok()?;
    let definition = id.value_of("images")?.to_owned();
    let number = match id.value_of("versions") {
        // The two ways to say "the newest".
        None | Some("latest") => None,
        Some(version) => Some(version.parse().ok()?),
    };
    Some((DefinitionName { gallery, definition }, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/galleries/SIG_rg/images/kamino-p-prototype";

    fn scope() -> Scope {
        Scope::new("s", "rg").unwrap()
    }

    fn read(json: &str) -> ImageReference {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_id_is_a_line_a_version_or_something_else() {
        let line = DefinitionName { gallery: "SIG_rg".parse().unwrap(), definition: "kamino-p-prototype".into() };
        let by = |id: String| ImageReference::by_id(id).source(&scope());
        assert_eq!(by(LINE.into()), ImageSource::Definition(line.clone()));
        assert_eq!(by(format!("{LINE}/versions/latest")), ImageSource::Definition(line.clone()));
        assert_eq!(
            by(format!("{LINE}/versions/2026.11.05")),
            ImageSource::ExactVersion(line, "2026.11.05".parse().unwrap())
        );
        let foreign = LINE.replace("RG", "other");
        assert_eq!(by(foreign.clone()), ImageSource::Other(foreign));
    }

    #[test]
    fn an_instance_says_which_version_latest_was_for_it() {
        let reference = read(&format!(r#"{{"id":"{LINE}","exactVersion":"2026.11.05"}}"#));
        assert!(
            matches!(reference.exact_source(&scope()), ImageSource::ExactVersion(_, v) if v.as_str() == "2026.11.05")
        );
        let market = read(r#"{"publisher":"p","offer":"o","sku":"s","version":"latest","exactVersion":"22.04.1"}"#);
        assert!(matches!(market.exact_source(&scope()), ImageSource::Marketplace(i) if i.version == "22.04.1"));
    }

    #[test]
    fn an_image_that_others_share_is_written_as_it_was_read() {
        for (field, id) in [
            ("communityGalleryImageId", "/CommunityGalleries/g/Images/i/Versions/latest"),
            ("sharedGalleryImageId", "/SharedGalleries/g/Images/i"),
        ] {
            let json = format!(r#"{{"{field}":"{id}"}}"#);
            let source = read(&json).source(&scope());
            assert_eq!(source, ImageSource::Other(id.to_owned()));
            let written = serde_json::to_string(&ImageReference::of(&source, &scope()).unwrap()).unwrap();
            assert_eq!(written, json);
        }
    }

    #[test]
    fn what_is_written_names_the_image_in_one_way_only() {
        let source = ImageReference::by_id(LINE).source(&scope());
        let written = serde_json::to_value(ImageReference::of(&source, &scope()).unwrap()).unwrap();
        let expected =
            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/galleries/SIG_rg/images/kamino-p-prototype";
        assert_eq!(written, serde_json::json!({ "id": expected }));
    }
}
