//! The steps before the donor is touched.

use kiln_types::tags::CLAIM_TAG;
use kiln_types::{ErrorClass, ImageSource, ImageVersion, Provisioning, Tags, VersionState};

use super::{Assessed, Assessment, is_uninterrupted, is_used, own_version, tag, versions};
use crate::action::Action;
use crate::journal::{Output, Route, Run};
use crate::latest::{is_reusable, same_definition};
use crate::observed::Observed;
use crate::provenance::{not_of_this_donor, other_donor};
use crate::rollback;
use crate::step::Step;

pub(super) fn preflight(observed: &Observed) -> Assessed {
    let blockers = observed.blockers()?;
    Ok(if blockers.is_empty() { Assessment::done() } else { Assessment::Refuse(blockers.to_vec()) })
}

/// Claims the pool. Not even `--force` takes a pool from another run, because two runs at once can lose a donor.
pub(super) fn claim(run: &Run, observed: &Observed) -> Assessed {
    let pool = observed.pool()?;
    Ok(match tag(pool, CLAIM_TAG) {
        Some(owner) if owner == run.id.as_str() => Assessment::done(),
        Some(other) => Assessment::fail(
            ErrorClass::Busy,
            format!(
                "scale set `{}` has the tag `{CLAIM_TAG}={other}`: another run works on it, possibly of another cluster; if that run is \
                 dead, resume it where its journal is, or set the tag to an empty value",
                pool.name
            ),
        ),
        None => {
            let tags = Tags::from([(CLAIM_TAG.to_owned(), run.id.to_string())]);
            Assessment::act(Action::TagPool { pool: Box::new(pool.clone()), tags })
        }
    })
}

pub(super) fn save_recipe(run: &Run, observed: &Observed) -> Assessed {
    if observed.saved()? {
        return Ok(Assessment::done());
    }
    Ok(match &observed.pool()?.recipe.image {
        ImageSource::Definition(definition) | ImageSource::ExactVersion(definition, _)
            if same_definition(definition, &run.header.definition.name) =>
        {
            Assessment::done_because(
                "the pool already uses the image definition, so its original recipe cannot be saved",
            )
        }
        _ => Assessment::act(Action::SaveRecipe),
    })
}

pub(super) fn gallery(run: &Run, observed: &Observed) -> Assessed {
    // The gallery of an existing definition exists.
    if matches!(observed.definition, Some(Some(_))) {
        return Ok(Assessment::done());
    }
    Ok(match observed.gallery()? {
        Some(_) => Assessment::done(),
        None => Assessment::act(Action::CreateGallery(run.header.gallery.clone())),
    })
}

pub(super) fn definition(run: &Run, observed: &Observed) -> Assessed {
    let wanted = &run.header.definition;
    let create = || Assessment::act(Action::CreateDefinition(Box::new(wanted.clone())));
    // A gallery that this process has just created is empty.
    if is_uninterrupted(run, Step::Definition) && run.is_begun(Step::Gallery) {
        return Ok(create());
    }
    let Some(definition) = observed.definition()? else { return Ok(create()) };
    let same = definition.generation == wanted.generation
        && definition.architecture == wanted.architecture
        && definition.security_type == wanted.security_type;
    Ok(if same {
        Assessment::done()
    } else {
        let name = &definition.name.definition;
        let message = format!("image definition `{name}` has a different generation, architecture or security type");
        Assessment::fail(ErrorClass::Invalid, message)
    })
}

pub(super) fn clear_failed(run: &Run, observed: &Observed) -> Assessed {
    let versions = versions(run, observed, Step::ClearFailed)?;
    if versions.iter().any(|version| version.state == VersionState::Deleting) {
        return Ok(Assessment::poll("a version is being deleted"));
    }
    for failed in versions.iter().filter(|version| version.state == VersionState::Failed) {
        // A good version is also in this state after a failed write. It may still be in use.
        if !is_used(run, observed, &failed.number)? {
            return Ok(Assessment::delete(&failed.number));
        }
    }
    match own_version(run, versions) {
        Some(today) if run.header.options.replace_today => replace(run, observed, today),
        None if run.header.options.replace_today => unreject(run, observed),
        _ => Ok(Assessment::done()),
    }
}

/// The rejection of a deleted version does not apply to a new version with the same number.
fn unreject(run: &Run, observed: &Observed) -> Assessed {
    let Some(definition) = observed.definition()? else { return Ok(Assessment::done()) };
    let tags = rollback::unreject(&definition.tags, &run.header.version);
    Ok(if tags.is_empty() {
        Assessment::done()
    } else {
        Assessment::act(Action::TagDefinition { definition: Box::new(definition.clone()), tags })
    })
}

/// Deletes today's version to make room for a second one.
fn replace(run: &Run, observed: &Observed, today: &ImageVersion) -> Assessed {
    let number = &today.number;
    if !today.excluded {
        let message = format!("version {number} is included, so new nodes get it: roll it back before replacing it");
        return Ok(Assessment::fail(ErrorClass::Refused, message));
    }
    if today.state != VersionState::Succeeded {
        let message = format!("version {number} is still being created: wait for it, or resume its run");
        return Ok(Assessment::fail(ErrorClass::Busy, message));
    }
    if is_used(run, observed, number)? {
        let message = format!("instances of `{}` still run version {number}: refresh them first", run.header.pool);
        return Ok(Assessment::fail(ErrorClass::Refused, message));
    }
    Ok(Assessment::delete(number))
}

pub(super) fn survey(run: &Run, observed: &Observed) -> Assessed {
    let route = |route| Ok(Assessment::Done(Some(Output::Route(route))));
    let version = &run.header.version;
    let versions = versions(run, observed, Step::Survey)?;
    let is_rejected = |tags: &Tags| rollback::rejected_numbers(tags).contains(version);
    let refuse = || {
        let message = format!(
            "today's version {version} was rejected, and there is one version per day: run again tomorrow, or use \
             `--replace-today`"
        );
        Ok(Assessment::fail(ErrorClass::Refused, message))
    };
    let own = own_version(run, versions);
    // A rejected version may have been deleted. A new one with its number could never be included.
    if own.is_none() && !run.header.options.replace_today && is_rejected(&run.header.definition.tags) {
        return refuse();
    }
    if let Some(today) = own {
        if observed.definition()?.is_some_and(|definition| is_rejected(&definition.tags)) {
            return refuse();
        }
        if today.state == VersionState::Deleting {
            return Ok(Assessment::poll("today's version is being deleted"));
        }
        return match other_donor(&today.tags, &run.header.donor.node) {
            None => route(Route::FromVersion),
            Some(other) => {
                let found = not_of_this_donor(version, &other);
                let message = format!("{found}: run again tomorrow, or roll it back and use `--replace-today`");
                Ok(Assessment::fail(ErrorClass::Refused, message))
            }
        };
    }
    let Some(snapshot) = observed.snapshot()? else { return route(Route::Full) };
    // The snapshot of another donor is replaced, like that of another day.
    let is_reusable = is_reusable(snapshot, version) && other_donor(&snapshot.tags, &run.header.donor.node).is_none();
    match &snapshot.provisioning {
        Provisioning::InProgress(_) => return Ok(Assessment::poll("a snapshot is being created")),
        // A version that replaces another one needs a new snapshot.
        _ if is_reusable && !run.header.options.replace_today => return route(Route::FromSnapshot),
        Provisioning::Succeeded | Provisioning::Failed | Provisioning::Canceled => {}
    }
    // A snapshot from which a version is being created must not be deleted.
    match versions.iter().find(|version| version.state == VersionState::Creating) {
        Some(creating) => Ok(Assessment::fail(
            ErrorClass::Busy,
            format!(
                "version {} is still being created from snapshot `{}`: wait for it, or resume its run",
                creating.number, snapshot.name
            ),
        )),
        None => Ok(Assessment::act(Action::DeleteSnapshot)),
    }
}
