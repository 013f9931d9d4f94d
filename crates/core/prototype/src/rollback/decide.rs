//! Plans a rollback: its writes, in order.
//!
//! The tags on the image definition come first: they are the journal of a rollback. An interrupted rollback is found by them and
//! completed, and repeating a rollback does not go back twice. Then comes the switch: the write after which new nodes get another version.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use kiln_types::{
    ImageDefinition, ImageVersion, Instance, Pool, ProtectedSettings, RegionProgress, Tags, VersionNumber, VersionState,
};

use super::patch::Fingerprint;
use super::pause::Pause;
use super::plan::{AffectedInstance, RecipeTarget, RollbackPlan, RollbackWrite};
use super::rejected::{RejectedVersion, reject, rejected_numbers, unreject};
use crate::Error;
use crate::latest::{NewNodes, new_nodes, version_of};
use crate::provenance::Provenance;

/// The target of a rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The last usable version before the current one.
    #[default]
    Previous,
    /// This version; all newer ones are rejected.
    Version(VersionNumber),
    /// The original recipe.
    Original,
}

/// A rollback, as the user requested it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackRequest {
    pub to: RollbackTarget,
    /// Whether to delete the rejected versions.
    pub delete: bool,
    pub reason: String,
    /// The day on which automatic runs start again.
    pub after: Option<Date>,
    pub who: String,
    pub at: Timestamp,
    /// For the extensions of the original recipe.
    pub protected_settings: ProtectedSettings,
}

/// The state of the pool.
#[derive(Debug, Clone, Copy)]
pub struct RollbackInput<'a> {
    pub pool: &'a Pool,
    pub definition: &'a ImageDefinition,
    pub versions: &'a [ImageVersion],
    pub instances: &'a [Instance],
    pub original_saved: bool,
    /// The version that an open run would include. A rollback cancels the run.
    pub open_run: Option<&'a VersionNumber>,
}

/// Plans a rollback.
pub fn plan_rollback(request: &RollbackRequest, input: RollbackInput<'_>) -> Result<RollbackPlan, Error> {
    let RollbackInput { pool, definition, versions, .. } = input;
    let region = pool.location.as_str();
    let pool_name = || pool.name.to_string();
    let now = new_nodes(&pool.recipe.image, &definition.name, versions, region);
    let earlier = Pause::read(&definition.tags);
    let (served, pinned) = match now {
        NewNodes::Latest(version) => (Some(version), false),
        NewNodes::Pinned(version) => (Some(version), true),
        NewNodes::NothingUsable => (None, false),
        NewNodes::OtherImage(_)
            if request.to == RollbackTarget::Original && earlier.as_ref().is_some_and(Pause::is_to_original) =>
        {
            return finish_original(request, input);
        }
        NewNodes::OtherImage(image) => {
            return match (input.open_run, &request.to) {
                (Some(version), RollbackTarget::Previous | RollbackTarget::Original) => {
                    before_the_switch(request, input, version, image)
                }
                _ => Err(Error::OtherImage { pool: pool_name(), image }),
            };
        }
    };
    let known = rejected_numbers(&definition.tags);
    let usable = |version: &&ImageVersion| version.usable_in(region);
    let mut interrupted = still_usable(&known, input);
    interrupted.extend(served.iter().filter(|served| pinned && known.contains(served)).cloned());

    // The run of a pinned pool includes its version before it points the recipe at it. A version that stayed included would be used by the
    // next run.
    let mut current = still_usable(&input.open_run.into_iter().cloned().collect(), input);
    current.extend(served.clone());

    let mut marks = Tags::new();
    let (rejected, target): (BTreeSet<VersionNumber>, Target<'_>) = match &request.to {
        RollbackTarget::Previous => {
            // A pause that has ended belongs to an earlier rollback; this one is about a newer version.
            let today = Offset::UTC.to_datetime(request.at).date();
            let rejected = match earlier.filter(|pause| pause.is_active(today)) {
                Some(pause) if interrupted.is_empty() => {
                    return Err(Error::AlreadyRolledBack { pause: pause.to_string() });
                }
                Some(_) => interrupted,
                None => current,
            };
            let lowest = rejected.first();
            let before = versions.iter().filter(usable).filter(|version| {
                lowest.is_none_or(|lowest| version.number < *lowest) && !known.contains(&version.number)
            });
            let target = before.max_by(|a, b| a.number.cmp(&b.number)).ok_or_else(|| Error::NothingLeft {
                pool: pool_name(),
                rejected: lowest.map_or_else(|| "none".to_owned(), ToString::to_string),
            })?;
            (rejected, Target::Version(target))
        }
        RollbackTarget::Version(requested) => {
            let target = find(requested, versions, region)?;
            let newer: BTreeSet<VersionNumber> = versions
                .iter()
                .filter(usable)
                .map(|version| &version.number)
                .chain(&served)
                .filter(|number| *number > requested)
                .cloned()
                .collect();
            if newer.is_empty() && served.as_ref() == Some(requested) {
                return Err(Error::AlreadyThere(requested.to_string()));
            }
            marks.extend(unreject(&definition.tags, requested));
            (newer, Target::Version(target))
        }
        RollbackTarget::Original if !input.original_saved => return Err(Error::NoOriginal { pool: pool_name() }),
        // An earlier attempt excluded the rejected version and failed to restore the recipe: the version that new nodes get meanwhile is
        // not to be rejected.
        RollbackTarget::Original
            if earlier.as_ref().is_some_and(Pause::is_to_original)
                && served.as_ref().is_some_and(|served| known.last().is_some_and(|rejected| rejected > served)) =>
        {
            (interrupted, Target::Original)
        }
        RollbackTarget::Original => (current, Target::Original),
    };

    if request.delete {
        refuse_used(&rejected, input)?;
    }
    let new_nodes_get = match target {
        Target::Version(version) => version.number.to_string(),
        Target::Original => "original".to_owned(),
    };
    let pause = pause(request, &new_nodes_get);
    let mut tags = definition.tags.clone();
    tags.extend(marks.clone());
    marks.extend(reject(&tags, &described(&rejected, target, versions)));
    marks.extend(pause.tags());
    Ok(RollbackPlan {
        writes: writes(marks, &rejected, target, pinned, request.delete, versions),
        affected: affected(&rejected, input),
        rejected: rejected.into_iter().collect(),
        new_nodes_get,
        pause: Some(pause),
    })
}

/// During a first run, before the recipe names the image definition: new nodes keep their image. The run's version must not stay included,
/// or the next run would find it and use it.
fn before_the_switch(
    request: &RollbackRequest,
    input: RollbackInput<'_>,
    version: &VersionNumber,
    image: String,
) -> Result<RollbackPlan, Error> {
    let rejected = still_usable(&BTreeSet::from([version.clone()]), input);
    if request.delete {
        refuse_used(&rejected, input)?;
    }
    let pause = Pause { to: None, ..pause(request, "") };
    let mut marks = reject(&input.definition.tags, &described(&rejected, Target::Original, input.versions));
    marks.extend(pause.tags());
    let mut writes = writes(marks, &rejected, Target::Original, false, request.delete, input.versions);
    writes.retain(|write| !matches!(write, RollbackWrite::Recipe(_)));
    let affected = affected(&rejected, input);
    let rejected = rejected.into_iter().collect();
    Ok(RollbackPlan { writes, affected, rejected, new_nodes_get: image, pause: Some(pause) })
}

/// Completes a rollback to the original recipe that was interrupted before it excluded the rejected versions.
fn finish_original(request: &RollbackRequest, input: RollbackInput<'_>) -> Result<RollbackPlan, Error> {
    let rejected = still_usable(&rejected_numbers(&input.definition.tags), input);
    if rejected.is_empty() {
        return Err(Error::AlreadyThere("the original recipe".to_owned()));
    }
    if request.delete {
        refuse_used(&rejected, input)?;
    }
    let new_nodes_get = "original".to_owned();
    let pause = pause(request, &new_nodes_get);
    let mut writes = writes(pause.tags(), &rejected, Target::Original, false, request.delete, input.versions);
    writes.retain(|write| !matches!(write, RollbackWrite::Recipe(_)));
    let affected = affected(&rejected, input);
    Ok(RollbackPlan { writes, affected, rejected: rejected.into_iter().collect(), new_nodes_get, pause: Some(pause) })
}

fn pause(request: &RollbackRequest, to: &str) -> Pause {
    Pause {
        since: Some(request.at),
        after: request.after,
        to: Some(to.to_owned()),
        who: Some(request.who.clone()),
        reason: request.reason.clone(),
    }
}

/// Rejected versions that an interrupted rollback did not exclude.
fn still_usable(rejected: &BTreeSet<VersionNumber>, input: RollbackInput<'_>) -> BTreeSet<VersionNumber> {
    let usable = input.versions.iter().filter(|version| version.usable_in(&input.pool.location));
    usable.map(|version| version.number.clone()).filter(|number| rejected.contains(number)).collect()
}

#[derive(Clone, Copy)]
enum Target<'a> {
    Version(&'a ImageVersion),
    Original,
}

fn writes(
    marks: Tags,
    rejected: &BTreeSet<VersionNumber>,
    target: Target<'_>,
    pinned: bool,
    delete: bool,
    versions: &[ImageVersion],
) -> Vec<RollbackWrite> {
    let mut writes = vec![RollbackWrite::Mark(marks)];
    if let Target::Version(version) = target {
        // Before anything is excluded, so that there is always a usable version.
        if version.excluded || version.regions.iter().any(|region| region.excluded) {
            writes.push(RollbackWrite::Include(version.number.clone()));
        }
        if pinned {
            writes.push(RollbackWrite::Recipe(RecipeTarget::Version(version.number.clone())));
        }
    }
    let exists = |number: &&VersionNumber| versions.iter().any(|v| v.number == **number && !v.excluded);
    // The highest first: new nodes get it until it is excluded.
    writes.extend(rejected.iter().rev().filter(exists).cloned().map(RollbackWrite::Exclude));
    if let Target::Original = target {
        // Last: the cloud may refuse this write, and then new nodes must not get the rejected version.
        writes.push(RollbackWrite::Recipe(RecipeTarget::Original));
    }
    if delete {
        writes.extend(rejected.iter().rev().cloned().map(RollbackWrite::Delete));
    }
    writes
}

fn find<'a>(requested: &VersionNumber, versions: &'a [ImageVersion], region: &str) -> Result<&'a ImageVersion, Error> {
    let Some(version) = versions.iter().find(|version| version.number == *requested) else {
        let mut existing: Vec<&VersionNumber> = versions.iter().map(|version| &version.number).collect();
        existing.sort();
        let existing = match existing.as_slice() {
            [] => "none".to_owned(),
            some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        return Err(Error::NoSuchVersion { requested: requested.clone(), existing });
    };
    let unusable = |reason: &str| {
        let (requested, region) = (requested.clone(), region.to_owned());
        Err(Error::Unusable { requested, region, reason: reason.to_owned() })
    };
    // Whether it would be usable if it were included.
    let regions = version.regions.iter().map(|r| RegionProgress { excluded: false, ..r.clone() }).collect();
    match version.state {
        VersionState::Succeeded => {
            let included = ImageVersion { excluded: false, regions, ..version.clone() };
            if included.usable_in(region) { Ok(version) } else { unusable("it is not replicated there") }
        }
        VersionState::Failed => unusable("it failed"),
        _ => unusable("it is not complete"),
    }
}

/// The changes that each rejected version introduced, compared with the version that new nodes get instead.
fn described(
    rejected: &BTreeSet<VersionNumber>,
    target: Target<'_>,
    versions: &[ImageVersion],
) -> Vec<RejectedVersion> {
    let print = |version: &ImageVersion| Fingerprint::from_provenance(&Provenance::read(&version.tags));
    let before = match target {
        Target::Version(version) => Some(print(version)),
        Target::Original => None,
    };
    rejected
        .iter()
        .map(|number| {
            let own = versions.iter().find(|version| version.number == *number).map(print).unwrap_or_default();
            RejectedVersion { number: number.clone(), introduced: own.without(before.as_ref()) }
        })
        .collect()
}

fn affected(rejected: &BTreeSet<VersionNumber>, input: RollbackInput<'_>) -> Vec<AffectedInstance> {
    let affected = input.instances.iter().filter_map(|instance| {
        let version = version_of(&instance.runs, &input.definition.name)?;
        let (id, node) = (instance.id.clone(), instance.node_name.clone());
        rejected.contains(version).then(|| AffectedInstance { instance: id, node, version: version.clone() })
    });
    let mut affected: Vec<AffectedInstance> = affected.collect();
    affected.sort_by(|a, b| a.node.cmp(&b.node));
    affected
}

fn refuse_used(rejected: &BTreeSet<VersionNumber>, input: RollbackInput<'_>) -> Result<(), Error> {
    let users = affected(rejected, input);
    let Some(version) = users.first().map(|user| user.version.clone()) else { return Ok(()) };
    let nodes: Vec<&str> = users.iter().filter(|user| user.version == version).map(|user| user.node.as_str()).collect();
    Err(Error::InUse { version, nodes: nodes.join(", ") })
}

#[cfg(test)]
mod tests;
