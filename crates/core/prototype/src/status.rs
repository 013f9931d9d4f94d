//! How a pool stands: its versions, what new nodes get, what instances run, and what a person should know.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kiln_types::{
    DefinitionName, ImageDefinition, ImageSource, ImageVersion, Instance, Pool, PoolName, VersionNumber, VersionState,
};
use serde::Serialize;

use crate::back::{self, Hold};
use crate::latest::{NewNodes, made_at, new_nodes, same_definition, source_text, version_of};
use crate::provenance::Provenance;
use crate::ready_time::Span;

/// What a status is made from.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    pub pool: &'a Pool,
    /// The name of its line.
    pub definition_name: &'a DefinitionName,
    /// The line, if it exists.
    pub line: Option<&'a ImageDefinition>,
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
    /// Its line, as `gallery/definition`.
    pub line: String,
    /// Whether the line exists.
    pub definition_exists: bool,
    /// What an instance made now would get.
    pub new_nodes: NewNodes,
    /// The age of that, where it is a version.
    pub age: Option<Span>,
    /// Whether the model is as the operation left it.
    pub model: Model,
    pub hold: Option<Hold>,
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
    pub bad: bool,
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
    pub bad: bool,
}

/// Whether the model is as the operation left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename_all_fields = "camelCase")]
pub enum Model {
    /// No version of ours was ever used.
    NotYet,
    /// It names the line.
    Line,
    /// It names one version.
    Pinned { version: VersionNumber },
    /// A roll back put the original recipe back.
    Original,
    /// Somebody else set it.
    SetBack {
        /// To this.
        now: String,
        /// From this, where a journal tells.
        was: Option<String>,
    },
}

/// What `--max-age` makes of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict", rename_all_fields = "camelCase")]
pub enum AgeVerdict {
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

impl AgeVerdict {
    /// Whether what was asked for holds.
    pub fn holds(self) -> bool {
        self == Self::Fresh
    }
}

impl Status {
    /// Takes stock.
    pub fn of(sight: Sight<'_>) -> Self {
        let Sight { pool, definition_name, line, versions, instances, now, .. } = sight;
        let bad = line.map(|line| back::numbers(&line.tags)).unwrap_or_default();
        let gets = new_nodes(&pool.recipe.image, definition_name, versions, &pool.location);
        let current = match &gets {
            NewNodes::Latest(number) | NewNodes::Pinned(number) => Some(number.clone()),
            NewNodes::NothingUsable | NewNodes::Elsewhere(_) => None,
        };
        let mut rows: Vec<VersionRow> =
            versions.iter().map(|version| row(version, sight, &bad, current.as_ref())).collect();
        rows.sort_by(|a, b| b.number.cmp(&a.number));
        let age = rows.iter().find(|row| row.current).and_then(|row| row.age);
        let hold = line.and_then(|line| Hold::read(&line.tags));
        Self {
            pool: pool.name.clone(),
            region: pool.location.clone(),
            line: format!("{}/{}", definition_name.gallery, definition_name.definition),
            definition_exists: line.is_some(),
            age,
            model: model(sight, hold.as_ref()),
            hold: hold.filter(|hold| hold.blocks(jiff::tz::Offset::UTC.to_datetime(now).date())),
            versions: rows,
            runs: runs(instances, definition_name, &bad),
            new_nodes: gets,
        }
    }

    /// Whether what new nodes get is at most so old.
    pub fn max_age(&self, most: Span) -> AgeVerdict {
        match self.age {
            None => AgeVerdict::Unknown,
            Some(age) if age > most => AgeVerdict::TooOld { age, most },
            Some(_) => AgeVerdict::Fresh,
        }
    }
}

fn row(
    version: &ImageVersion,
    sight: Sight<'_>,
    bad: &BTreeSet<VersionNumber>,
    current: Option<&VersionNumber>,
) -> VersionRow {
    let runs_it = |instance: &&Instance| version_of(&instance.runs, sight.definition_name) == Some(&version.number);
    let percent = |complete: bool, percent: Option<u8>| if complete { 100 } else { percent.unwrap_or(0).min(99) };
    VersionRow {
        number: version.number.clone(),
        state: match &version.state {
            VersionState::Other(word) => word.clone(),
            known => format!("{known:?}"),
        },
        excluded: version.excluded,
        bad: bad.contains(&version.number),
        current: current == Some(&version.number),
        replication: version.regions.iter().map(|r| (r.region.clone(), percent(r.complete, r.percent))).collect(),
        age: made_at(version).map(|made| Span::between(made, sight.now)),
        instances: u32::try_from(sight.instances.iter().filter(runs_it).count()).unwrap_or(u32::MAX),
        provenance: Provenance::read(&version.tags),
    }
}

fn runs(instances: &[Instance], line: &DefinitionName, bad: &BTreeSet<VersionNumber>) -> Vec<Runs> {
    let mut counts: BTreeMap<(String, bool), u32> = BTreeMap::new();
    for instance in instances {
        let version = version_of(&instance.runs, line);
        let image = version.map_or_else(|| source_text(&instance.runs), ToString::to_string);
        *counts.entry((image, version.is_some_and(|version| bad.contains(version)))).or_default() += 1;
    }
    let mut runs: Vec<Runs> =
        counts.into_iter().map(|((image, bad), instances)| Runs { image, instances, bad }).collect();
    runs.sort_by(|a, b| b.instances.cmp(&a.instances).then_with(|| a.image.cmp(&b.image)));
    runs
}

/// A journal tells best what the model should be. Without one, a usable version of ours that the model does not name was meant to be named.
fn model(sight: Sight<'_>, hold: Option<&Hold>) -> Model {
    let image = &sight.pool.recipe.image;
    let set_back = |was| Model::SetBack { now: source_text(image), was };
    let named = match image {
        ImageSource::Definition(line) if same_definition(line, sight.definition_name) => Some(Model::Line),
        ImageSource::ExactVersion(line, version) if same_definition(line, sight.definition_name) => {
            Some(Model::Pinned { version: version.clone() })
        }
        _ => None,
    };
    if let Some(last) = sight.last_set {
        return match named {
            _ if !same_image(last, image) => set_back(Some(source_text(last))),
            Some(named) => named,
            None if hold.is_some_and(Hold::is_to_original) => Model::Original,
            None => Model::NotYet,
        };
    }
    let ours = |version: &ImageVersion| {
        version.usable_in(&sight.pool.location) && Provenance::read(&version.tags).built_from.is_some()
    };
    match named {
        Some(named) => named,
        None if hold.is_some_and(Hold::is_to_original) => Model::Original,
        None if sight.versions.iter().any(ours) => set_back(None),
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
