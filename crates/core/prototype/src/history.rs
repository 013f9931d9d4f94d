//! Which versions to keep, and how many replicas to create.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use kiln_types::{DefinitionName, ImageSource, ImageVersion, Instance, Pool, VersionNumber, VersionState};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::latest::{latest, same_definition, version_of};

/// Instances that can be created from one replica at the same time, as Azure recommends.
pub const NODES_PER_REPLICA: u32 = 600;
/// Replicas for the smallest pool: more than needed, so that the loss of one does not matter.
pub const MIN_REPLICAS: u32 = 3;
/// Azure's limit of replicas per region.
pub const MAX_REPLICAS: u32 = 100;

/// How many usable versions to keep, at least 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct MaxHistory(u32);

impl MaxHistory {
    /// Checks the number: the current version and the previous one are always kept.
    pub fn new(count: u32) -> Result<Self, Error> {
        if count >= 2 { Ok(Self(count)) } else { Err(Error::History(count.to_string())) }
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for MaxHistory {
    fn default() -> Self {
        Self(3)
    }
}

impl TryFrom<u32> for MaxHistory {
    type Error = Error;

    fn try_from(count: u32) -> Result<Self, Error> {
        Self::new(count)
    }
}

impl From<MaxHistory> for u32 {
    fn from(history: MaxHistory) -> Self {
        history.0
    }
}

impl FromStr for MaxHistory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map_err(|_| Error::History(text.to_owned())).and_then(Self::new)
    }
}

/// The number of replicas for a pool of this size, unless the user set one.
pub fn replicas(nodes: u32, requested: Option<u32>) -> u32 {
    let needed = nodes.div_ceil(NODES_PER_REPLICA).max(MIN_REPLICAS);
    requested.unwrap_or(needed).clamp(1, MAX_REPLICAS)
}

/// The versions of a definition that recipes (by number or as `latest`) or instances use.
pub fn used<'a>(
    pools: impl IntoIterator<Item = &'a Pool>,
    instances: impl IntoIterator<Item = &'a Instance>,
    definition: &DefinitionName,
    versions: &[ImageVersion],
) -> BTreeSet<VersionNumber> {
    let mut used: BTreeSet<VersionNumber> =
        instances.into_iter().filter_map(|instance| version_of(&instance.runs, definition)).cloned().collect();
    for pool in pools {
        used.extend(version_of(&pool.recipe.image, definition).cloned());
        if matches!(&pool.recipe.image, ImageSource::Definition(named) if same_definition(named, definition)) {
            used.extend(latest(versions, &pool.location).map(|version| version.number.clone()));
        }
    }
    used
}

/// Why a version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeepReason {
    /// It is one of the newest usable versions.
    History,
    Used,
    Today,
    /// It is excluded and newer than a version that is kept, so that its failure can be analysed.
    Excluded,
    /// It is being created, changed or deleted.
    Unfinished,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::History => "within the history",
            Self::Used => "in use by a recipe or an instance",
            Self::Today => "today's version",
            Self::Excluded => "excluded, and newer than a version that is kept",
            Self::Unfinished => "being changed",
        })
    }
}

/// The result of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// Beyond the history, oldest first.
    pub delete: Vec<VersionNumber>,
    /// Failed versions, oldest first.
    pub failed: Vec<VersionNumber>,
    pub kept: Vec<(VersionNumber, KeepReason)>,
}

/// Decides which versions of a definition to delete. Only usable versions count, so that excluded ones never displace the last good one.
pub fn prune(
    versions: &[ImageVersion],
    history: MaxHistory,
    used: &BTreeSet<VersionNumber>,
    today: &VersionNumber,
) -> Prune {
    let mut sorted: Vec<&ImageVersion> = versions.iter().collect();
    sorted.sort_by(|a, b| a.number.cmp(&b.number));
    let usable: Vec<&VersionNumber> = sorted.iter().filter(|v| is_usable(v)).map(|v| &v.number).collect();
    let oldest_kept = usable.len().checked_sub(history.0 as usize).map(|at| usable[at]);

    let mut result = Prune::default();
    for version in sorted {
        let number = &version.number;
        let beyond = oldest_kept.is_some_and(|oldest| number < oldest);
        let kept = match version.state {
            VersionState::Failed if !used.contains(number) => {
                result.failed.push(number.clone());
                continue;
            }
            _ if used.contains(number) => KeepReason::Used,
            _ if number == today => KeepReason::Today,
            VersionState::Succeeded if beyond => {
                result.delete.push(number.clone());
                continue;
            }
            VersionState::Succeeded if is_usable(version) => KeepReason::History,
            VersionState::Succeeded => KeepReason::Excluded,
            _ => KeepReason::Unfinished,
        };
        result.kept.push((number.clone(), kept));
    }
    result
}

/// Whether `latest` could resolve to it in any region.
fn is_usable(version: &ImageVersion) -> bool {
    version.regions.iter().any(|region| version.usable_in(&region.region))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sample::{REGION, definition_name, exact, excluded, instance, marketplace, number, pool, version};

    const TODAY: &str = "2026.11.15";

    fn prune_of(versions: &[ImageVersion], used: &[&str]) -> Prune {
        let used = used.iter().map(|text| number(text)).collect();
        prune(versions, MaxHistory::default(), &used, &number(TODAY))
    }

    fn texts(numbers: &[VersionNumber]) -> Vec<&str> {
        numbers.iter().map(VersionNumber::as_str).collect()
    }

    #[test]
    fn default_history_is_three_and_fewer_than_two_is_rejected() {
        assert_eq!(MaxHistory::default().get(), 3);
        assert!("1".parse::<MaxHistory>().unwrap_err().to_string().contains("at least 2"));
        assert_eq!("5".parse::<MaxHistory>().unwrap().get(), 5);
        assert!("x".parse::<MaxHistory>().is_err());
    }

    #[test]
    fn versions_beyond_the_history_are_deleted_oldest_first() {
        let all = ["2026.11.10", "2026.9.30", "2026.11.12", "2026.11.14", TODAY].map(version);
        assert_eq!(texts(&prune_of(&all, &[]).delete), ["2026.9.30", "2026.11.10"]);
    }

    #[test]
    fn used_version_is_kept_without_extending_the_history() {
        let all = ["2026.11.10", "2026.11.11", "2026.11.12", "2026.11.14", TODAY].map(version);
        let pruned = prune_of(&all, &["2026.11.10"]);
        assert_eq!(texts(&pruned.delete), ["2026.11.11"]);
        assert!(pruned.kept.contains(&(number("2026.11.10"), KeepReason::Used)));
    }

    #[test]
    fn excluded_versions_do_not_displace_usable_ones() {
        let all = [
            version("2026.11.01"),
            version("2026.11.02"),
            version("2026.11.03"),
            excluded("2026.11.10"),
            excluded("2026.11.11"),
            excluded("2026.11.12"),
        ];
        let pruned = prune_of(&all, &[]);
        assert!(pruned.delete.is_empty(), "{pruned:?}");
        assert_eq!(pruned.kept[5].1, KeepReason::Excluded);
    }

    #[test]
    fn excluded_version_older_than_the_history_is_deleted() {
        let all = [excluded("2026.11.01"), version("2026.11.02"), version("2026.11.03"), version(TODAY)];
        assert_eq!(texts(&prune_of(&all, &[]).delete), ["2026.11.01"]);
    }

    #[test]
    fn failed_versions_are_listed_separately_and_unfinished_ones_kept() {
        let mut all = ["2026.11.01", "2026.11.02"].map(version);
        all[0].state = VersionState::Failed;
        all[1].state = VersionState::Creating;
        let pruned = prune_of(&all, &[]);
        assert_eq!((texts(&pruned.failed), pruned.delete.len()), (vec!["2026.11.01"], 0));
        assert_eq!(pruned.kept, [(number("2026.11.02"), KeepReason::Unfinished)]);
    }

    #[test]
    fn versions_in_recipes_and_instances_are_in_use() {
        let versions = ["2026.11.01", "2026.11.08", TODAY].map(version);
        let with = |image| {
            let mut pool = pool();
            pool.recipe.image = image;
            used(
                [&pool],
                &[instance(0, exact("2026.11.01")), instance(1, marketplace())],
                &definition_name(),
                &versions,
            )
        };
        assert_eq!(with(marketplace()), BTreeSet::from([number("2026.11.01")]));
        assert_eq!(with(exact("2026.11.08")), BTreeSet::from([number("2026.11.01"), number("2026.11.08")]));
        let latest = with(ImageSource::Definition(definition_name()));
        assert_eq!(latest, BTreeSet::from([number("2026.11.01"), number(TODAY)]));
    }

    #[test]
    fn replicas_are_one_per_600_nodes_and_at_least_three() {
        assert_eq!((replicas(1, None), replicas(1800, None), replicas(1801, None)), (3, 3, 4));
        assert_eq!((replicas(10, Some(5)), replicas(10, Some(0)), replicas(100_000, None)), (5, 1, 100));
    }

    proptest! {
        #[test]
        fn pruning_keeps_used_versions_todays_and_the_newest_usable(
            days in prop::collection::btree_map(1u32..28, (0u8..4, any::<bool>(), any::<bool>()), 0..14),
            history in 2u32..5,
        ) {
            let mut used = BTreeSet::new();
            let mut all = Vec::new();
            for (day, (state, out, in_use)) in days {
                let mut version = version(&format!("2026.11.{day:02}"));
                version.excluded = out;
                version.state = match state { 0 => VersionState::Failed, 1 => VersionState::Creating, _ => VersionState::Succeeded };
                if in_use {
                    used.insert(version.number.clone());
                }
                all.push(version);
            }
            let pruned = prune(&all, MaxHistory::new(history).unwrap(), &used, &number(TODAY));
            let gone: BTreeSet<&VersionNumber> = pruned.delete.iter().chain(&pruned.failed).collect();
            prop_assert!(used.iter().all(|number| !gone.contains(number)));
            prop_assert!(!pruned.delete.contains(&number(TODAY)));
            if let Some(newest) = latest(&all, REGION) {
                prop_assert!(!gone.contains(&newest.number));
            }
            let left = all.iter().filter(|v| v.usable_in(REGION) && !gone.contains(&v.number)).count();
            let were = all.iter().filter(|v| v.usable_in(REGION)).count();
            prop_assert!(left >= were.min(history as usize));
            prop_assert_eq!(gone.len() + pruned.kept.len(), all.len());
        }
    }
}
