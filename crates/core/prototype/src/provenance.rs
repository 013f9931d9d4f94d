//! Where an image version comes from, as its tags say.

mod tags;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use kiln_types::tags::{
    ANCESTORS_TAG, BUILT_AT_TAG, BUILT_FROM_TAG, KERNEL_TAG, KUBELET_TAG, MADE_BY_RUN_TAG, MADE_BY_TAG, PACKAGES_TAG,
    RUNTIME_TAG,
};
use kiln_types::{ImageVersion, Inspection, Tags, VersionNumber};
use serde::Serialize;

pub(crate) use tags::MAX_NAME;
pub use tags::{MAX_TAGS, MAX_VALUE, check_tags, merge_tags, parse_tag, shorten};

/// How kamino writes `BuiltAt`, in UTC; and, for reading, the same with any number of decimals, or none.
const BUILT_AT_FORMAT: &str = "%Y-%m-%d %H:%M:%S.%6f";
const BUILT_AT_READ: &str = "%Y-%m-%d %H:%M:%S%.f";

/// What is known of where a version comes from. kamino's versions say the first two only, others nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    pub built_from: Option<String>,
    /// When the donor's disk was copied.
    pub built_at: Option<Timestamp>,
    pub kernel: Option<String>,
    /// Kubelet.
    pub kubelet: Option<String>,
    /// The container runtime.
    pub runtime: Option<String>,
    /// The hash of the package list.
    pub packages: Option<String>,
    /// The versions that the donor descends from, its own first.
    pub ancestors: Vec<VersionNumber>,
    /// The run that made it.
    pub run: Option<String>,
    /// Who started that run.
    pub who: Option<String>,
}

impl Provenance {
    /// What a version says that a run makes of an inspected donor. `ancestors` are the donor's own version and those before it.
    pub fn of(
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

    /// The version that the donor itself was made from.
    pub fn parent(&self) -> Option<&VersionNumber> {
        self.ancestors.first()
    }

    /// Whether kiln made it.
    pub fn is_made_by_kiln(&self) -> bool {
        self.run.is_some()
    }

    /// The tags that say so. What is too long for a tag is cut.
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

    /// Reads the tags of a version. A tag_value that cannot be read is as good as none.
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

/// A version and all that it descends from, as far as tags tell: the nearest first.
pub fn ancestors_of(version: &VersionNumber, versions: &[ImageVersion]) -> Vec<VersionNumber> {
    let mut line = vec![version.clone()];
    let mut at = 0;
    while let Some(number) = line.get(at) {
        let known = versions.iter().find(|version| version.number == *number);
        let before = known.map(|version| Provenance::read(&version.tags).ancestors).unwrap_or_default();
        line.extend(before.into_iter().filter(|number| !line.contains(number)).collect::<Vec<_>>());
        at += 1;
    }
    line
}

/// The tag_value of a tag. Names of tags have no case, and an emptied tag is as good as none.
pub fn tag_value<'a>(tags: &'a Tags, name: &str) -> Option<&'a str> {
    let exact = tags.get(name);
    let found = exact.or_else(|| tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.map(String::as_str).filter(|value| !value.is_empty())
}

/// A time as `BuiltAt` has it.
pub fn built_at_text(at: Timestamp) -> String {
    Offset::UTC.to_datetime(at).strftime(BUILT_AT_FORMAT).to_string()
}

fn read_built_at(text: &str) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(DateTime::strptime(BUILT_AT_READ, text).ok()?).ok()
}

/// As many as a tag holds, the nearest first: those of the far past are cut.
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
    fn the_tags_of_a_version_read_back_as_they_were_written() {
        assert_eq!(Provenance::read(&provenance().tags()), provenance());
        assert_eq!(provenance().parent(), Some(&version("2026.11.08")));
        assert!(provenance().is_made_by_kiln());
    }

    #[test]
    fn built_at_is_written_as_kamino_writes_it() {
        assert_eq!(provenance().tags()[BUILT_AT_TAG], "2026-11-15 21:03:04.500000");
    }

    #[test]
    fn a_version_of_kamino_says_what_kamino_says() {
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
    fn a_time_without_decimals_is_read_and_nonsense_is_none() {
        assert!(read_built_at("2021-01-20 08:15:30").is_some());
        assert_eq!(read_built_at("yesterday"), None);
        assert_eq!(Provenance::read(&Tags::from([(KERNEL_TAG.to_owned(), String::new())])), Provenance::default());
    }

    #[test]
    fn a_long_line_of_ancestors_loses_its_far_end() {
        let many: Vec<VersionNumber> = (1..=28).rev().map(|day| version(&format!("2026.02.{day:02}"))).collect();
        let tags = Provenance { ancestors: many.clone(), ..provenance() }.tags();
        assert!(check_tags(&tags).is_ok());
        let read = Provenance::read(&tags).ancestors;
        assert_eq!(read.len(), 23);
        assert_eq!(read, many[..23]);
    }

    #[test]
    fn a_line_of_descent_goes_on_where_a_tag_was_cut_and_ends_in_a_circle() {
        let with = |number: &str, ancestors: &str| ImageVersion {
            tags: Tags::from([(ANCESTORS_TAG.to_owned(), ancestors.to_owned())]),
            ..crate::sample::version(number)
        };
        let versions = [with("3.0.0", "2.0.0"), with("2.0.0", "1.0.0"), with("1.0.0", "3.0.0")];
        let line = ancestors_of(&version("3.0.0"), &versions);
        assert_eq!(line, [version("3.0.0"), version("2.0.0"), version("1.0.0")]);
        assert_eq!(ancestors_of(&version("9.0.0"), &versions), [version("9.0.0")]);
    }

    #[test]
    fn a_long_name_of_who_is_cut_and_not_refused() {
        let tags = Provenance { who: Some("é".repeat(300)), ..provenance() }.tags();
        assert!(check_tags(&tags).is_ok());
        assert_eq!(tags[MADE_BY_TAG].chars().count(), MAX_VALUE);
    }
}
