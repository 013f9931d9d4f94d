//! The version that a new instance gets.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use kiln_types::tags::{LIVE_TAG, VERSION_TAG};
use kiln_types::{DefinitionName, ImageSource, ImageVersion, Provisioning, Snapshot, VersionNumber};
use serde::Serialize;

use crate::provenance::Provenance;

/// The version that `latest` resolves to in a region: the highest that is complete there and not excluded.
pub fn latest<'a>(versions: &'a [ImageVersion], region: &str) -> Option<&'a ImageVersion> {
    versions.iter().filter(|version| version.usable_in(region)).max_by(|a, b| a.number.cmp(&b.number))
}

/// The image that a new instance would be created from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "of")]
pub enum NewNodes {
    /// The latest version of the pool's definition.
    Latest(VersionNumber),
    /// A version that the recipe names.
    Pinned(VersionNumber),
    /// The recipe names the definition, but no version of it is usable, so that no instance can be created.
    NothingUsable,
    /// The recipe names another image.
    OtherImage(String),
}

/// Determines what new nodes get, from the recipe's image and the definition's versions.
pub fn new_nodes(
    image: &ImageSource,
    definition: &DefinitionName,
    versions: &[ImageVersion],
    region: &str,
) -> NewNodes {
    match image {
        ImageSource::Definition(named) if same_definition(named, definition) => {
            latest(versions, region).map_or(NewNodes::NothingUsable, |version| NewNodes::Latest(version.number.clone()))
        }
        ImageSource::ExactVersion(named, number) if same_definition(named, definition) => {
            NewNodes::Pinned(number.clone())
        }
        other => NewNodes::OtherImage(describe_image(other)),
    }
}

/// Compares definitions without case, as Azure does.
pub fn same_definition(a: &DefinitionName, b: &DefinitionName) -> bool {
    a.gallery.as_str().eq_ignore_ascii_case(b.gallery.as_str()) && a.definition.eq_ignore_ascii_case(&b.definition)
}

/// Whether a run can create a version from a snapshot that an earlier run of the day left. It cannot if the donor was running: whether its
/// file systems were frozen is known only to the run that created the snapshot.
pub fn is_reusable(snapshot: &Snapshot, version: &VersionNumber) -> bool {
    snapshot.provisioning == Provisioning::Succeeded
        && snapshot.tags.get(VERSION_TAG).map(String::as_str) == Some(version.as_str())
        && snapshot.tags.get(LIVE_TAG).is_none_or(String::is_empty)
}

/// The version of a definition that an image refers to.
pub fn version_of<'a>(image: &'a ImageSource, definition: &DefinitionName) -> Option<&'a VersionNumber> {
    match image {
        ImageSource::ExactVersion(named, number) if same_definition(named, definition) => Some(number),
        _ => None,
    }
}

/// Describes an image for people.
pub fn describe_image(image: &ImageSource) -> String {
    match image {
        ImageSource::Definition(definition) => format!("{}/{} (latest)", definition.gallery, definition.definition),
        ImageSource::ExactVersion(definition, number) => {
            format!("{}/{}/{number}", definition.gallery, definition.definition)
        }
        ImageSource::Marketplace(image) => {
            format!("{}:{}:{}:{}", image.publisher, image.offer, image.sku, image.version)
        }
        ImageSource::Other(id) => id.clone(),
    }
}

/// The day that a version's number encodes, if it is a date.
pub fn day_of(number: &VersionNumber) -> Option<Date> {
    let [year, month, day] = number.parts();
    Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
}

/// When a version's disk was copied: from its tags, else its creation time, else the day in its number.
pub fn created_at(version: &ImageVersion) -> Option<Timestamp> {
    let tagged = Provenance::read(&version.tags).built_at;
    let published = || version.created.as_deref().and_then(|text| text.parse().ok());
    let day = || Offset::UTC.to_timestamp(day_of(&version.number)?.at(0, 0, 0, 0)).ok();
    tagged.or_else(published).or_else(day)
}

#[cfg(test)]
mod tests {
    use kiln_types::{RegionProgress, VersionState};
    use proptest::prelude::*;

    use super::*;
    use crate::sample::{REGION, definition_name, exact, excluded, marketplace, number, tags, version};

    #[test]
    fn new_nodes_get_the_image_in_the_recipe() {
        let versions = [version("2026.11.08"), excluded("2026.11.15")];
        let of =
            |image: &ImageSource, versions: &[ImageVersion]| new_nodes(image, &definition_name(), versions, REGION);
        let definition = ImageSource::Definition(definition_name());
        assert_eq!(of(&definition, &versions), NewNodes::Latest(number("2026.11.08")));
        assert_eq!(of(&definition, &versions[1..]), NewNodes::NothingUsable);
        assert_eq!(of(&exact("2026.11.15"), &versions), NewNodes::Pinned(number("2026.11.15")));
        assert!(
            matches!(of(&marketplace(), &versions), NewNodes::OtherImage(text) if text.starts_with("microsoft-aks:"))
        );
    }

    #[test]
    fn definitions_are_compared_without_case() {
        let shouted = DefinitionName { definition: definition_name().definition.to_uppercase(), ..definition_name() };
        assert!(same_definition(&definition_name(), &shouted));
        assert_eq!(
            version_of(&ImageSource::ExactVersion(shouted, number("1.2.3")), &definition_name()),
            Some(&number("1.2.3"))
        );
    }

    #[test]
    fn version_is_as_old_as_its_disk() {
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let mut version = version("2026.11.15");
        assert_eq!(created_at(&version), at("2026-11-15T00:00:00Z"));
        version.created = Some("2026-11-15T22:00:00Z".into());
        assert_eq!(created_at(&version), at("2026-11-15T22:00:00Z"));
        version.tags = tags([("BuiltAt", "2026-11-15 20:00:00.0")]);
        assert_eq!(created_at(&version), at("2026-11-15T20:00:00Z"));
        assert_eq!(created_at(&crate::sample::version("1.0.0")), None);
    }

    fn any_version() -> impl Strategy<Value = ImageVersion> {
        let state = prop_oneof![
            4 => Just(VersionState::Succeeded),
            1 => Just(VersionState::Creating),
            1 => Just(VersionState::Failed),
        ];
        let region = (prop_oneof![Just("westus2"), Just("eastus")], any::<bool>(), any::<bool>());
        (1u32..20, state, any::<bool>(), prop::collection::vec(region, 0..3)).prop_map(|(day, state, out, regions)| {
            let region = |(name, excluded, complete): (&str, bool, bool)| RegionProgress {
                region: name.into(),
                excluded,
                percent: None,
                complete,
            };
            let regions = regions.into_iter().map(region).collect();
            ImageVersion { state, excluded: out, regions, ..version(&format!("2026.11.{day:02}")) }
        })
    }

    proptest! {
        #[test]
        fn latest_is_the_highest_usable_version(versions in prop::collection::vec(any_version(), 0..8)) {
            let mut oracle = None;
            'days: for day in (1..20).rev() {
                for version in versions.iter().filter(|version| version.number.parts()[2] == day) {
                    let there = version.regions.iter().any(|r| r.region == "westus2" && r.complete && !r.excluded);
                    if there && !version.excluded && version.state == VersionState::Succeeded {
                        oracle = Some(day);
                        break 'days;
                    }
                }
            }
            prop_assert_eq!(latest(&versions, REGION).map(|version| version.number.parts()[2]), oracle);
        }
    }
}
