//! The versions that were taken back, remembered on their line for as long as it lasts, even when they are deleted.

use std::collections::BTreeSet;

use kiln_types::{ImageVersion, Tags, VersionNumber, VersionState};
use serde::Serialize;

use super::patch::Fingerprint;
use crate::names::BAD_TAG;
use crate::provenance::{Provenance, shorten, value};

/// What a tag with the fingerprint of a bad version begins with. They are numbered and used again: a tag is emptied, never removed, and a
/// line that had one for each version would run out of its 50.
pub const FINGERPRINT_TAG: &str = "kiln-bad-";

/// How many are remembered. The tag with the list holds 23 numbers, and a person needs some of the 50 tags.
pub const MOST_REMEMBERED: usize = 20;

/// A version that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BadVersion {
    pub number: VersionNumber,
    /// What it brought that the version before it did not have.
    pub brought: Fingerprint,
}

/// The bad versions of a line, lowest first.
pub fn read(tags: &Tags) -> Vec<BadVersion> {
    let brought = |number: &VersionNumber| {
        let slot = (1..=MOST_REMEMBERED).map(slot).find(|slot| owner(tags, slot).as_ref() == Some(number));
        slot.and_then(|slot| value(tags, &slot)).map_or_else(Fingerprint::default, parse)
    };
    numbers(tags).into_iter().map(|number| BadVersion { brought: brought(&number), number }).collect()
}

/// The bad versions of a line, lowest first, with what can be told of those that were condemned without a fingerprint: by a canary, or by
/// hand. What such a version brought is what the newest usable one before it did not have.
pub fn known(tags: &Tags, versions: &[ImageVersion]) -> Vec<BadVersion> {
    let mut all = read(tags);
    let listed = numbers(tags);
    let print = |version: &ImageVersion| Fingerprint::of(&Provenance::read(&version.tags));
    for bad in all.iter_mut().filter(|bad| bad.brought == Fingerprint::default()) {
        let Some(own) = versions.iter().find(|version| version.number == bad.number) else { continue };
        let usable = |version: &&ImageVersion| {
            !version.excluded && version.state == VersionState::Succeeded && !listed.contains(&version.number)
        };
        let older = versions.iter().filter(|version| version.number < bad.number).filter(usable);
        let before = older.max_by(|a, b| a.number.cmp(&b.number)).map(print);
        bad.brought = print(own).brought(before.as_ref());
    }
    all
}

/// Their numbers.
pub fn numbers(tags: &Tags) -> BTreeSet<VersionNumber> {
    value(tags, BAD_TAG).unwrap_or_default().split_whitespace().filter_map(|text| text.parse().ok()).collect()
}

/// The changes of tags that remember more of them. The lowest beyond what can be remembered are forgotten.
pub fn remember(tags: &Tags, more: &[BadVersion]) -> Tags {
    let mut all = numbers(tags);
    all.extend(more.iter().map(|bad| bad.number.clone()));
    while all.len() > MOST_REMEMBERED {
        all.pop_first();
    }
    let mut changes = Tags::from([(BAD_TAG.to_owned(), list(&all))]);
    for bad in more.iter().filter(|bad| all.contains(&bad.number)) {
        let mut slots = (1..=MOST_REMEMBERED).map(slot).filter(|slot| !changes.contains_key(slot));
        let free = |slot: &String| owner(tags, slot).is_none_or(|owner| owner == bad.number || !all.contains(&owner));
        if let Some(slot) = slots.find(free) {
            changes.insert(slot, write(bad));
        }
    }
    changes
}

/// The changes of tags that forget one of them, because a person wants it after all.
pub fn forget(tags: &Tags, number: &VersionNumber) -> Tags {
    let mut all = numbers(tags);
    if all.remove(number) { Tags::from([(BAD_TAG.to_owned(), list(&all))]) } else { Tags::new() }
}

fn slot(place: usize) -> String {
    format!("{FINGERPRINT_TAG}{place:02}")
}

/// The version that a fingerprint is of.
fn owner(tags: &Tags, slot: &str) -> Option<VersionNumber> {
    value(tags, slot)?.split_whitespace().next()?.parse().ok()
}

fn list(numbers: &BTreeSet<VersionNumber>) -> String {
    numbers.iter().map(VersionNumber::as_str).collect::<Vec<_>>().join(" ")
}

fn write(bad: &BadVersion) -> String {
    let parts = [
        ("packages", &bad.brought.packages),
        ("kernel", &bad.brought.kernel),
        ("kubelet", &bad.brought.kubelet),
        ("runtime", &bad.brought.runtime),
    ];
    let said = parts.into_iter().filter_map(|(name, text)| text.as_ref().map(|text| format!(" {name}={text}")));
    shorten(&format!("{}{}", bad.number, said.collect::<String>())).to_owned()
}

fn parse(text: &str) -> Fingerprint {
    let part = |name: &str| {
        text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
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
    use crate::provenance::check;
    use crate::sample::{number, tags};

    fn bad(version: &str) -> BadVersion {
        let kernel = Some("5.4.0-1036-azure".to_owned());
        let brought = Fingerprint { kernel, packages: Some("a".repeat(64)), ..Fingerprint::default() };
        BadVersion { number: number(version), brought }
    }

    #[test]
    fn what_is_remembered_reads_back_beside_what_was_there() {
        let mut tags = tags([("team", "ml"), (BAD_TAG, "2026.11.01")]);
        tags.extend(remember(&tags, &[bad("2026.11.15")]));
        let read = read(&tags);
        assert_eq!(read[0], BadVersion { number: number("2026.11.01"), brought: Fingerprint::default() });
        assert_eq!(read[1], bad("2026.11.15"));
        assert_eq!(tags["team"], "ml");
    }

    #[test]
    fn a_version_condemned_by_its_canary_is_known_by_its_own_tags_while_it_exists() {
        let with = |version: &str, kernel: &str| ImageVersion {
            tags: tags([("kiln-kernel", kernel), ("kiln-kubelet", "v1.19.6")]),
            ..crate::sample::version(version)
        };
        let mut condemned = with("2026.11.15", "1036");
        condemned.excluded = true;
        let versions = [with("2026.11.01", "1030"), with("2026.11.08", "1032"), condemned];
        let line = tags([(BAD_TAG, "2026.11.15")]);
        let brought = Fingerprint { kernel: Some("1036".into()), ..Fingerprint::default() };
        assert_eq!(known(&line, &versions), [BadVersion { number: number("2026.11.15"), brought }]);
        assert_eq!(known(&line, &[])[0].brought, Fingerprint::default());
        let marked = remember(&Tags::new(), &[bad("2026.11.15")]);
        assert_eq!(known(&marked, &versions), [bad("2026.11.15")]);
    }

    #[test]
    fn a_version_that_is_wanted_after_all_is_forgotten() {
        let mut tags = remember(&Tags::new(), &[bad("2026.11.14"), bad("2026.11.15")]);
        tags.extend(forget(&tags, &number("2026.11.14")));
        assert_eq!(numbers(&tags), BTreeSet::from([number("2026.11.15")]));
        assert_eq!(read(&tags).len(), 1);
        assert!(forget(&tags, &number("2026.11.14")).is_empty());
    }

    #[test]
    fn years_of_bad_versions_stay_within_what_tags_can_hold() {
        let mut tags = Tags::new();
        for (month, day) in (1..=12).flat_map(|month| [1, 8, 15, 22].map(|day| (month, day))) {
            tags.extend(remember(&tags, &[bad(&format!("2026.{month:02}.{day:02}"))]));
            assert!(check(&tags).is_ok() && tags.len() <= MOST_REMEMBERED + 1);
        }
        assert_eq!(read(&tags).len(), MOST_REMEMBERED);
        assert!(read(&tags).iter().all(|bad| bad.brought.kernel.is_some()));
        assert_eq!(numbers(&tags).first(), Some(&number("2026.08.01")));
    }

    #[test]
    fn remembering_again_writes_the_same_place() {
        let mut tags = remember(&Tags::new(), &[bad("2026.11.14"), bad("2026.11.15")]);
        tags.extend(remember(&tags, &[bad("2026.11.15")]));
        assert_eq!(tags.len(), 3);
        assert_eq!(read(&tags), [bad("2026.11.14"), bad("2026.11.15")]);
    }
}
