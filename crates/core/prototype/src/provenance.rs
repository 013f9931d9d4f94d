//! The provenance of an image version, stored in its tags.

mod tags;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use kiln_types::tags::{
    ANCESTORS_TAG, BUILT_AT_TAG, BUILT_FROM_TAG, KERNEL_TAG, KUBELET_TAG, MADE_BY_RUN_TAG, MADE_BY_TAG, PACKAGES_TAG,
    RUNTIME_TAG,
};
use kiln_types::{ImageVersion, Inspection, NodeName, Tags, VersionNumber};
use serde::Serialize;

pub(crate) use tags::MAX_NAME;
pub use tags::{MAX_TAGS, MAX_VALUE, check_tags, merge_tags, parse_tag, shorten, users_tags};

/// The format of kamino's `BuiltAt`, in UTC. For reading, any number of decimals is accepted.
const BUILT_AT_FORMAT: &str = "%Y-%m-%d %H:%M:%S.%6f";
const BUILT_AT_READ: &str = "%Y-%m-%d %H:%M:%S%.f";

/// The provenance of a version. kamino's versions have the first two fields, others have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    pub built_from: Option<String>,
    pub built_at: Option<Timestamp>,
    pub kernel: Option<String>,
    pub kubelet: Option<String>,
    pub runtime: Option<String>,
    /// The hash of the package list.
    pub packages: Option<String>,
    /// The versions that the donor descends from, nearest first.
    pub ancestors: Vec<VersionNumber>,
    pub run: Option<String>,
    /// Who started the run.
    pub who: Option<String>,
}

impl Provenance {
    /// The provenance of a version that a run creates from an inspected donor.
    pub fn new(
        donor: &str,
        at: Timestamp,
        inspection: &Inspection,
        ancestors: Vec<VersionNumber>,
        run: &str,
        who: &str,
    ) -> Self {
        let some = |text: &str| Some(text.to_owned());
        Self {
            built_from: some(donor),
            built_at: Some(at),
            kernel: some(&inspection.kernel),
            kubelet: some(&inspection.kubelet_version),
            runtime: some(&inspection.runtime_version),
            packages: Some(inspection.package_hash()),
            ancestors,
            run: some(run),
            who: some(who),
        }
    }

    /// The version that the donor was created from.
    pub fn parent(&self) -> Option<&VersionNumber> {
        self.ancestors.first()
    }

    /// Whether kiln created the version.
    pub fn is_made_by_kiln(&self) -> bool {
        self.run.is_some()
    }

    /// The tags. Values that are too long for a tag are cut.
    pub fn tags(&self) -> Tags {
        let built_at = self.built_at.map(built_at_text);
        let values = [
            (BUILT_FROM_TAG, self.built_from.as_deref()),
            (BUILT_AT_TAG, built_at.as_deref()),
            (KERNEL_TAG, self.kernel.as_deref()),
            (KUBELET_TAG, self.kubelet.as_deref()),
            (RUNTIME_TAG, self.runtime.as_deref()),
            (PACKAGES_TAG, self.packages.as_deref()),
            (MADE_BY_RUN_TAG, self.run.as_deref()),
            (MADE_BY_TAG, self.who.as_deref()),
        ];
        let mut tags: Tags = values
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name.to_owned(), shorten(value).to_owned())))
            .collect();
        if !self.ancestors.is_empty() {
            tags.insert(ANCESTORS_TAG.to_owned(), ancestors_text(&self.ancestors));
        }
        tags
    }

    /// Reads the tags of a version. Values that cannot be parsed are ignored.
    pub fn read(tags: &Tags) -> Self {
        let text = |name: &str| tag_value(tags, name).map(str::to_owned);
        let ancestors = tag_value(tags, ANCESTORS_TAG).unwrap_or_default();
        Self {
            built_from: text(BUILT_FROM_TAG),
            built_at: tag_value(tags, BUILT_AT_TAG).and_then(read_built_at),
            kernel: text(KERNEL_TAG),
            kubelet: text(KUBELET_TAG),
            runtime: text(RUNTIME_TAG),
            packages: text(PACKAGES_TAG),
            ancestors: ancestors.split_whitespace().filter_map(|version| version.parse().ok()).collect(),
            run: text(MADE_BY_RUN_TAG),
            who: text(MADE_BY_TAG),
        }
    }
}

/// A version and its ancestors, nearest first, as far as the tags of existing versions go.
pub fn ancestors_of(version: &VersionNumber, versions: &[ImageVersion]) -> Vec<VersionNumber> {
    let mut found = vec![version.clone()];
    let mut at = 0;
    while let Some(number) = found.get(at) {
        let known = versions.iter().find(|version| version.number == *number);
        let before = known.map(|version| Provenance::read(&version.tags).ancestors).unwrap_or_default();
        found.extend(before.into_iter().filter(|number| !found.contains(number)).collect::<Vec<_>>());
        at += 1;
    }
    found
}

/// The source of a snapshot or version, if it is not this donor.
pub fn other_donor(tags: &Tags, donor: &NodeName) -> Option<String> {
    match tag_value(tags, BUILT_FROM_TAG) {
        Some(source) if source.eq_ignore_ascii_case(donor.as_str()) => None,
        Some(source) => Some(format!("node `{source}`")),
        None => Some("an unknown node".to_owned()),
    }
}

/// Why a run cannot create a version that exists with the disk of another donor.
pub(crate) fn not_of_this_donor(version: &VersionNumber, other: &str) -> String {
    format!("today's version {version} was created from {other}, and there is one version per day")
}

/// The value of a tag. Names are compared without case, and an empty tag counts as missing.
pub fn tag_value<'a>(tags: &'a Tags, name: &str) -> Option<&'a str> {
    let exact = tags.get(name);
    let found = exact.or_else(|| tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.map(String::as_str).filter(|value| !value.is_empty())
}

/// Formats a time as in `BuiltAt`.
pub fn built_at_text(at: Timestamp) -> String {
    Offset::UTC.to_datetime(at).strftime(BUILT_AT_FORMAT).to_string()
}

fn read_built_at(text: &str) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(DateTime::strptime(BUILT_AT_READ, text).ok()?).ok()
}

/// As many ancestors as a tag has room for, nearest first.
fn ancestors_text(ancestors: &[VersionNumber]) -> String {
    let mut text = String::new();
    for version in ancestors {
        let more = version.as_str().len() + usize::from(!text.is_empty());
        if text.len() + more > MAX_VALUE {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(version.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::inspection;

    fn version(text: &str) -> VersionNumber {
        text.parse().unwrap()
    }

    fn provenance() -> Provenance {
        let at = "2026-11-15T21:03:04.5Z".parse().unwrap();
        let ancestors = vec![version("2026.11.08"), version("2026.11.01")];
        Provenance::new("k8s-pool-1-vmss000003", at, &inspection(), ancestors, "r42", "alice@host")
    }

    #[test]
    fn provenance_round_trips_through_tags() {
        assert_eq!(Provenance::read(&provenance().tags()), provenance());
        assert_eq!(provenance().parent(), Some(&version("2026.11.08")));
        assert!(provenance().is_made_by_kiln());
    }

    #[test]
    fn built_at_has_kaminos_format() {
        assert_eq!(provenance().tags()[BUILT_AT_TAG], "2026-11-15 21:03:04.500000");
    }

    #[test]
    fn kaminos_versions_have_kaminos_tags() {
        let tags = Tags::from([
            ("builtfrom".to_owned(), "node0".to_owned()),
            (BUILT_AT_TAG.to_owned(), "2021-01-20 08:15:30.123456".to_owned()),
        ]);
        let read = Provenance::read(&tags);
        assert_eq!(read.built_from.as_deref(), Some("node0"));
        assert_eq!(read.built_at, Some("2021-01-20T08:15:30.123456Z".parse().unwrap()));
        assert!(!read.is_made_by_kiln() && read.kernel.is_none());
    }

    #[test]
    fn time_without_decimals_is_read_and_invalid_time_is_ignored() {
        assert!(read_built_at("2021-01-20 08:15:30").is_some());
        assert_eq!(read_built_at("yesterday"), None);
        assert_eq!(Provenance::read(&Tags::from([(KERNEL_TAG.to_owned(), String::new())])), Provenance::default());
    }

    #[test]
    fn oldest_ancestors_are_cut() {
        let many: Vec<VersionNumber> = (1..=28).rev().map(|day| version(&format!("2026.02.{day:02}"))).collect();
        let tags = Provenance { ancestors: many.clone(), ..provenance() }.tags();
        assert!(check_tags(&tags).is_ok());
        let read = Provenance::read(&tags).ancestors;
        assert_eq!(read.len(), 23);
        assert_eq!(read, many[..23]);
    }

    #[test]
    fn ancestors_are_followed_through_several_versions_and_cycles_end() {
        let with = |number: &str, ancestors: &str| ImageVersion {
            tags: Tags::from([(ANCESTORS_TAG.to_owned(), ancestors.to_owned())]),
            ..crate::sample::version(number)
        };
        let versions = [with("3.0.0", "2.0.0"), with("2.0.0", "1.0.0"), with("1.0.0", "3.0.0")];
        let found = ancestors_of(&version("3.0.0"), &versions);
        assert_eq!(found, [version("3.0.0"), version("2.0.0"), version("1.0.0")]);
        assert_eq!(ancestors_of(&version("9.0.0"), &versions), [version("9.0.0")]);
    }

    #[test]
    fn long_user_name_is_cut() {
        let tags = Provenance { who: Some("é".repeat(300)), ..provenance() }.tags();
        assert!(check_tags(&tags).is_ok());
        assert_eq!(tags[MADE_BY_TAG].chars().count(), MAX_VALUE);
    }
}
