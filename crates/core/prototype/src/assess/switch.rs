//! The switch: the steps after which new nodes come from the version. After each of them the recipe creates nodes that can join.

use std::time::Duration;

use kiln_types::tags::{CLAIM_TAG, RECIPE_OF_IMAGE, RECIPE_TAG};
use kiln_types::{
    ErrorClass, ImageSource, JoinMode, NO_OP_CUSTOM_DATA, Pool, RecipeChange, Secret, Tags, VersionState,
};

use super::{Assessed, Assessment, TIMEOUT, claimed_by_another, is_uninterrupted, own_version, revision, tag};
use crate::action::Action;
use crate::history::{prune as prune_versions, used};
use crate::journal::{Memo, Route, Run};
use crate::latest::same_definition;
use crate::observed::{Fact, Observed};
use crate::provenance::Provenance;
use crate::rollback;
use crate::step::Step;

pub(super) fn include(run: &Run, observed: &Observed) -> Assessed {
    if let Some(failed) = rolled_back(run, observed, Step::Include)? {
        return Ok(failed);
    }
    let include = || Ok(Assessment::act(Action::Include(run.header.version.clone())));
    let number = &run.header.version;
    if is_uninterrupted(run, Step::Include) {
        return include();
    }
    let deleted =
        || Ok(Assessment::fail(ErrorClass::NotFound, format!("version {number} was deleted by someone else")));
    let Some(version) = own_version(run, observed.versions()?) else { return deleted() };
    match version.state {
        VersionState::Deleting => deleted(),
        VersionState::Updating | VersionState::Creating => Ok(Assessment::poll("the version is being changed")),
        _ if version.usable_in(&run.header.definition.location) => Ok(Assessment::done()),
        VersionState::Succeeded if !version.excluded && version.regions.iter().all(|region| !region.excluded) => {
            let reason = format!("version {number} is being replicated to its region");
            Ok(Assessment::Poll { pause: Duration::from_secs(30), reason, timeout: TIMEOUT })
        }
        _ => include(),
    }
}

/// Fails if a person has paused the pool or rejected the version or one of its ancestors since the run opened. A pool that was paused then,
/// or a donor with a rejected ancestor, would have blocked the run.
fn rolled_back(run: &Run, observed: &Observed, step: Step) -> Result<Option<Assessment>, Fact> {
    let number = &run.header.version;
    let refuse = |why: String| {
        let message = format!("version {number} is not used: {why}");
        Ok(Some(Assessment::fail(ErrorClass::Refused, message)))
    };
    let Some(definition) = observed.rejections(step)? else { return Ok(None) };
    if let Some(pause) = rollback::new_pause(&run.header.definition.tags, &definition.tags) {
        return refuse(format!("the pool is {pause}"));
    }
    let rejected = rollback::rejected_numbers(&definition.tags);
    if rejected.is_empty() {
        return Ok(None);
    }
    if rejected.contains(number) {
        return refuse("it was rejected".to_owned());
    }
    // A version of an earlier run has the ancestors of that run's donor.
    let tags = match run.route() {
        Route::FromVersion => own_version(run, observed.versions()?).map(|version| &version.tags),
        Route::Full | Route::FromSnapshot => None,
    };
    let ancestors = Provenance::read(tags.unwrap_or(&run.header.tags)).ancestors;
    match ancestors.iter().find(|ancestor| rejected.contains(ancestor)) {
        Some(ancestor) => refuse(format!("it descends from version {ancestor}, which was rejected")),
        None => Ok(None),
    }
}

/// Sets image and custom data in one write. Everything that the image needs of the custom data is on its disk, with two exceptions: clones
/// that join by the recipe run its bootstrap, and a clone forgets its donor's NodeConfig and looks for its own.
pub(super) fn model(run: &Run, observed: &Observed) -> Assessed {
    let pool = observed.pool()?;
    if let Some(failed) = claimed_by_another(run, pool) {
        return Ok(failed);
    }
    let definition = run.header.definition.name.clone();
    let (is_set, wanted) = match &pool.recipe.image {
        ImageSource::ExactVersion(named, number) if run.header.options.pin => (
            same_definition(named, &definition) && *number == run.header.version,
            ImageSource::ExactVersion(definition, run.header.version.clone()),
        ),
        _ if run.header.options.pin => (false, ImageSource::ExactVersion(definition, run.header.version.clone())),
        ImageSource::Definition(named) => (same_definition(named, &definition), ImageSource::Definition(definition)),
        _ => (false, ImageSource::Definition(definition)),
    };
    if is_set {
        return Ok(Assessment::done());
    }
    if let Some(failed) = rolled_back(run, observed, Step::Model)? {
        return Ok(failed);
    }
    let custom_data = (!keeps_custom_data(run)).then(|| Secret::new(NO_OP_CUSTOM_DATA));
    Ok(set_recipe(pool, RecipeChange { image: Some(wanted), custom_data }))
}

/// Whether clones of the run's donor run the pool's custom data and scripts.
fn keeps_bootstrap(run: &Run) -> bool {
    run.header.join == JoinMode::Recipe
}

/// Whether new nodes need the pool's custom data: as their bootstrap, or as their NodeConfig.
fn keeps_custom_data(run: &Run) -> bool {
    keeps_bootstrap(run) || run.header.keeps_custom_data
}

/// For a pool whose model named the image definition before the run, set by someone else or by a run that ended in between. ARM never
/// returns custom data, so the tag records that it was replaced.
pub(super) fn strip_data(run: &Run, observed: &Observed) -> Assessed {
    if run.header.keeps_custom_data {
        return Ok(Assessment::done_because("the custom data is the NodeConfig of new nodes"));
    }
    if keeps_bootstrap(run) || run.step(Step::Model).is_some_and(|model| model.attempts > 0 && !model.refused) {
        return Ok(Assessment::done());
    }
    let pool = observed.pool()?;
    if tag(pool, RECIPE_TAG) == Some(RECIPE_OF_IMAGE) {
        return Ok(Assessment::done());
    }
    if let Some(failed) = claimed_by_another(run, pool) {
        return Ok(failed);
    }
    let custom_data = Some(Secret::new(NO_OP_CUSTOM_DATA));
    Ok(set_recipe(pool, RecipeChange { custom_data, ..RecipeChange::default() }))
}

fn set_recipe(pool: &Pool, change: RecipeChange) -> Assessment {
    match revision(pool) {
        Ok(revision) => Assessment::act(Action::SetRecipe { change, revision: revision.clone() }),
        Err(failure) => Assessment::Fail(failure),
    }
}

pub(super) fn strip_scripts(run: &Run, observed: &Observed) -> Assessed {
    if keeps_bootstrap(run) {
        return Ok(Assessment::done());
    }
    let pool = observed.pool()?;
    if let Some(failed) = claimed_by_another(run, pool) {
        return Ok(failed);
    }
    Ok(match pool.recipe.extensions.iter().find(|extension| extension.is_custom_script()) {
        Some(script) => {
            let name = script.name.clone();
            Assessment::Act(Action::RemoveExtension(name.clone()), Some(Memo::Target(name)))
        }
        None => Assessment::done(),
    })
}

pub(super) fn prune(run: &Run, observed: &Observed) -> Assessed {
    let header = &run.header;
    let versions = observed.versions()?;
    let beyond = |used: &_| {
        let pruned = prune_versions(versions, header.options.max_history, used, &header.version);
        // A failed deletion leaves a failed version.
        let failed = pruned.failed.into_iter().filter(|number| *number != header.version);
        pruned.delete.into_iter().chain(failed).collect::<Vec<_>>()
    };
    if beyond(&std::collections::BTreeSet::new()).is_empty() {
        return Ok(Assessment::done());
    }
    let (pool, instances) = (observed.pool()?, observed.instances()?);
    if let Some(failed) = claimed_by_another(run, pool) {
        return Ok(failed);
    }
    Ok(match beyond(&used([pool], instances, &header.definition.name, versions)).first() {
        Some(number) => Assessment::delete(number),
        None => Assessment::done(),
    })
}

/// Adds nodes at most once: too few nodes do less harm than a pool that grows with every attempt.
pub(super) fn add_nodes(run: &Run, observed: &Observed) -> Assessed {
    let more = run.header.options.new_nodes;
    if more == 0 {
        return Ok(Assessment::done());
    }
    let pool = observed.pool()?;
    if let Some(failed) = claimed_by_another(run, pool) {
        return Ok(failed);
    }
    let memo = Memo::Capacity { instances: pool.capacity, revision: pool.revision.clone() };
    let act = Assessment::Act(Action::AddInstances { pool: Box::new(pool.clone()), more }, Some(memo));
    let Some(progress) = run.step(Step::AddNodes) else { return Ok(act) };
    let Some(Memo::Capacity { instances, revision }) = &progress.memo else { return Ok(act) };
    if pool.capacity >= instances.saturating_add(more) {
        return Ok(Assessment::done());
    }
    let unchanged = revision.is_some() && *revision == pool.revision;
    Ok(if unchanged || progress.refused {
        act
    } else {
        Assessment::done_because(format!(
            "scale set `{}` was changed while nodes were added and has {} instances; no more are added",
            pool.name, pool.capacity
        ))
    })
}

pub(super) fn release_claim(run: &Run, observed: &Observed) -> Assessed {
    let pool = observed.pool()?;
    if claimed_by_another(run, pool).is_some() {
        return Ok(Assessment::done());
    }
    let mut tags = Tags::from([(CLAIM_TAG.to_owned(), String::new())]);
    if run.is_done(Step::StripScripts) && !keeps_bootstrap(run) {
        tags.insert(RECIPE_TAG.to_owned(), RECIPE_OF_IMAGE.to_owned());
    }
    let is_set = |name: &String, value: &String| pool.tags.get(name).map_or("", String::as_str) == value;
    Ok(if tags.iter().all(|(name, value)| is_set(name, value)) {
        Assessment::done()
    } else {
        Assessment::act(Action::TagPool { pool: Box::new(pool.clone()), tags })
    })
}
