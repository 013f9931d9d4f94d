//! Which image a node starts from: definitions, their newest versions, and how long an answer holds.

use std::collections::BTreeMap;

use kiln_aks_formats::Arch;
use kiln_aks_formats::image::{self, Gallery, ImageId};
use kiln_node_config::canonical;
use serde::{Deserialize, Serialize};

use crate::family::Family;

/// How long a list of versions is believed: new images come weekly, and a list costs a call per definition.
pub const BELIEVED_SECONDS: i64 = 3 * 24 * 3600;

/// A version of a definition, as its gallery lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub definition: String,
    pub version: String,
    /// When it was published, in seconds since 1970; community galleries say it.
    #[serde(default)]
    pub published: Option<i64>,
    /// Whether nodes must not start from it.
    #[serde(default)]
    pub excluded: bool,
}

/// A definition that a node could start from has no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// There is no version for these machines.
    #[error("no version of {} suits {arch} machines of generation {generation}", .definitions.join(", "))]
    NoVersion {
        /// The definitions that were looked at.
        definitions: Vec<String>,
        arch: Arch,
        generation: u8,
    },
    /// The family has no images of its own.
    #[error("{0} images are named by the class: `imageId`")]
    Unnamed(&'static str),
}

/// The newest version of a definition: by time where it is known, else by number. Excluded versions do not count.
pub fn newest<'a>(definition: &str, listed: &'a [Listed]) -> Option<&'a Listed> {
    let mut best: Option<&Listed> = None;
    for candidate in
        listed.iter().filter(|listed| listed.definition == definition && !listed.excluded && !listed.version.is_empty())
    {
        let better = best.is_none_or(|best| match (candidate.published, best.published) {
            (Some(a), Some(b)) if a != b => a > b,
            _ => image::is_newer(&candidate.version, &best.version),
        });
        if better {
            best = Some(candidate);
        }
    }
    best
}

/// Chooses the image for a machine: the first definition of the family that suits it and has a version.
pub fn choose(
    family: Family,
    (fips, trusted_launch): (bool, bool),
    (arch, generation): (Arch, u8),
    shared_gallery: Option<&str>,
    listed: &[Listed],
) -> Result<ImageId, ImageError> {
    let Some((community, shared)) = family.gallery() else { return Err(ImageError::Unnamed(family.name())) };
    let suiting: Vec<_> = family
        .definitions(fips, trusted_launch)
        .iter()
        .filter(|d| d.arch == arch && d.generation <= generation)
        .collect();
    for definition in &suiting {
        if let Some(version) = newest(definition.name, listed) {
            let gallery = match shared_gallery {
                None => Gallery::Community(community.to_owned()),
                Some(subscription) => Gallery::Shared {
                    subscription: subscription.to_owned(),
                    resource_group: shared.replace("AKS", "AKS-"),
                    gallery: shared.to_owned(),
                },
            };
            return Ok(ImageId { gallery, definition: definition.name.to_owned(), version: version.version.clone() });
        }
    }
    let definitions = suiting.iter().map(|definition| definition.name.to_owned()).collect();
    Err(ImageError::NoVersion { definitions, arch, generation })
}

/// Lists of versions, believed for a while. The key holds the version of Kubernetes, so that an upgrade asks anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache(BTreeMap<String, (i64, Vec<Listed>)>);

impl Cache {
    /// The key of a question; the order of definitions does not count.
    pub fn key(definitions: &[&str], kubernetes_version: &str) -> String {
        let mut sorted = definitions.to_vec();
        sorted.sort_unstable();
        canonical::hash(&(sorted, kubernetes_version))
    }

    /// The list, if it is still believed at this second.
    pub fn get(&self, key: &str, now: i64) -> Option<&[Listed]> {
        self.0
            .get(key)
            .filter(|(at, _)| (*at..*at + BELIEVED_SECONDS).contains(&now))
            .map(|(_, listed)| listed.as_slice())
    }

    /// Stores a list, and forgets those that are no longer believed.
    pub fn put(&mut self, key: String, now: i64, listed: Vec<Listed>) {
        self.0.retain(|_, (at, _)| (*at..*at + BELIEVED_SECONDS).contains(&now));
        self.0.insert(key, (now, listed));
    }
}

/// The images that a class keeps when it may not move on yet: the versions that it has, and the newest of definitions that it has not.
pub fn hold(have: &[ImageId], newest: Vec<ImageId>) -> Vec<ImageId> {
    newest
        .into_iter()
        .map(|image| have.iter().find(|old| old.base() == image.base()).cloned().unwrap_or(image))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(definition: &str, version: &str, published: Option<i64>) -> Listed {
        Listed { definition: definition.to_owned(), version: version.to_owned(), published, excluded: false }
    }

    #[test]
    fn the_newest_is_by_time_where_it_is_known_and_else_by_number() {
        let by_number =
            [listed("d", "202411.12.0", None), listed("d", "2022.12.15", None), listed("e", "999.0.0", None)];
        assert_eq!(newest("d", &by_number).unwrap().version, "202411.12.0");
        let by_time = [listed("d", "2.0.0", Some(1)), listed("d", "1.0.0", Some(2))];
        assert_eq!(newest("d", &by_time).unwrap().version, "1.0.0");
        let excluded = [
            Listed { excluded: true, ..listed("d", "2.0.0", None) },
            listed("d", "1.0.0", None),
            listed("d", "", None),
        ];
        assert_eq!(newest("d", &excluded).unwrap().version, "1.0.0");
    }

    #[test]
    fn a_definition_without_versions_is_passed_over_and_never_makes_an_id_without_one() {
        let only_first_generation = [listed("2204containerd", "1.0.0", None)];
        let chosen =
            choose(Family::Ubuntu2204, (false, false), (Arch::Amd64, 2), None, &only_first_generation).unwrap();
        assert_eq!(chosen.definition, "2204containerd");
        let error =
            choose(Family::Ubuntu2204, (false, false), (Arch::Arm64, 2), None, &only_first_generation).unwrap_err();
        assert_eq!(error.to_string(), "no version of 2204gen2arm64containerd suits arm64 machines of generation 2");
    }

    #[test]
    fn a_shared_gallery_is_named_by_its_subscription() {
        let chosen = choose(
            Family::AzureLinux3,
            (false, false),
            (Arch::Amd64, 2),
            Some("s"),
            &[listed("V3gen2", "1.0.0", None)],
        )
        .unwrap();
        assert!(chosen.to_string().starts_with("/subscriptions/s/resourceGroups/AKS-AzureLinux/"), "{chosen}");
    }

    #[test]
    fn an_answer_is_believed_for_three_days_and_not_for_another_version() {
        let mut cache = Cache::default();
        let key = Cache::key(&["b", "a"], "1.33.7");
        assert_eq!(key, Cache::key(&["a", "b"], "1.33.7"));
        cache.put(key.clone(), 1000, vec![listed("a", "1.0.0", None)]);
        assert!(cache.get(&key, 1000 + BELIEVED_SECONDS - 1).is_some());
        assert!(cache.get(&key, 1000 + BELIEVED_SECONDS).is_none());
        assert!(cache.get(&Cache::key(&["a", "b"], "1.34.0"), 1000).is_none());
        cache.put("other".to_owned(), 1000 + BELIEVED_SECONDS, Vec::new());
        assert_eq!(cache.0.len(), 1);
    }

    #[test]
    fn outside_its_window_a_class_keeps_its_versions_and_gains_new_definitions() {
        let id = |definition: &str, version: &str| ImageId {
            gallery: Gallery::Community("g".to_owned()),
            definition: definition.to_owned(),
            version: version.to_owned(),
        };
        let held = hold(&[id("a", "1.0.0")], vec![id("a", "2.0.0"), id("b", "2.0.0")]);
        assert_eq!(held, [id("a", "1.0.0"), id("b", "2.0.0")]);
    }
}
