//! Resource IDs and versions of node images.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An invalid image version ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageIdError {
    #[error("`{0}` is not the resource ID of a gallery image version")]
    Shape(String),
    #[error("`{0}` is in a community gallery; node image versions exist only for galleries of a subscription")]
    Community(String),
}

/// Location of a gallery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gallery {
    /// Public name of a community gallery.
    Community(String),
    Shared {
        subscription: String,
        resource_group: String,
        gallery: String,
    },
}

/// Resource ID of an image version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageId {
    pub gallery: Gallery,
    pub definition: String,
    pub version: String,
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gallery {
            Gallery::Community(gallery) => write!(f, "/CommunityGalleries/{gallery}")?,
            Gallery::Shared { subscription, resource_group, gallery } => write!(
                f,
                "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Compute/galleries/{gallery}"
            )?,
        }
        write!(f, "/images/{}/versions/{}", self.definition, self.version)
    }
}

impl FromStr for ImageId {
    type Err = ImageIdError;

    fn from_str(text: &str) -> Result<Self, ImageIdError> {
        let bad = || ImageIdError::Shape(text.to_owned());
        let segments: Vec<&str> = text.split('/').collect();
        let own = |text: &str| text.to_owned();
        let (gallery, definition, version) = match segments[..] {
            ["", _, gallery, _, definition, _, version] => (Gallery::Community(own(gallery)), definition, version),
            ["", _, subscription, _, resource_group, _, _, _, gallery, _, definition, _, version] => (
                Gallery::Shared {
                    subscription: own(subscription),
                    resource_group: own(resource_group),
                    gallery: own(gallery),
                },
                definition,
                version,
            ),
            _ => return Err(bad()),
        };
        let id = Self { gallery, definition: own(definition), version: own(version) };
        // Karpenter creates IDs with an empty version for definitions without versions; no machine can be created from them.
        let named = segments[1..].iter().all(|segment| !segment.is_empty());
        if named && id.to_string().eq_ignore_ascii_case(text) { Ok(id) } else { Err(bad()) }
    }
}

impl ImageId {
    /// Returns AKS' node image version: gallery, definition and version joined by dashes.
    pub fn node_image_version(&self) -> Result<String, ImageIdError> {
        match &self.gallery {
            Gallery::Community(_) => Err(ImageIdError::Community(self.to_string())),
            Gallery::Shared { gallery, .. } => Ok(format!("{gallery}-{}-{}", self.definition, self.version)),
        }
    }

    /// Returns the ID without the version.
    pub fn base(&self) -> String {
        let id = self.to_string();
        let cut = id.len() - "/versions/".len() - self.version.len();
        id[..cut].to_owned()
    }
}

/// Compares versions number by number; a version that extends another is newer. Returns `None` if a part is not a number.
pub fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    let numbers = |text: &str| text.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>();
    Some(numbers(a)?.cmp(&numbers(b)?))
}

/// Whether version `a` is newer than `b`. A version that is not numeric is never newer.
pub fn is_newer(a: &str, b: &str) -> bool {
    compare_versions(a, b) == Some(Ordering::Greater)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARED: &str = "/subscriptions/s/resourceGroups/AKS-Ubuntu/providers/Microsoft.Compute/galleries/AKSUbuntu\
                          /images/2204gen2containerd/versions/2022.10.03";

    #[test]
    fn ids_survive_a_round_trip() {
        for text in [SHARED, "/CommunityGalleries/g-1/images/d/versions/1.0.0"] {
            assert_eq!(text.parse::<ImageId>().unwrap().to_string(), text);
        }
        let id: ImageId = SHARED.parse().unwrap();
        assert_eq!(id.node_image_version().unwrap(), "AKSUbuntu-2204gen2containerd-2022.10.03");
        assert!(id.base().ends_with("/images/2204gen2containerd"));
    }

    #[test]
    fn invalid_ids_are_rejected() {
        for text in ["/CommunityGalleries/g/images/d/versions/", "/subscriptions/invalid/format", "", "/a/b/c/d/e/f"] {
            assert_eq!(text.parse::<ImageId>(), Err(ImageIdError::Shape(text.to_owned())));
        }
    }

    #[test]
    fn versions_compare_by_number_and_length() {
        assert!(is_newer("202411.12.0", "2022.12.15"));
        assert!(is_newer("1.10.0", "1.9.9") && is_newer("1.2.3.4", "1.2.3"));
        assert!(!is_newer("2o2411.12.0", "202411.12.0") && !is_newer("1.0.0", "1.0.0"));
    }

    proptest! {
        #[test]
        fn parsed_ids_print_the_same(text in "(/[a-zA-Z.]{0,12}){0,13}") {
            if let Ok(id) = text.parse::<ImageId>() {
                prop_assert!(id.to_string().eq_ignore_ascii_case(&text));
            }
        }
    }
}
