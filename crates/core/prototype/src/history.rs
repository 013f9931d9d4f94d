//! Which versions stay, and in how many copies.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use kiln_types::{DefinitionName, ImageSource, ImageVersion, Instance, Pool, VersionNumber, VersionState};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::latest::{latest, same_definition, version_of};

/// Instances that one copy serves when they are made at the same time, as Azure advises.
pub const NODES_PER_REPLICA: u32 = 600;
/// Copies of a version of the smallest pool: one more than it needs, so that losing or filling one is not felt.
pub const MIN_REPLICAS: u32 = 3;
/// Copies that Azure keeps of a version in one region.
pub const MAX_REPLICAS: u32 = 100;

/// How many usable versions stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct MaxHistory(u32);

impl MaxHistory {
    /// At least two: the current one and the one before.
    pub fn new(count: u32) -> Result<Self, Error> {
        if count >= 2 { Ok(Self(count)) } else { Err(Error::History(count.to_string())) }
    }

    /// The number.
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

/// Copies of a version for a pool that is to have so many nodes, unless a person said how many.
pub fn replicas(nodes: u32, asked: Option<u32>) -> u32 {
    let needed = nodes.div_ceil(NODES_PER_REPLICA).max(MIN_REPLICAS);
    asked.unwrap_or(needed).clamp(1, MAX_REPLICAS)
}

/// The versions of a definition that somebody uses: recipes by name or by `latest`, and instances.
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

/// Why a version stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeepReason {
    /// It is among the newest usable ones.
    History,
    /// A recipe or an instance uses it.
    Used,
    /// It is the version of this run's day.
    Today,
    /// It is excluded, and newer than a version that stays: somebody may look into it.
    Excluded,
    /// It is on its way.
    Unfinished,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::History => "within the history",
            Self::Used => "in use by a recipe or an instance",
            Self::Today => "of this run's day",
            Self::Excluded => "excluded, and newer than a version that stays",
            Self::Unfinished => "being written",
        })
    }
}

/// What pruning does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// Versions beyond the history, oldest first.
    pub delete: Vec<VersionNumber>,
    /// Versions that failed and block their names, oldest first.
    pub failed: Vec<VersionNumber>,
    /// The others, and why each stays.
    pub kept: Vec<(VersionNumber, KeepReason)>,
}

/// What to delete of a definition. Usable versions alone count, so that a history of bad ones never drives out the last good one.
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

/// Whether some region's `latest` could be it.
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
    fn three_stay_by_default_and_fewer_than_two_are_refused() {
        assert_eq!(MaxHistory::default().get(), 3);
        assert!("1".parse::<MaxHistory>().unwrap_err().to_string().contains("at least 2"));
        assert_eq!("5".parse::<MaxHistory>().unwrap().get(), 5);
        assert!("x".parse::<MaxHistory>().is_err());
    }

    #[test]
    fn the_oldest_beyond_the_history_go_oldest_first() {
        let all = ["2026.11.10", "2026.9.30", "2026.11.12", "2026.11.14", TODAY].map(version);
        assert_eq!(texts(&prune_of(&all, &[]).delete), ["2026.9.30", "2026.11.10"]);
    }

    #[test]
    fn a_used_version_stays_and_does_not_save_another() {
        let all = ["2026.11.10", "2026.11.11", "2026.11.12", "2026.11.14", TODAY].map(version);
        let pruned = prune_of(&all, &["2026.11.10"]);
        assert_eq!(texts(&pruned.delete), ["2026.11.11"]);
        assert!(pruned.kept.contains(&(number("2026.11.10"), KeepReason::Used)));
    }

    #[test]
    fn bad_versions_do_not_drive_out_good_ones() {
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
    fn an_excluded_version_older_than_the_history_goes() {
        let all = [excluded("2026.11.01"), version("2026.11.02"), version("2026.11.03"), version(TODAY)];
        assert_eq!(texts(&prune_of(&all, &[]).delete), ["2026.11.01"]);
    }

    #[test]
    fn failed_versions_are_told_apart_and_unfinished_ones_left_alone() {
        let mut all = ["2026.11.01", "2026.11.02"].map(version);
        all[0].state = VersionState::Failed;
        all[1].state = VersionState::Creating;
        let pruned = prune_of(&all, &[]);
        assert_eq!((texts(&pruned.failed), pruned.delete.len()), (vec!["2026.11.01"], 0));
        assert_eq!(pruned.kept, [(number("2026.11.02"), KeepReason::Unfinished)]);
    }

    #[test]
    fn recipes_use_what_they_name_and_instances_what_they_run() {
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
    fn one_copy_serves_600_nodes_and_three_are_the_least() {
        assert_eq!((replicas(1, None), replicas(1800, None), replicas(1801, None)), (3, 3, 4));
        assert_eq!((replicas(10, Some(5)), replicas(10, Some(0)), replicas(100_000, None)), (5, 1, 100));
    }

    proptest! {
        #[test]
        fn pruning_takes_nothing_used_nothing_of_today_and_leaves_the_newest_usable(
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
