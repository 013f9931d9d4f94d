//! How a pool stands: its versions, what new nodes get, what instances run, and what a person should know.

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

/// What a status is made from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    pub pool: &'a Pool,
    /// The name of its definition.
    pub definition_name: &'a DefinitionName,
    /// The definition, if it exists.
    pub definition: Option<&'a ImageDefinition>,
    pub versions: &'a [ImageVersion],
    pub instances: &'a [Instance],
    /// What the last run, or the last roll back, pointed the model at, where a journal tells.
    pub last_set: Option<&'a ImageSource>,
    /// Now.
    pub now: Timestamp,
}

/// How a pool stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub pool: PoolName,
    pub region: String,
    /// Its definition, as `gallery/definition`.
    pub definition: String,
    /// Whether the definition exists.
    pub definition_exists: bool,
    /// What an instance made now would get.
    pub new_nodes: NewNodes,
    /// The age of that, where it is a version.
    pub age: Option<Span>,
    /// Whether the model is as the operation left it.
    pub model: Model,
    pub pause: Option<Pause>,
    /// The versions, newest first.
    pub versions: Vec<VersionRow>,
    /// What instances run, most first.
    pub runs: Vec<Runs>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionRow {
    pub number: VersionNumber,
    /// How far it is, in a word.
    pub state: String,
    /// Whether it is kept out of what `latest` means.
    pub excluded: bool,
    /// Whether it was taken back.
    pub rejected: bool,
    /// Whether new nodes get it now.
    pub current: bool,
    /// How much of it is copied, by region, in percent.
    pub replication: BTreeMap<String, u8>,
    /// How old its disk is.
    pub age: Option<Span>,
    /// How many instances run it.
    pub instances: u32,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// How many instances run an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runs {
    /// A version's number, or another image.
    pub image: String,
    pub instances: u32,
    /// Whether it was taken back.
    pub rejected: bool,
}

/// Whether the model is as the operation left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename_all_fields = "camelCase")]
pub enum Model {
    /// No version of ours was ever used.
    NotYet,
    /// It names the definition.
    Definition,
    /// It names one version.
    Pinned { version: VersionNumber },
    /// A roll back put the original recipe back.
    Original,
    /// Somebody else set it.
    ChangedExternally {
        /// To this.
        now: String,
        /// From this, where a journal tells.
        was: Option<String>,
    },
}

/// What `--max-age` makes of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict", rename_all_fields = "camelCase")]
pub enum AgeCheck {
    /// New nodes get a version that is young enough.
    Fresh,
    /// They get one that is not.
    TooOld {
        age: Span,
        /// What was asked for.
        most: Span,
    },
    /// They get no version of ours, or one whose age nobody knows.
    Unknown,
}

impl AgeCheck {
    /// Whether what was asked for holds.
    pub fn is_fresh(self) -> bool {
        self == Self::Fresh
    }
}

impl Status {
    /// Takes stock.
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

    /// Whether what new nodes get is at most so old.
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
            VersionState::Other(word) => word.clone(),
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

/// A journal tells best what the model should be. Without one, a usable version of ours that the model does not name was meant to be named.
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
    let ours = |version: &ImageVersion| {
        version.usable_in(&input.pool.location) && Provenance::read(&version.tags).built_from.is_some()
    };
    match named {
        Some(named) => named,
        None if pause.is_some_and(Pause::is_to_original) => Model::Original,
        None if input.versions.iter().any(ours) => changed(None),
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
