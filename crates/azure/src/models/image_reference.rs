//! Where an image comes from, as Azure writes it.

use kiln_cloud::{ImageSource, LineName, MarketplaceImage, VersionNumber};
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
    #[serde(skip_serializing)]
    exact_version: Option<String>,
}

impl ImageReference {
    pub(crate) fn by_id(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    pub(crate) fn of(source: &ImageSource, scope: &Scope) -> Result<Self, BadResourceId> {
        Ok(match source {
            ImageSource::Definition(line) => Self::by_id(line_id(scope, line)?),
            ImageSource::ExactVersion(line, number) => {
                Self::by_id(line_id(scope, line)?.child("versions", number.as_str())?)
            }
            ImageSource::Other(id) => Self::by_id(id),
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
        match &self.id {
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
pub(crate) fn line_id(scope: &Scope, line: &LineName) -> Result<ResourceId, BadResourceId> {
    scope.resource("Microsoft.Compute", "galleries", line.gallery.as_str())?.child("images", &line.definition)
}

/// The line, and the version if it names one, of an id in this resource group.
fn line_of(id: &str, scope: &Scope) -> Option<(LineName, Option<VersionNumber>)> {
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
    Some((LineName { gallery, definition }, number))
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
        let line = LineName { gallery: "SIG_rg".parse().unwrap(), definition: "kamino-p-prototype".into() };
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
    fn what_is_written_names_the_image_in_one_way_only() {
        let source = ImageReference::by_id(LINE).source(&scope());
        let written = serde_json::to_value(ImageReference::of(&source, &scope()).unwrap()).unwrap();
        let expected =
            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/galleries/SIG_rg/images/kamino-p-prototype";
        assert_eq!(written, serde_json::json!({ "id": expected }));
    }
}
