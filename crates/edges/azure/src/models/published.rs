//! Published image versions of community galleries and of AKS.

use jiff::Timestamp;
use kiln_types::PublishedVersion;
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct CommunityVersion {
    name: String,
    #[serde(default)]
    properties: CommunityProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CommunityProperties {
    published_date: Option<String>,
    exclude_from_latest: Option<bool>,
}

impl CommunityVersion {
    pub(crate) fn read(self, definition: &str) -> PublishedVersion {
        PublishedVersion {
            definition: definition.to_owned(),
            version: self.name,
            published: self.properties.published_date.as_deref().and_then(seconds),
            excluded: self.properties.exclude_from_latest.unwrap_or(false),
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct NodeImageVersion {
    sku: String,
    version: String,
}

impl From<NodeImageVersion> for PublishedVersion {
    fn from(image: NodeImageVersion) -> Self {
        Self { definition: image.sku, version: image.version, published: None, excluded: false }
    }
}

/// Parses a time. Azure writes times with and without a zone; without one they are UTC.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let time = text.parse::<Timestamp>().or_else(|_| format!("{text}Z").parse());
    time.ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_zone_is_utc() {
        assert_eq!(seconds("2026-01-01T00:00:00.5"), seconds("2026-01-01T00:00:00Z"));
        assert_eq!(seconds("yesterday"), None);
    }
}
