//! Rejected versions, recorded on their image definition even after they are deleted.

use std::collections::BTreeSet;

use kiln_types::tags::{REJECTED_FINGERPRINT_PREFIX, REJECTED_TAG};
use kiln_types::{ImageVersion, Tags, VersionNumber, VersionState};
use serde::Serialize;

use super::patch::Fingerprint;
use crate::provenance::{Provenance, shorten, tag_value};

/// How many rejected versions are recorded. The tag with the list has room for 23 numbers, and the user needs some of the 50 tags.
pub const MAX_REJECTED: usize = 20;

/// A rejected version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedVersion {
    pub number: VersionNumber,
    /// The differences from the previous version.
    pub introduced: Fingerprint,
}

/// The rejected versions of an image definition, lowest first, with their recorded fingerprints.
pub fn read_rejected(tags: &Tags) -> Vec<RejectedVersion> {
    let introduced = |number: &VersionNumber| {
        let slot = (1..=MAX_REJECTED).map(slot).find(|slot| owner(tags, slot).as_ref() == Some(number));
        slot.and_then(|slot| tag_value(tags, &slot)).map_or_else(Fingerprint::default, parse)
    };
    rejected_numbers(tags)
        .into_iter()
        .map(|number| RejectedVersion { introduced: introduced(&number), number })
        .collect()
}

/// The rejected versions of an image definition, lowest first. For versions without a recorded fingerprint, rejected by a canary or by
/// hand, it is derived from their own tags and those of the newest usable version before them.
pub fn describe_rejected(tags: &Tags, versions: &[ImageVersion]) -> Vec<RejectedVersion> {
    let mut all = read_rejected(tags);
    let listed = rejected_numbers(tags);
    let print = |version: &ImageVersion| Fingerprint::from_provenance(&Provenance::read(&version.tags));
    for rejected in all.iter_mut().filter(|rejected| rejected.introduced == Fingerprint::default()) {
        let Some(own) = versions.iter().find(|version| version.number == rejected.number) else { continue };
        let usable = |version: &&ImageVersion| {
            !version.excluded && version.state == VersionState::Succeeded && !listed.contains(&version.number)
        };
        let older = versions.iter().filter(|version| version.number < rejected.number).filter(usable);
        let before = older.max_by(|a, b| a.number.cmp(&b.number)).map(print);
        rejected.introduced = print(own).without(before.as_ref());
    }
    all
}

/// The numbers of the rejected versions.
pub fn rejected_numbers(tags: &Tags) -> BTreeSet<VersionNumber> {
    tag_value(tags, REJECTED_TAG).unwrap_or_default().split_whitespace().filter_map(|text| text.parse().ok()).collect()
}

/// The tag changes that reject further versions. The lowest versions beyond [`MAX_REJECTED`] are dropped.
pub fn reject(tags: &Tags, more: &[RejectedVersion]) -> Tags {
    let mut all = rejected_numbers(tags);
    all.extend(more.iter().map(|rejected| rejected.number.clone()));
    while all.len() > MAX_REJECTED {
        all.pop_first();
    }
    let mut changes = Tags::from([(REJECTED_TAG.to_owned(), list(&all))]);
    for rejected in more.iter().filter(|rejected| all.contains(&rejected.number)) {
        let mut slots = (1..=MAX_REJECTED).map(slot).filter(|slot| !changes.contains_key(slot));
        let free =
            |slot: &String| owner(tags, slot).is_none_or(|owner| owner == rejected.number || !all.contains(&owner));
        if let Some(slot) = slots.find(free) {
            changes.insert(slot, write(rejected));
        }
    }
    changes
}

/// The tag changes that remove a version from the list, because the user wants it after all.
pub fn unreject(tags: &Tags, number: &VersionNumber) -> Tags {
    let mut all = rejected_numbers(tags);
    if all.remove(number) { Tags::from([(REJECTED_TAG.to_owned(), list(&all))]) } else { Tags::new() }
}

fn slot(index: usize) -> String {
    format!("{REJECTED_FINGERPRINT_PREFIX}{index:02}")
}

/// The version that a recorded fingerprint belongs to.
fn owner(tags: &Tags, slot: &str) -> Option<VersionNumber> {
    tag_value(tags, slot)?.split_whitespace().next()?.parse().ok()
}

fn list(numbers: &BTreeSet<VersionNumber>) -> String {
    numbers.iter().map(VersionNumber::as_str).collect::<Vec<_>>().join(" ")
}

fn write(rejected: &RejectedVersion) -> String {
    let parts = [
        ("packages", &rejected.introduced.packages),
        ("kernel", &rejected.introduced.kernel),
        ("kubelet", &rejected.introduced.kubelet),
        ("runtime", &rejected.introduced.runtime),
    ];
    let known = parts.into_iter().filter_map(|(name, text)| text.as_ref().map(|text| format!(" {name}={text}")));
    shorten(&format!("{}{}", rejected.number, known.collect::<String>())).to_owned()
}

fn parse(text: &str) -> Fingerprint {
    let part = |name: &str| {
        text.split_whitespace().find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    Fingerprint {
        packages: part("packages"),
        kernel: part("kernel"),
        kubelet: part("kubelet"),
        runtime: part("runtime"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::check_tags;
    use crate::sample::{number, tags};

    fn rejected(version: &str) -> RejectedVersion {
        let kernel = Some("5.4.0-1036-azure".to_owned());
        let introduced = Fingerprint { kernel, packages: Some("a".repeat(64)), ..Fingerprint::default() };
        RejectedVersion { number: number(version), introduced }
    }

    #[test]
    fn rejected_versions_round_trip_and_other_tags_stay() {
        let mut tags = tags([("team", "ml"), (REJECTED_TAG, "2026.11.01")]);
        tags.extend(reject(&tags, &[rejected("2026.11.15")]));
        let read = read_rejected(&tags);
        assert_eq!(read[0], RejectedVersion { number: number("2026.11.01"), introduced: Fingerprint::default() });
        assert_eq!(read[1], rejected("2026.11.15"));
        assert_eq!(tags["team"], "ml");
    }

    #[test]
    fn a_version_condemned_by_its_canary_is_known_by_its_own_tags_while_it_exists() {
        let with = |version: &str, kernel: &str| ImageVersion {
            tags: tags([("kiln-kernel", kernel), ("kiln-kubelet", "v1.19.6")]),
            ..crate::sample::version(version)
        };
        let mut excluded = with("2026.11.15", "1036");
        excluded.excluded = true;
        let versions = [with("2026.11.01", "1030"), with("2026.11.08", "1032"), excluded];
        let definition = tags([(REJECTED_TAG, "2026.11.15")]);
        let introduced = Fingerprint { kernel: Some("1036".into()), ..Fingerprint::default() };
        assert_eq!(
            describe_rejected(&definition, &versions),
            [RejectedVersion { number: number("2026.11.15"), introduced }]
        );
        assert_eq!(describe_rejected(&definition, &[])[0].introduced, Fingerprint::default());
        let marked = reject(&Tags::new(), &[rejected("2026.11.15")]);
        assert_eq!(describe_rejected(&marked, &versions), [rejected("2026.11.15")]);
    }

    #[test]
    fn version_can_be_unrejected() {
        let mut tags = reject(&Tags::new(), &[rejected("2026.11.14"), rejected("2026.11.15")]);
        tags.extend(unreject(&tags, &number("2026.11.14")));
        assert_eq!(rejected_numbers(&tags), BTreeSet::from([number("2026.11.15")]));
        assert_eq!(read_rejected(&tags).len(), 1);
        assert!(unreject(&tags, &number("2026.11.14")).is_empty());
    }

    #[test]
    fn number_of_tags_stays_bounded() {
        let mut tags = Tags::new();
        for (month, day) in (1..=12).flat_map(|month| [1, 8, 15, 22].map(|day| (month, day))) {
            tags.extend(reject(&tags, &[rejected(&format!("2026.{month:02}.{day:02}"))]));
            assert!(check_tags(&tags).is_ok() && tags.len() <= MAX_REJECTED + 1);
        }
        assert_eq!(read_rejected(&tags).len(), MAX_REJECTED);
        assert!(read_rejected(&tags).iter().all(|one| one.introduced.kernel.is_some()));
        assert_eq!(rejected_numbers(&tags).first(), Some(&number("2026.08.01")));
    }

    #[test]
    fn rejecting_again_reuses_the_same_tag() {
        let mut tags = reject(&Tags::new(), &[rejected("2026.11.14"), rejected("2026.11.15")]);
        tags.extend(reject(&tags, &[rejected("2026.11.15")]));
        assert_eq!(tags.len(), 3);
        assert_eq!(read_rejected(&tags), [rejected("2026.11.14"), rejected("2026.11.15")]);
    }
}
