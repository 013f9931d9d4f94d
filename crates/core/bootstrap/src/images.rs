//! Image selection: the newest version of an image definition, and a cache of version lists.

use std::collections::BTreeMap;

use kiln_aks_formats::Arch;
use kiln_aks_formats::image::{self, Gallery, ImageId};
use kiln_node_config::canonical;
use serde::{Deserialize, Serialize};

use crate::family::Family;

/// Lifetime of a cached version list. New images are published weekly, and a list costs one call per definition.
pub const CACHE_TTL_SECONDS: i64 = 3 * 24 * 3600;

/// An image version as its gallery lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedVersion {
    pub definition: String,
    pub version: String,
    /// Publishing time in seconds since 1970. Only community galleries report it.
    #[serde(default)]
    pub published: Option<i64>,
    /// Whether `latest` skips the version.
    #[serde(default)]
    pub excluded: bool,
}

/// No image can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("no version of {} is available for {arch} machines of generation {generation}", .definitions.join(", "))]
    NoVersion {
        /// Definitions that fit the machine.
        definitions: Vec<String>,
        arch: Arch,
        generation: u8,
    },
    #[error("image family {0} has no default image; set `imageId` in the node class")]
    Unnamed(&'static str),
}

/// Returns the newest version of a definition, by publishing time if it is known, otherwise by number. Excluded versions are skipped.
pub fn newest<'a>(definition: &str, listed: &'a [ListedVersion]) -> Option<&'a ListedVersion> {
    let mut best: Option<&ListedVersion> = None;
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

/// Chooses the image for a machine: the first definition of the family that fits the machine and has a version.
pub fn choose(
    family: Family,
    (fips, trusted_launch): (bool, bool),
    (arch, generation): (Arch, u8),
    shared_gallery: Option<&str>,
    listed: &[ListedVersion],
) -> Result<ImageId, ImageError> {
    let Some((community, shared)) = family.gallery() else { return Err(ImageError::Unnamed(family.name())) };
    let fitting: Vec<_> = family
        .definitions(fips, trusted_launch)
        .iter()
        .filter(|d| d.arch == arch && d.generation <= generation)
        .collect();
    for definition in &fitting {
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
    let definitions = fitting.iter().map(|definition| definition.name.to_owned()).collect();
    Err(ImageError::NoVersion { definitions, arch, generation })
}

/// Cache of version lists. The key includes the Kubernetes version, so an upgrade of the cluster lists the versions again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache(BTreeMap<String, (i64, Vec<ListedVersion>)>);

impl Cache {
    /// Returns the cache key; the order of definitions does not matter.
    pub fn key(definitions: &[&str], kubernetes_version: &str) -> String {
        let mut sorted = definitions.to_vec();
        sorted.sort_unstable();
        canonical::hash(&(sorted, kubernetes_version))
    }

    /// Returns a list that has not expired.
    pub fn get(&self, key: &str, now: i64) -> Option<&[ListedVersion]> {
        self.0
            .get(key)
            .filter(|(at, _)| (*at..*at + CACHE_TTL_SECONDS).contains(&now))
            .map(|(_, listed)| listed.as_slice())
    }

    /// Stores a list and removes expired ones.
    pub fn put(&mut self, key: String, now: i64, listed: Vec<ListedVersion>) {
        self.0.retain(|_, (at, _)| (*at..*at + CACHE_TTL_SECONDS).contains(&now));
        self.0.insert(key, (now, listed));
    }
}

/// Returns the images of a class outside its maintenance window: the versions it already has, and the newest version of new definitions.
pub fn keep_current(have: &[ImageId], newest: Vec<ImageId>) -> Vec<ImageId> {
    newest
        .into_iter()
        .map(|image| have.iter().find(|old| old.base() == image.base()).cloned().unwrap_or(image))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(definition: &str, version: &str, published: Option<i64>) -> ListedVersion {
        ListedVersion { definition: definition.to_owned(), version: version.to_owned(), published, excluded: false }
    }

    #[test]
    fn newest_version_is_chosen_by_time_or_by_number() {
        let by_number =
            [listed("d", "202411.12.0", None), listed("d", "2022.12.15", None), listed("e", "999.0.0", None)];
        assert_eq!(newest("d", &by_number).unwrap().version, "202411.12.0");
        let by_time = [listed("d", "2.0.0", Some(1)), listed("d", "1.0.0", Some(2))];
        assert_eq!(newest("d", &by_time).unwrap().version, "1.0.0");
        let excluded = [
            ListedVersion { excluded: true, ..listed("d", "2.0.0", None) },
            listed("d", "1.0.0", None),
            listed("d", "", None),
        ];
        assert_eq!(newest("d", &excluded).unwrap().version, "1.0.0");
    }

    #[test]
    fn definitions_without_versions_are_skipped() {
        let only_first_generation = [listed("2204containerd", "1.0.0", None)];
        let chosen =
            choose(Family::Ubuntu2204, (false, false), (Arch::Amd64, 2), None, &only_first_generation).unwrap();
        assert_eq!(chosen.definition, "2204containerd");
        let error =
            choose(Family::Ubuntu2204, (false, false), (Arch::Arm64, 2), None, &only_first_generation).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no version of 2204gen2arm64containerd is available for arm64 machines of generation 2"
        );
    }

    #[test]
    fn shared_gallery_id_contains_its_subscription() {
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
    fn cached_list_expires_after_three_days_and_is_per_kubernetes_version() {
        let mut cache = Cache::default();
        let key = Cache::key(&["b", "a"], "1.33.7");
        assert_eq!(key, Cache::key(&["a", "b"], "1.33.7"));
        cache.put(key.clone(), 1000, vec![listed("a", "1.0.0", None)]);
        assert!(cache.get(&key, 1000 + CACHE_TTL_SECONDS - 1).is_some());
        assert!(cache.get(&key, 1000 + CACHE_TTL_SECONDS).is_none());
        assert!(cache.get(&Cache::key(&["a", "b"], "1.34.0"), 1000).is_none());
        cache.put("other".to_owned(), 1000 + CACHE_TTL_SECONDS, Vec::new());
        assert_eq!(cache.0.len(), 1);
    }

    #[test]
    fn class_keeps_its_versions_outside_its_window_and_gains_new_definitions() {
        let id = |definition: &str, version: &str| ImageId {
            gallery: Gallery::Community("g".to_owned()),
            definition: definition.to_owned(),
            version: version.to_owned(),
        };
        let images = keep_current(&[id("a", "1.0.0")], vec![id("a", "2.0.0"), id("b", "2.0.0")]);
        assert_eq!(images, [id("a", "1.0.0"), id("b", "2.0.0")]);
    }
}
