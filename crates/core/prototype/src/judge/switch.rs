//! The switch: from here on new nodes come from the version. Each step leaves a recipe whose nodes join.

use std::time::Duration;

use kiln_types::{ErrorClass, ImageSource, NO_OP_CUSTOM_DATA, Pool, RecipeChange, SecretText, Tags, VersionState};

use super::{Judged, PATIENCE, Verdict, in_stride, made, revision, tag, taken_over};
use crate::action::Action;
use crate::history::{MaxHistory, prune as keep, used};
use crate::journal::{Memo, Run};
use crate::latest::same_definition;
use crate::names::{RECIPE_OF_IMAGE, RECIPE_TAG, RUN_TAG};
use crate::observed::Observed;
use crate::step::Step;

pub(super) fn include(run: &Run, seen: &Observed) -> Judged {
    let include = || Ok(Verdict::act(Action::Include(run.header.version.clone())));
    let number = &run.header.version;
    if in_stride(run, Step::Include) {
        return include();
    }
    let Some(version) = made(run, seen.versions()?) else {
        return Ok(Verdict::fail(ErrorClass::NotFound, format!("version {number} is gone: somebody deleted it")));
    };
    match version.state {
        VersionState::Deleting => Ok(Verdict::fail(ErrorClass::NotFound, format!("somebody deletes version {number}"))),
        VersionState::Updating | VersionState::Creating => Ok(Verdict::poll("the version is being changed")),
        _ if version.usable_in(&run.header.line.location) => Ok(Verdict::done()),
        VersionState::Succeeded if !version.excluded && version.regions.iter().all(|region| !region.excluded) => {
            let (pause, why) = (Duration::from_secs(30), format!("version {number} is being copied to its region"));
            Ok(Verdict::Poll { pause, why, patience: PATIENCE })
        }
        _ => include(),
    }
}

/// Image and custom data in one write. What an image that is a finished node needs of the custom data is on its disk.
pub(super) fn model(run: &Run, seen: &Observed) -> Judged {
    let pool = seen.pool()?;
    if let Some(failed) = taken_over(run, pool) {
        return Ok(failed);
    }
    let line = run.header.line.name.clone();
    let (so, wanted) = match &pool.recipe.image {
        ImageSource::ExactVersion(named, number) if run.header.policy.pin => (
            same_definition(named, &line) && *number == run.header.version,
            ImageSource::ExactVersion(line, run.header.version.clone()),
        ),
        _ if run.header.policy.pin => (false, ImageSource::ExactVersion(line, run.header.version.clone())),
        ImageSource::Definition(named) => (same_definition(named, &line), ImageSource::Definition(line)),
        _ => (false, ImageSource::Definition(line)),
    };
    if so {
        return Ok(Verdict::done());
    }
    Ok(set_recipe(pool, RecipeChange { image: Some(wanted), custom_data: Some(SecretText::new(NO_OP_CUSTOM_DATA)) }))
}

/// For a pool that was made to use the line by somebody else, or by a run that ended before it could say so. ARM never shows custom data.
pub(super) fn strip_data(run: &Run, seen: &Observed) -> Judged {
    if run.step(Step::Model).is_some_and(|model| model.attempts > 0 && !model.refused) {
        return Ok(Verdict::done());
    }
    let pool = seen.pool()?;
    if tag(pool, RECIPE_TAG) == Some(RECIPE_OF_IMAGE) {
        return Ok(Verdict::done());
    }
    if let Some(failed) = taken_over(run, pool) {
        return Ok(failed);
    }
    let custom_data = Some(SecretText::new(NO_OP_CUSTOM_DATA));
    Ok(set_recipe(pool, RecipeChange { custom_data, ..RecipeChange::default() }))
}

fn set_recipe(pool: &Pool, change: RecipeChange) -> Verdict {
    match revision(pool) {
        Ok(revision) => Verdict::act(Action::SetRecipe { change, revision: revision.clone() }),
        Err(failure) => Verdict::Fail(failure),
    }
}

pub(super) fn strip_scripts(run: &Run, seen: &Observed) -> Judged {
    let pool = seen.pool()?;
    if let Some(failed) = taken_over(run, pool) {
        return Ok(failed);
    }
    Ok(match pool.recipe.extensions.iter().find(|extension| extension.is_custom_script()) {
        Some(script) => {
            let name = script.name.clone();
            Verdict::Act(Action::RemoveExtension(name.clone()), Some(Memo::Target(name)))
        }
        None => Verdict::done(),
    })
}

pub(super) fn prune(run: &Run, seen: &Observed) -> Judged {
    let header = &run.header;
    let versions = seen.versions()?;
    // Fewer than two leave no way back, whatever was asked.
    let history = MaxHistory::new(header.policy.max_history).unwrap_or_default();
    let beyond = |used: &_| {
        let pruned = keep(versions, history, used, &header.version);
        // A deletion that went wrong leaves a failed version.
        let failed = pruned.failed.into_iter().filter(|number| *number != header.version);
        pruned.delete.into_iter().chain(failed).collect::<Vec<_>>()
    };
    if beyond(&std::collections::BTreeSet::new()).is_empty() {
        return Ok(Verdict::done());
    }
    let (pool, instances) = (seen.pool()?, seen.instances()?);
    if let Some(failed) = taken_over(run, pool) {
        return Ok(failed);
    }
    Ok(match beyond(&used([pool], instances, &header.line.name, versions)).first() {
        Some(number) => Verdict::delete(number),
        None => Verdict::done(),
    })
}

/// At most once: a pool with fewer nodes than asked for is a smaller harm than one that grows with every try.
pub(super) fn add_nodes(run: &Run, seen: &Observed) -> Judged {
    let more = run.header.policy.new_nodes;
    if more == 0 {
        return Ok(Verdict::done());
    }
    let pool = seen.pool()?;
    if let Some(failed) = taken_over(run, pool) {
        return Ok(failed);
    }
    let memo = Memo::Capacity { instances: pool.capacity, revision: pool.revision.clone() };
    let act = Verdict::Act(Action::AddInstances { pool: Box::new(pool.clone()), more }, Some(memo));
    let Some(progress) = run.step(Step::AddNodes) else { return Ok(act) };
    let Some(Memo::Capacity { instances, revision }) = &progress.memo else { return Ok(act) };
    if pool.capacity >= instances.saturating_add(more) {
        return Ok(Verdict::done());
    }
    let untouched = revision.is_some() && *revision == pool.revision;
    Ok(if untouched || progress.refused {
        act
    } else {
        Verdict::found(format!(
            "scale set {} was changed while nodes were added, and has {}: none are added again",
            pool.name, pool.capacity
        ))
    })
}

pub(super) fn disclaim(run: &Run, seen: &Observed) -> Judged {
    let pool = seen.pool()?;
    if taken_over(run, pool).is_some() {
        return Ok(Verdict::done());
    }
    let mut tags = Tags::from([(RUN_TAG.to_owned(), String::new())]);
    if run.is_done(Step::StripScripts) {
        tags.insert(RECIPE_TAG.to_owned(), RECIPE_OF_IMAGE.to_owned());
    }
    let says = |name: &String, value: &String| pool.tags.get(name).map_or("", String::as_str) == value;
    Ok(if tags.iter().all(|(name, value)| says(name, value)) {
        Verdict::done()
    } else {
        Verdict::act(Action::TagPool { pool: Box::new(pool.clone()), tags })
    })
}
