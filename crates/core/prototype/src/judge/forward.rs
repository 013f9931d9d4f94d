//! After the copy: the version, and the machine that proves it.

use std::time::Duration;

use kiln_types::{Canary, ErrorClass, ImageVersion, Provisioning, Publication, Storage, Tags, VersionState};

use super::{Judged, PUBLISH_PATIENCE, Verdict, in_stride, is_used, made, versions};
use crate::action::Action;
use crate::back::{self, BadVersion, Fingerprint};
use crate::journal::{Memo, Route, Run};
use crate::names::{RUN_TAG, VERSION_TAG};
use crate::observed::Observed;
use crate::step::Step;

/// kamino's ten nodes were Ready in 3.5 minutes by the slow recipe; a machine that has not joined in this time does not.
pub(crate) const CANARY_PATIENCE: Duration = Duration::from_mins(20);

pub(super) fn publish(run: &Run, seen: &Observed) -> Judged {
    let header = &run.header;
    if let Some(version) = made(run, versions(run, seen, Step::Publish)?) {
        return published(run, seen, version);
    }
    let Some(snapshot) = seen.snapshot()?.filter(|snapshot| snapshot.provisioning == Provisioning::Succeeded) else {
        let message = format!("{} is gone before a version was made of it: start anew", header.snapshot);
        return Ok(Verdict::fail(ErrorClass::NotFound, message));
    };
    if snapshot.tags.get(VERSION_TAG).map(String::as_str) != Some(header.version.as_str()) {
        let message = format!("{} is a copy for another version by now: start anew", header.snapshot);
        return Ok(Verdict::fail(ErrorClass::NotFound, message));
    }
    let failures = run.step(Step::Publish).map_or(&[][..], |progress| &progress.failures);
    let unsupported = failures.iter().any(|(_, failure)| failure.class == ErrorClass::StorageUnsupported);
    Ok(Verdict::act(Action::Publish(Box::new(Publication {
        line: header.line.name.clone(),
        number: header.version.clone(),
        location: header.line.location.clone(),
        source: snapshot.id.clone(),
        regions: vec![header.line.location.clone()],
        replicas: header.policy.replicas,
        storage: if unsupported { Storage::Local } else { Storage::ZoneRedundant },
        excluded: true,
        disk_encryption_set: header.policy.disk_encryption_set.clone(),
        // The copy may be of an earlier run: it knows what is on it.
        tags: snapshot.tags.clone(),
    }))))
}

fn published(run: &Run, seen: &Observed, version: &ImageVersion) -> Judged {
    let number = &version.number;
    let wait =
        |why: &str| Verdict::Poll { pause: Duration::from_secs(30), why: why.to_owned(), patience: PUBLISH_PATIENCE };
    Ok(match &version.state {
        VersionState::Succeeded => Verdict::done(),
        VersionState::Creating | VersionState::Updating => wait("the version is being made"),
        VersionState::Deleting => wait("a version of the same name is being deleted"),
        VersionState::Failed if !version.excluded || is_used(run, seen, number)? => Verdict::fail(
            ErrorClass::Unexpected,
            format!("version {number} is in use and the last write to it failed: write to it again, or roll it back"),
        ),
        VersionState::Failed => Verdict::delete(number),
        VersionState::Other(word) => {
            Verdict::fail(ErrorClass::Unexpected, format!("version {number} is in state {word}"))
        }
    })
}

pub(super) fn delete_snapshot(run: &Run, seen: &Observed) -> Judged {
    let ours = |tags: &Tags| tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
    Ok(match seen.snapshot()? {
        Some(snapshot) if ours(&snapshot.tags) => Verdict::act(Action::DeleteSnapshot),
        _ => Verdict::done(),
    })
}

pub(super) fn create_canary(run: &Run, seen: &Observed) -> Judged {
    let create = || {
        Verdict::act(Action::CreateCanary(Canary {
            name: run.header.canary.clone(),
            pool: run.header.pool.clone(),
            line: run.header.line.name.clone(),
            number: run.header.version.clone(),
            tags: Tags::from([(RUN_TAG.to_owned(), run.id.to_string())]),
        }))
    };
    // A version that an earlier run of today made may be in use already.
    if run.route() == Route::FromVersion && made(run, seen.versions()?).is_some_and(|version| !version.excluded) {
        return Ok(Verdict::found("the version was proven before"));
    }
    // The canary bears the name of the run, so nobody else can have made one.
    if in_stride(run, Step::Try) {
        return Ok(create());
    }
    Ok(match seen.canary()? {
        Some(canary) if canary.leaving => Verdict::poll("an earlier canary is being deleted"),
        // Want of capacity says nothing about the version.
        Some(canary) if canary.failed.is_some() => {
            Verdict::Act(Action::DeleteCanary, Some(Memo::Target(run.header.canary.to_string())))
        }
        Some(_) => Verdict::done(),
        None => create(),
    })
}

pub(super) fn await_canary(seen: &Observed) -> Judged {
    let Some(canary) = seen.canary()? else {
        return Ok(Verdict::fail(ErrorClass::NotFound, "somebody deleted the canary before it was judged"));
    };
    if canary.ready {
        return Ok(Verdict::done());
    }
    if let Some(failed) = &canary.failed {
        return Ok(Verdict::fail(ErrorClass::Capacity, format!("the canary was not made: {failed}")));
    }
    let why = format!("the canary has not joined: {}", canary.why_not);
    Ok(Verdict::Poll { pause: Duration::from_secs(10), why, patience: CANARY_PATIENCE })
}

/// The line names the version as bad, with what it brought that the one before it did not have.
pub(super) fn condemn(run: &Run, seen: &Observed) -> Judged {
    let Some(line) = seen.line()? else { return Ok(Verdict::done()) };
    let number = &run.header.version;
    if back::numbers(&line.tags).contains(number) {
        return Ok(Verdict::done());
    }
    let unknown = BadVersion { number: number.clone(), brought: Fingerprint::default() };
    let mut listed = line.tags.clone();
    listed.extend(back::remember(&line.tags, std::slice::from_ref(&unknown)));
    let known = back::known(&listed, seen.versions()?);
    let bad = known.into_iter().find(|bad| bad.number == *number).unwrap_or(unknown);
    let tags = back::remember(&line.tags, &[bad]);
    Ok(Verdict::act(Action::TagDefinition { line: Box::new(line.clone()), tags }))
}

pub(super) fn delete_canary_pool(seen: &Observed) -> Judged {
    Ok(match seen.canary()? {
        None => Verdict::done(),
        Some(canary) if canary.leaving => Verdict::poll("the canary is being deleted"),
        Some(_) => Verdict::act(Action::DeleteCanary),
    })
}
