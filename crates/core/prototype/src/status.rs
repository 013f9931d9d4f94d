//! The status of a pool: its versions, the image of new nodes, and the images that instances run.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kiln_types::{
    DefinitionName, ImageDefinition, ImageSource, ImageVersion, Instance, Pool, PoolName, VersionNumber, VersionState,
};
use serde::Serialize;

use crate::latest::{NewNodes, created_at, describe_image, new_nodes, same_definition, version_of};
use crate::provenance::Provenance;
use crate::rollback::{self, Pause};
use crate::span::Span;

/// The input of [`Status::new`].
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    pub pool: &'a Pool,
    pub definition_name: &'a DefinitionName,
    pub definition: Option<&'a ImageDefinition>,
    pub versions: &'a [ImageVersion],
    pub instances: &'a [Instance],
    /// The image that the last run or rollback set in the model, according to the journal.
    pub last_set: Option<&'a ImageSource>,
    pub now: Timestamp,
}

/// The status of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub pool: PoolName,
    pub region: String,
    /// As `gallery/definition`.
    pub definition: String,
    pub definition_exists: bool,
    /// The image of a new instance.
    pub new_nodes: NewNodes,
    /// The age of that image, if it is a version.
    pub age: Option<Span>,
    pub model: Model,
    pub pause: Option<Pause>,
    /// Newest first.
    pub versions: Vec<VersionRow>,
    /// Most instances first.
    pub runs: Vec<Runs>,
}

/// A version in the status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionRow {
    pub number: VersionNumber,
    pub state: String,
    pub excluded: bool,
    pub rejected: bool,
    /// Whether new nodes get it.
    pub current: bool,
    /// Percent by region.
    pub replication: BTreeMap<String, u8>,
    /// The age of its disk.
    pub age: Option<Span>,
    pub instances: u32,
    pub provenance: Provenance,
}

/// How many instances run an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runs {
    /// A version, or another image.
    pub image: String,
    pub instances: u32,
    pub rejected: bool,
}

/// The image in the scale set's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename_all_fields = "camelCase")]
pub enum Model {
    /// No version of the definition was ever used.
    NotYet,
    Definition,
    Pinned {
        version: VersionNumber,
    },
    /// A rollback restored the original recipe.
    Original,
    /// Another program changed it.
    ChangedExternally {
        now: String,
        was: Option<String>,
    },
}

/// The result of `--max-age`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict", rename_all_fields = "camelCase")]
pub enum AgeCheck {
    Fresh,
    TooOld {
        age: Span,
        most: Span,
    },
    /// New nodes get no version, or one of unknown age.
    Unknown,
}

impl AgeCheck {
    /// Whether new nodes get a version that is recent enough.
    pub fn is_fresh(self) -> bool {
        self == Self::Fresh
    }
}

impl Status {
    /// Determines the status.
    pub fn new(input: StatusInput<'_>) -> Self {
        let StatusInput { pool, definition_name, definition, versions, instances, now, .. } = input;
        let rejected = definition.map(|definition| rollback::rejected_numbers(&definition.tags)).unwrap_or_default();
        let gets = new_nodes(&pool.recipe.image, definition_name, versions, &pool.location);
        let current = match &gets {
            NewNodes::Latest(number) | NewNodes::Pinned(number) => Some(number.clone()),
            NewNodes::NothingUsable | NewNodes::OtherImage(_) => None,
        };
        let mut rows: Vec<VersionRow> =
            versions.iter().map(|version| row(version, input, &rejected, current.as_ref())).collect();
        rows.sort_by(|a, b| b.number.cmp(&a.number));
        let age = rows.iter().find(|row| row.current).and_then(|row| row.age);
        let pause = definition.and_then(|definition| Pause::read(&definition.tags));
        Self {
            pool: pool.name.clone(),
            region: pool.location.clone(),
            definition: format!("{}/{}", definition_name.gallery, definition_name.definition),
            definition_exists: definition.is_some(),
            age,
            model: model(input, pause.as_ref()),
            pause: pause.filter(|pause| pause.is_active(jiff::tz::Offset::UTC.to_datetime(now).date())),
            versions: rows,
            runs: runs(instances, definition_name, &rejected),
            new_nodes: gets,
        }
    }

    /// Compares the age of new nodes' image with a limit.
    pub fn max_age(&self, most: Span) -> AgeCheck {
        match self.age {
            None => AgeCheck::Unknown,
            Some(age) if age > most => AgeCheck::TooOld { age, most },
            Some(_) => AgeCheck::Fresh,
        }
    }
}

fn row(
    version: &ImageVersion,
    input: StatusInput<'_>,
    rejected: &BTreeSet<VersionNumber>,
    current: Option<&VersionNumber>,
) -> VersionRow {
    let runs_it = |instance: &&Instance| version_of(&instance.runs, input.definition_name) == Some(&version.number);
    let percent = |complete: bool, percent: Option<u8>| if complete { 100 } else { percent.unwrap_or(0).min(99) };
    VersionRow {
        number: version.number.clone(),
        state: match &version.state {
            VersionState::Other(state) => state.clone(),
            known => format!("{known:?}"),
        },
        excluded: version.excluded,
        rejected: rejected.contains(&version.number),
        current: current == Some(&version.number),
        replication: version.regions.iter().map(|r| (r.region.clone(), percent(r.complete, r.percent))).collect(),
        age: created_at(version).map(|made| Span::between(made, input.now)),
        instances: u32::try_from(input.instances.iter().filter(runs_it).count()).unwrap_or(u32::MAX),
        provenance: Provenance::read(&version.tags),
    }
}

fn runs(instances: &[Instance], definition: &DefinitionName, rejected: &BTreeSet<VersionNumber>) -> Vec<Runs> {
    let mut counts: BTreeMap<(String, bool), u32> = BTreeMap::new();
    for instance in instances {
        let version = version_of(&instance.runs, definition);
        let image = version.map_or_else(|| describe_image(&instance.runs), ToString::to_string);
        *counts.entry((image, version.is_some_and(|version| rejected.contains(version)))).or_default() += 1;
    }
    let mut runs: Vec<Runs> =
        counts.into_iter().map(|((image, rejected), instances)| Runs { image, instances, rejected }).collect();
    runs.sort_by(|a, b| b.instances.cmp(&a.instances).then_with(|| a.image.cmp(&b.image)));
    runs
}

/// Whether the model is what kiln set it to. Without a journal, a usable version by kiln that the model does not name means that another
/// program changed it.
fn model(input: StatusInput<'_>, pause: Option<&Pause>) -> Model {
    let image = &input.pool.recipe.image;
    let changed = |was| Model::ChangedExternally { now: describe_image(image), was };
    let named = match image {
        ImageSource::Definition(definition) if same_definition(definition, input.definition_name) => {
            Some(Model::Definition)
        }
        ImageSource::ExactVersion(definition, version) if same_definition(definition, input.definition_name) => {
            Some(Model::Pinned { version: version.clone() })
        }
        _ => None,
    };
    if let Some(last) = input.last_set {
        return match named {
            _ if !same_image(last, image) => changed(Some(describe_image(last))),
            Some(named) => named,
            None if pause.is_some_and(Pause::is_to_original) => Model::Original,
            None => Model::NotYet,
        };
    }
    let by_kiln = |version: &ImageVersion| {
        version.usable_in(&input.pool.location) && Provenance::read(&version.tags).built_from.is_some()
    };
    match named {
        Some(named) => named,
        None if pause.is_some_and(Pause::is_to_original) => Model::Original,
        None if input.versions.iter().any(by_kiln) => changed(None),
        None => Model::NotYet,
    }
}

fn same_image(a: &ImageSource, b: &ImageSource) -> bool {
    match (a, b) {
        (ImageSource::Definition(a), ImageSource::Definition(b)) => same_definition(a, b),
        (ImageSource::ExactVersion(a, a_version), ImageSource::ExactVersion(b, b_version)) => {
            same_definition(a, b) && a_version == b_version
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
