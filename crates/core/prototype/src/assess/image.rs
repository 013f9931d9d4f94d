//! The steps after the snapshot: the version and the canary that tests it.

use std::time::Duration;

use kiln_types::tags::{CLAIM_TAG, VERSION_TAG};
use kiln_types::{
    Canary, CanaryBootstrap, ErrorClass, ImageVersion, JoinMode, Provisioning, Publication, SmokeTest, Storage, Tags,
    TargetRegion, VersionState, same_region,
};

use super::verdict::not_proven;
use super::{Assessed, Assessment, PUBLISH_TIMEOUT, is_uninterrupted, is_used, own_version, versions};
use crate::action::Action;
use crate::journal::{Memo, Output, Route, Run};
use crate::observed::{CanaryView, Observed};
use crate::provenance::users_tags;
use crate::rollback::{self, Fingerprint, RejectedVersion};
use crate::run::Header;
use crate::step::Step;

/// kamino's ten nodes were Ready after 3.5 minutes with the slow recipe. A canary that is not Ready after 20 will not be.
pub(crate) const CANARY_TIMEOUT: Duration = Duration::from_mins(20);

/// Poll interval of the pod that tests the canary.
const SMOKE_TEST_POLL: Duration = Duration::from_secs(5);

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
        regions: target_regions(header),
        storage: if unsupported { Storage::Local } else { Storage::ZoneRedundant },
        excluded: true,
        disk_encryption_set: header.options.disk_encryption_set.clone().or(header.donor.encryption_set.clone()),
        // The snapshot may be from an earlier run, so its own tags describe what is on it.
        tags: snapshot.tags.clone(),
    }))))
}

/// The definition's region, and the others that the user named. Each has its own number of replicas, or the default.
pub(crate) fn target_regions(header: &Header) -> Vec<TargetRegion> {
    let home = &header.definition.location;
    let wanted = &header.options.target_regions;
    let own = wanted.iter().find(|(name, _)| same_region(name, home)).and_then(|(_, replicas)| *replicas);
    let others = wanted
        .iter()
        .filter(|(name, _)| !same_region(name, home))
        .map(|(name, replicas)| TargetRegion { name: name.clone(), replicas: replicas.unwrap_or(header.replicas) });
    std::iter::once(TargetRegion { name: home.clone(), replicas: own.unwrap_or(header.replicas) })
        .chain(others)
        .collect()
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
        size: run.header.options.canary_size.clone(),
        zone: run.header.options.canary_zone.clone(),
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
        return Ok(prove(run, canary));
    }
    if let Some(failed) = &canary.failed {
        let message = not_proven(&run.header.version, format_args!("its canary could not be created: {failed}"));
        return Ok(Assessment::fail(ErrorClass::Capacity, message));
    }
    let reason = format!("the canary is not Ready: {}", canary.pending);
    Ok(Assessment::Poll { pause: Duration::from_secs(10), reason, timeout: canary_timeout(run) })
}

/// How long to wait for a canary. A soak comes on top, so that a canary that registers late can still finish it.
pub(crate) fn canary_timeout(run: &Run) -> Duration {
    CANARY_TIMEOUT + soak(run)
}

fn soak(run: &Run) -> Duration {
    Duration::from_secs(run.header.options.soak_seconds)
}

/// What a canary that is Ready has to do besides: pass the smoke test, then stay Ready for the soak. The test is first, because whatever
/// it breaks may take a while to show.
fn prove(run: &Run, canary: &CanaryView) -> Assessment {
    if run.header.options.smoke_test.is_some() {
        match &canary.smoke_test {
            None => return Assessment::act(Action::RunSmokeTest),
            Some(SmokeTest::Running(reason)) => {
                let reason = format!("the smoke test has not ended: {reason}");
                return Assessment::Poll { pause: SMOKE_TEST_POLL, reason, timeout: canary_timeout(run) };
            }
            Some(SmokeTest::Failed(reason)) => {
                return Assessment::Done(Some(Output::Rejected(format!("the smoke test failed: {reason}"))));
            }
            Some(SmokeTest::Aborted(reason)) => {
                let message =
                    not_proven(&run.header.version, format_args!("its smoke test ended without a result: {reason}"));
                return Assessment::fail(ErrorClass::Unexpected, message);
            }
            Some(SmokeTest::Succeeded) => {}
        }
    }
    let left = soak(run).saturating_sub(canary.ready_for);
    if left.is_zero() {
        return Assessment::done();
    }
    let (so_far, of) = (canary.ready_for.as_secs(), soak(run).as_secs());
    let reason = format!("the canary has been Ready for {so_far} s of {of} s");
    // Short enough to notice a node that is not Ready for a moment.
    Assessment::Poll { pause: left.min(Duration::from_secs(10)), reason, timeout: canary_timeout(run) }
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

pub(super) fn delete_canary(run: &Run, observed: &Observed) -> Assessed {
    let failed_at_canary = matches!(&run.failed, Some((Step::AwaitCanary, _)));
    if run.header.options.keep_canary_on_failure && (run.rejected().is_some() || failed_at_canary) {
        let note = format!("canary `{}` is kept; `kiln prototype gc --yes` deletes it", run.header.canary);
        return Ok(Assessment::done_because(note));
    }
    Ok(match observed.canary()? {
        None => Assessment::done(),
        Some(canary) if canary.deleting => Assessment::poll("the canary is being deleted"),
        Some(_) => Assessment::act(Action::DeleteCanary),
    })
}
