//! What a roll back writes, in order.
//!
//! The marks on the line come first: they are the journal of a roll back. One that was cut off is found by them and finished, and asking
//! twice does not go back twice. Then the switch: one write after which new nodes get another version.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use kiln_types::{ImageDefinition, ImageVersion, Instance, Pool, RegionProgress, Tags, VersionNumber, VersionState};

use super::bad::{self, BadVersion};
use super::error::BackError;
use super::hold::Hold;
use super::patch::Fingerprint;
use super::writes::{Back, RecipeTo, Running, Write};
use crate::latest::{NewNodes, new_nodes, version_of};
use crate::provenance::Provenance;

/// Where to go back to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum To {
    /// The usable version before the one that new nodes get now.
    #[default]
    Previous,
    /// This version; all newer ones are out.
    Version(VersionNumber),
    /// The recipe that the pool had before the first run.
    Original,
}

/// What a person asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Where to.
    pub to: To,
    /// Whether the bad versions go for good.
    pub delete: bool,
    pub reason: String,
    /// The day from which automatic runs go on.
    pub after: Option<Date>,
    /// Who asks.
    pub who: String,
    pub at: Timestamp,
}

/// What the decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub pool: &'a Pool,
    pub line: &'a ImageDefinition,
    pub versions: &'a [ImageVersion],
    pub instances: &'a [Instance],
    /// Whether the original recipe was saved.
    pub original_saved: bool,
}

/// Decides a roll back.
pub fn decide(ask: &Ask, place: Place<'_>) -> Result<Back, BackError> {
    let Place { pool, line, versions, .. } = place;
    let region = pool.location.as_str();
    let pool_name = || pool.name.to_string();
    let now = new_nodes(&pool.recipe.image, &line.name, versions, region);
    let earlier = Hold::read(&line.tags);
    let (served, pinned) = match now {
        NewNodes::Latest(version) => (Some(version), false),
        NewNodes::Pinned(version) => (Some(version), true),
        NewNodes::NothingUsable => (None, false),
        NewNodes::Elsewhere(_) if ask.to == To::Original && earlier.as_ref().is_some_and(Hold::is_to_original) => {
            return finish_original(ask, place);
        }
        NewNodes::Elsewhere(from) => return Err(BackError::Elsewhere { pool: pool_name(), from }),
    };
    let known_bad = bad::numbers(&line.tags);
    let usable = |version: &&ImageVersion| version.usable_in(region);
    let mut cut_off = still_usable(&known_bad, place);
    cut_off.extend(served.iter().filter(|served| pinned && known_bad.contains(served)).cloned());

    let mut marks = Tags::new();
    let (bad, target): (BTreeSet<VersionNumber>, Target<'_>) = match &ask.to {
        To::Previous => {
            // A hold that ended by itself is no roll back in force: this is about a newer version.
            let today = Offset::UTC.to_datetime(ask.at).date();
            let bad = match (earlier.filter(|hold| hold.blocks(today)), &served) {
                (Some(hold), _) if cut_off.is_empty() => {
                    return Err(BackError::AlreadyBack { hold: hold.to_string() });
                }
                (Some(_), _) => cut_off,
                (None, Some(served)) => BTreeSet::from([served.clone()]),
                (None, None) => BTreeSet::new(),
            };
            let lowest = bad.first();
            let before = versions.iter().filter(usable).filter(|version| {
                lowest.is_none_or(|lowest| version.number < *lowest) && !known_bad.contains(&version.number)
            });
            let target = before.max_by(|a, b| a.number.cmp(&b.number)).ok_or_else(|| BackError::NothingLeft {
                pool: pool_name(),
                bad: lowest.map_or_else(|| "none".to_owned(), ToString::to_string),
            })?;
            (bad, Target::Version(target))
        }
        To::Version(asked) => {
            let target = find(asked, versions, region)?;
            let newer: BTreeSet<VersionNumber> = versions
                .iter()
                .filter(usable)
                .map(|version| &version.number)
                .chain(&served)
                .filter(|number| *number > asked)
                .cloned()
                .collect();
            if newer.is_empty() && served.as_ref() == Some(asked) {
                return Err(BackError::AlreadyThere(asked.to_string()));
            }
            marks.extend(bad::forget(&line.tags, asked));
            (newer, Target::Version(target))
        }
        To::Original if !place.original_saved => return Err(BackError::NoOriginal { pool: pool_name() }),
        To::Original => (served.iter().cloned().collect(), Target::Original),
    };

    if ask.delete {
        refuse_used(&bad, place)?;
    }
    let then = match target {
        Target::Version(version) => version.number.to_string(),
        Target::Original => "original".to_owned(),
    };
    let hold = hold(ask, &then);
    let mut known = line.tags.clone();
    known.extend(marks.clone());
    marks.extend(bad::remember(&known, &described(&bad, target, versions)));
    marks.extend(hold.tags());
    Ok(Back {
        writes: writes(marks, &bad, target, pinned, ask.delete, versions),
        running: running(&bad, place),
        bad: bad.into_iter().collect(),
        then,
        hold,
    })
}

/// The recipe is back already; what it was taken back from may still be usable.
fn finish_original(ask: &Ask, place: Place<'_>) -> Result<Back, BackError> {
    let bad = still_usable(&bad::numbers(&place.line.tags), place);
    if bad.is_empty() {
        return Err(BackError::AlreadyThere("the original recipe".to_owned()));
    }
    if ask.delete {
        refuse_used(&bad, place)?;
    }
    let then = "original".to_owned();
    let hold = hold(ask, &then);
    let mut writes = writes(hold.tags(), &bad, Target::Original, false, ask.delete, place.versions);
    writes.retain(|write| !matches!(write, Write::Recipe(_)));
    Ok(Back { writes, running: running(&bad, place), bad: bad.into_iter().collect(), then, hold })
}

fn hold(ask: &Ask, then: &str) -> Hold {
    Hold {
        since: Some(ask.at),
        after: ask.after,
        to: Some(then.to_owned()),
        who: Some(ask.who.clone()),
        reason: ask.reason.clone(),
    }
}

/// Bad versions that a roll back did not come to exclude.
fn still_usable(bad: &BTreeSet<VersionNumber>, place: Place<'_>) -> BTreeSet<VersionNumber> {
    let usable = place.versions.iter().filter(|version| version.usable_in(&place.pool.location));
    usable.map(|version| version.number.clone()).filter(|number| bad.contains(number)).collect()
}

#[derive(Clone, Copy)]
enum Target<'a> {
    Version(&'a ImageVersion),
    Original,
}

fn writes(
    marks: Tags,
    bad: &BTreeSet<VersionNumber>,
    target: Target<'_>,
    pinned: bool,
    delete: bool,
    versions: &[ImageVersion],
) -> Vec<Write> {
    let mut writes = vec![Write::Mark(marks)];
    match target {
        Target::Version(version) => {
            // Before anything goes: there is never nothing.
            if version.excluded || version.regions.iter().any(|region| region.excluded) {
                writes.push(Write::Include(version.number.clone()));
            }
            if pinned {
                writes.push(Write::Recipe(RecipeTo::Version(version.number.clone())));
            }
        }
        Target::Original => writes.push(Write::Recipe(RecipeTo::Original)),
    }
    let exists = |number: &&VersionNumber| versions.iter().any(|v| v.number == **number && !v.excluded);
    // The highest first: it is the one that new nodes get until it is out.
    writes.extend(bad.iter().rev().filter(exists).cloned().map(Write::Exclude));
    if delete {
        writes.extend(bad.iter().rev().cloned().map(Write::Delete));
    }
    writes
}

fn find<'a>(asked: &VersionNumber, versions: &'a [ImageVersion], region: &str) -> Result<&'a ImageVersion, BackError> {
    let Some(version) = versions.iter().find(|version| version.number == *asked) else {
        let mut existing: Vec<&VersionNumber> = versions.iter().map(|version| &version.number).collect();
        existing.sort();
        let existing = match existing.as_slice() {
            [] => "none".to_owned(),
            some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        return Err(BackError::NoSuchVersion { asked: asked.clone(), existing });
    };
    let unusable =
        |why: &str| Err(BackError::Unusable { asked: asked.clone(), region: region.to_owned(), why: why.to_owned() });
    // Whether it were usable if nobody had excluded it.
    let regions = version.regions.iter().map(|r| RegionProgress { excluded: false, ..r.clone() }).collect();
    match version.state {
        VersionState::Succeeded => {
            let included = ImageVersion { excluded: false, regions, ..version.clone() };
            if included.usable_in(region) { Ok(version) } else { unusable("it is not copied there") }
        }
        VersionState::Failed => unusable("it failed"),
        _ => unusable("it is not finished"),
    }
}

/// What each bad version brought, compared with what new nodes go back to.
fn described(bad: &BTreeSet<VersionNumber>, target: Target<'_>, versions: &[ImageVersion]) -> Vec<BadVersion> {
    let print = |version: &ImageVersion| Fingerprint::of(&Provenance::read(&version.tags));
    let before = match target {
        Target::Version(version) => Some(print(version)),
        Target::Original => None,
    };
    bad.iter()
        .map(|number| {
            let own = versions.iter().find(|version| version.number == *number).map(print).unwrap_or_default();
            BadVersion { number: number.clone(), brought: own.brought(before.as_ref()) }
        })
        .collect()
}

fn running(bad: &BTreeSet<VersionNumber>, place: Place<'_>) -> Vec<Running> {
    let runs = place.instances.iter().filter_map(|instance| {
        let version = version_of(&instance.runs, &place.line.name).filter(|version| bad.contains(version))?;
        Some(Running { instance: instance.id.clone(), node: instance.node_name.clone(), version: version.clone() })
    });
    let mut runs: Vec<Running> = runs.collect();
    runs.sort_by(|a, b| a.node.cmp(&b.node));
    runs
}

fn refuse_used(bad: &BTreeSet<VersionNumber>, place: Place<'_>) -> Result<(), BackError> {
    let users = running(bad, place);
    let Some(version) = users.first().map(|user| user.version.clone()) else { return Ok(()) };
    let nodes: Vec<&str> = users.iter().filter(|user| user.version == version).map(|user| user.node.as_str()).collect();
    Err(BackError::InUse { version, nodes: nodes.join(", ") })
}

#[cfg(test)]
mod tests;
