//! The switch: the steps after which new nodes come from the version. After each of them the recipe creates nodes that can join.

use std::time::Duration;

use kiln_types::tags::{CLAIM_TAG, RECIPE_OF_IMAGE, RECIPE_TAG};
use kiln_types::{
    ErrorClass, ImageSource, JoinMode, NO_OP_CUSTOM_DATA, Pool, RecipeChange, Secret, Tags, VersionState,
};

use super::{Assessed, Assessment, TIMEOUT, claimed_by_another, is_uninterrupted, own_version, revision, tag};
use crate::action::Action;
use crate::history::{prune as prune_versions, used};
use crate::journal::{Memo, Run};
use crate::latest::same_definition;
use crate::observed::Observed;
use crate::step::Step;

pub(super) fn include(run: &Run, observed: &Observed) -> Assessed {
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

/// Sets image and custom data in one write. Everything that the image needs of the custom data is on its disk, unless clones join by the
/// recipe: then its bootstrap stays.
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
    let custom_data = (!keeps_bootstrap(run)).then(|| Secret::new(NO_OP_CUSTOM_DATA));
    Ok(set_recipe(pool, RecipeChange { image: Some(wanted), custom_data }))
}

/// Whether clones of the run's donor run the pool's custom data and scripts.
fn keeps_bootstrap(run: &Run) -> bool {
    run.header.join == JoinMode::Recipe
}

/// For a pool whose model named the image definition before the run, set by someone else or by a run that ended in between. ARM never
/// returns custom data, so the tag records that it was replaced.
pub(super) fn strip_data(run: &Run, observed: &Observed) -> Assessed {
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
