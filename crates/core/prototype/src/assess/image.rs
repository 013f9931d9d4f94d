//! The steps after the snapshot: the version and the canary that tests it.

use std::time::Duration;

use kiln_types::tags::{CLAIM_TAG, VERSION_TAG};
use kiln_types::{
    Canary, CanaryBootstrap, ErrorClass, ImageVersion, JoinMode, Provisioning, Publication, Storage, Tags, VersionState,
};

use super::verdict::not_proven;
use super::{Assessed, Assessment, PUBLISH_TIMEOUT, is_uninterrupted, is_used, own_version, versions};
use crate::action::Action;
use crate::journal::{Memo, Route, Run};
use crate::observed::Observed;
use crate::provenance::users_tags;
use crate::rollback::{self, Fingerprint, RejectedVersion};
use crate::step::Step;

/// kamino's ten nodes were Ready after 3.5 minutes with the slow recipe. A canary that is not Ready after 20 will not be.
pub(crate) const CANARY_TIMEOUT: Duration = Duration::from_mins(20);

pub(super) fn publish(run: &Run, observed: &Observed) -> Assessed {
    let header = &run.header;
    if let Some(version) = own_version(run, versions(run, observed, Step::Publish)?) {
        return published(run, observed, version);
    }
    let Some(snapshot) = observed.snapshot()?.filter(|snapshot| snapshot.provisioning == Provisioning::Succeeded)
    else {
        let message =
            format!("snapshot `{}` was deleted before the version was created: start a new run", header.snapshot);
        return Ok(Assessment::fail(ErrorClass::NotFound, message));
    };
    if snapshot.tags.get(VERSION_TAG).map(String::as_str) != Some(header.version.as_str()) {
        let message = format!("snapshot `{}` now belongs to a different version: start a new run", header.snapshot);
        return Ok(Assessment::fail(ErrorClass::NotFound, message));
    }
    let failures = run.step(Step::Publish).map_or(&[][..], |progress| &progress.failures);
    let unsupported = failures.iter().any(|(_, failure)| failure.class == ErrorClass::StorageUnsupported);
    Ok(Assessment::act(Action::Publish(Box::new(Publication {
        definition: header.definition.name.clone(),
        number: header.version.clone(),
        location: header.definition.location.clone(),
        source: snapshot.id.clone(),
        regions: vec![header.definition.location.clone()],
        replicas: header.replicas,
        storage: if unsupported { Storage::Local } else { Storage::ZoneRedundant },
        excluded: true,
        disk_encryption_set: header.options.disk_encryption_set.clone().or(header.donor.encryption_set.clone()),
        // The snapshot may be from an earlier run, so its own tags describe what is on it.
        tags: snapshot.tags.clone(),
    }))))
}

fn published(run: &Run, observed: &Observed, version: &ImageVersion) -> Assessed {
    let number = &version.number;
    let wait = |reason: &str| Assessment::Poll {
        pause: Duration::from_secs(30),
        reason: reason.to_owned(),
        timeout: PUBLISH_TIMEOUT,
    };
    Ok(match &version.state {
        VersionState::Succeeded => Assessment::done(),
        VersionState::Creating | VersionState::Updating => wait("the version is being created"),
        VersionState::Deleting => wait("a version of the same name is being deleted"),
        VersionState::Failed if !version.excluded || is_used(run, observed, number)? => Assessment::fail(
            ErrorClass::Unexpected,
            format!(
                "version {number} is in use and the last write to it failed: repeat that write, or roll the version back"
            ),
        ),
        VersionState::Failed => Assessment::delete(number),
        VersionState::Other(state) => {
            Assessment::fail(ErrorClass::Unexpected, format!("version {number} is in the unknown state `{state}`"))
        }
    })
}

pub(super) fn delete_snapshot(run: &Run, observed: &Observed) -> Assessed {
    let is_own = |tags: &Tags| tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
    Ok(match observed.snapshot()? {
        Some(snapshot) if is_own(&snapshot.tags) => Assessment::act(Action::DeleteSnapshot),
        _ => Assessment::done(),
    })
}

fn new_canary(run: &Run) -> Assessment {
    let mut tags = users_tags(&run.header.options.tags);
    tags.insert(CLAIM_TAG.to_owned(), run.id.to_string());
    Assessment::act(Action::CreateCanary(Canary {
        name: run.header.canary.clone(),
        pool: run.header.pool.clone(),
        definition: run.header.definition.name.clone(),
        number: run.header.version.clone(),
        // The engine fills in the secrets, which no decision needs.
        bootstrap: (run.header.join == JoinMode::Recipe).then(CanaryBootstrap::default),
        custom_data: None,
        tags,
    }))
}

pub(super) fn create_canary(run: &Run, observed: &Observed) -> Assessed {
    // An earlier run of today may have included its version already.
    if run.route() == Route::FromVersion
        && own_version(run, observed.versions()?).is_some_and(|version| !version.excluded)
    {
        return Ok(Assessment::done_because("the version was tested by an earlier run"));
    }
    // The canary is named after the run, so no other run can have created it.
    if is_uninterrupted(run, Step::CreateCanary) {
        return Ok(new_canary(run));
    }
    Ok(match observed.canary()? {
        Some(canary) if canary.deleting => Assessment::poll("an earlier canary is being deleted"),
        // A lack of capacity says nothing about the version.
        Some(canary) if canary.failed.is_some() => {
            Assessment::Act(Action::DeleteCanary, Some(Memo::Target(run.header.canary.to_string())))
        }
        Some(_) => Assessment::done(),
        None => new_canary(run),
    })
}

pub(super) fn await_canary(run: &Run, observed: &Observed) -> Assessed {
    let Some(canary) = observed.canary()? else {
        // Azure may have reported a creation that had no effect. A canary that is missing again was deleted.
        if !run.is_begun(Step::AwaitCanary) {
            return Ok(new_canary(run));
        }
        let message = not_proven(&run.header.version, "its canary was deleted by someone else before it became Ready");
        return Ok(Assessment::fail(ErrorClass::NotFound, message));
    };
    if canary.ready {
        return Ok(Assessment::done());
    }
    if let Some(failed) = &canary.failed {
        let message = not_proven(&run.header.version, format_args!("its canary could not be created: {failed}"));
        return Ok(Assessment::fail(ErrorClass::Capacity, message));
    }
    let reason = format!("the canary is not Ready: {}", canary.pending);
    Ok(Assessment::Poll { pause: Duration::from_secs(10), reason, timeout: CANARY_TIMEOUT })
}

/// Records the version as rejected on the image definition, with the changes that it introduced over the version before it.
pub(super) fn reject(run: &Run, observed: &Observed) -> Assessed {
    let Some(definition) = observed.definition()? else { return Ok(Assessment::done()) };
    let number = &run.header.version;
    if rollback::rejected_numbers(&definition.tags).contains(number) {
        return Ok(Assessment::done());
    }
    let unknown = RejectedVersion { number: number.clone(), introduced: Fingerprint::default() };
    let mut listed = definition.tags.clone();
    listed.extend(rollback::reject(&definition.tags, std::slice::from_ref(&unknown)));
    let known = rollback::describe_rejected(&listed, observed.versions()?);
    let rejected = known.into_iter().find(|rejected| rejected.number == *number).unwrap_or(unknown);
    let tags = rollback::reject(&definition.tags, &[rejected]);
    Ok(Assessment::act(Action::TagDefinition { definition: Box::new(definition.clone()), tags }))
}

pub(super) fn delete_canary(observed: &Observed) -> Assessed {
    Ok(match observed.canary()? {
        None => Assessment::done(),
        Some(canary) if canary.deleting => Assessment::poll("the canary is being deleted"),
        Some(_) => Assessment::act(Action::DeleteCanary),
    })
}
