//! After the copy: forward only.

use std::time::Duration;

use kiln_cloud::{
    ErrorClass, ImageSource, Provisioning, Publication, RecipeChange, SecretText, Storage, Tags, Trial, VersionState,
};

use super::{Verdict, made, tag};
use crate::action::Action;
use crate::journal::{Memo, Run};
use crate::names::{BAD_TAG, NO_OP_CUSTOM_DATA, RECIPE_OF_IMAGE, RECIPE_TAG, RUN_TAG, VERSION_TAG};
use crate::observed::Observed;
use crate::step::Step;

/// Three and a half times the longest that kamino's log shows for one version.
const PUBLISH_PATIENCE: Duration = Duration::from_hours(6);

/// kamino's ten nodes were Ready in 3.5 minutes by the slow recipe; a machine that has not joined in this time does not.
const TRIAL_PATIENCE: Duration = Duration::from_mins(20);

/// A deletion may report success and not have happened: kamino goes round five times.
const ROUNDS: u32 = 5;

pub(super) fn publish(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (versions, capture) = (seen.versions.as_ref()?, seen.capture.as_ref()?);
    let header = &run.header;
    if let Some(version) = made(run, versions) {
        let wait = |why: &str| Verdict::Poll {
            pause: Duration::from_secs(30),
            why: why.to_owned(),
            patience: PUBLISH_PATIENCE,
        };
        return Some(match &version.state {
            VersionState::Succeeded => Verdict::done(),
            VersionState::Creating | VersionState::Updating => wait("the version is being made"),
            VersionState::Deleting => wait("a version of the same name is being deleted"),
            VersionState::Failed => Verdict::act(Action::DeleteVersion(version.number.clone())),
            VersionState::Other(word) => {
                Verdict::fail(ErrorClass::Unexpected, format!("version {} is in state {word}", version.number))
            }
        });
    }
    let Some(capture) = capture.as_ref().filter(|capture| capture.provisioning == Provisioning::Succeeded) else {
        let message = format!("{} is gone before a version was made of it: start anew", header.capture);
        return Some(Verdict::fail(ErrorClass::NotFound, message));
    };
    let failures = run.step(Step::Publish).map_or(&[][..], |progress| &progress.failures);
    let unsupported = failures.iter().any(|(_, failure)| failure.class == ErrorClass::StorageUnsupported);
    Some(Verdict::act(Action::Publish(Box::new(Publication {
        line: header.line.name.clone(),
        number: header.version.clone(),
        location: header.line.location.clone(),
        source: capture.id.clone(),
        regions: vec![header.line.location.clone()],
        replicas: header.policy.replicas,
        storage: if unsupported { Storage::Local } else { Storage::ZoneRedundant },
        excluded: true,
        disk_encryption_set: header.policy.disk_encryption_set.clone(),
        // The copy may be of an earlier run: it knows what is on it.
        tags: capture.tags.clone(),
    }))))
}

pub(super) fn drop_capture(run: &Run, seen: &Observed) -> Option<Verdict> {
    let ours = |tags: &Tags| tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
    Some(match seen.capture.as_ref()? {
        Some(capture) if ours(&capture.tags) => Verdict::act(Action::DeleteCapture),
        _ => Verdict::done(),
    })
}

pub(super) fn try_one(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (versions, trial) = (seen.versions.as_ref()?, seen.trial.as_ref()?);
    if made(run, versions).is_some_and(|version| !version.excluded) {
        return Some(Verdict::found("the version was proven before"));
    }
    Some(match trial {
        Some(trial) if trial.leaving => Verdict::poll("an earlier canary is being deleted"),
        Some(_) => Verdict::done(),
        None => Verdict::act(Action::TryOne(Trial {
            name: run.header.trial.clone(),
            pool: run.header.pool.clone(),
            line: run.header.line.name.clone(),
            number: run.header.version.clone(),
            tags: Tags::from([(RUN_TAG.to_owned(), run.id.to_string())]),
        })),
    })
}

pub(super) fn await_trial(seen: &Observed) -> Option<Verdict> {
    let Some(trial) = seen.trial.as_ref()? else {
        return Some(Verdict::fail(ErrorClass::NotFound, "somebody deleted the canary before it was judged"));
    };
    if trial.ready {
        return Some(Verdict::done());
    }
    if let Some(failed) = &trial.failed {
        return Some(Verdict::fail(ErrorClass::Capacity, format!("the canary was not made: {failed}")));
    }
    let why = format!("the canary has not joined: {}", trial.why_not);
    Some(Verdict::Poll { pause: Duration::from_secs(10), why, patience: TRIAL_PATIENCE })
}

pub(super) fn condemn(run: &Run, seen: &Observed) -> Option<Verdict> {
    let Some(line) = seen.line.as_ref()? else { return Some(Verdict::done()) };
    let mut bad: Vec<&str> = line.tags.get(BAD_TAG).map_or("", String::as_str).split_whitespace().collect();
    if bad.contains(&run.header.version.as_str()) {
        return Some(Verdict::done());
    }
    bad.push(run.header.version.as_str());
    let tags = Tags::from([(BAD_TAG.to_owned(), bad.join(" "))]);
    Some(Verdict::act(Action::TagLine { line: Box::new(line.clone()), tags }))
}

pub(super) fn drop_trial(seen: &Observed) -> Option<Verdict> {
    Some(match seen.trial.as_ref()? {
        None => Verdict::done(),
        Some(trial) if trial.leaving => Verdict::poll("the canary is being deleted"),
        Some(_) => Verdict::act(Action::DeleteTrial),
    })
}

pub(super) fn include(run: &Run, seen: &Observed) -> Option<Verdict> {
    let Some(version) = made(run, seen.versions.as_ref()?) else {
        let message = format!("version {} is gone: somebody deleted it", run.header.version);
        return Some(Verdict::fail(ErrorClass::NotFound, message));
    };
    let excluded = version.excluded || version.regions.iter().any(|region| region.excluded);
    Some(match version.state {
        VersionState::Updating => Verdict::poll("the version is being changed"),
        _ if excluded => Verdict::act(Action::Include(version.number.clone())),
        _ => Verdict::done(),
    })
}

pub(super) fn model(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    let line = run.header.line.name.clone();
    let wanted = if run.header.policy.pin {
        ImageSource::ExactVersion(line, run.header.version.clone())
    } else {
        ImageSource::Definition(line)
    };
    if pool.recipe.image == wanted {
        return Some(Verdict::done());
    }
    let revision = pool.revision.clone()?;
    Some(Verdict::act(Action::SetRecipe {
        change: RecipeChange { image: Some(wanted), ..RecipeChange::default() },
        revision,
    }))
}

pub(super) fn strip_data(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    if tag(pool, RECIPE_TAG) == Some(RECIPE_OF_IMAGE) && !run.is_begun(Step::Model) {
        return Some(Verdict::done());
    }
    let revision = pool.revision.clone()?;
    let change = RecipeChange { custom_data: Some(SecretText::new(NO_OP_CUSTOM_DATA)), ..RecipeChange::default() };
    Some(Verdict::act(Action::SetRecipe { change, revision }))
}

pub(super) fn strip_scripts(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    let Some(script) = pool.recipe.extensions.iter().find(|extension| extension.is_custom_script()) else {
        return Some(Verdict::done());
    };
    let rounds = run.step(Step::StripScripts).map_or(0, |progress| progress.attempts);
    if rounds >= ROUNDS * 2 {
        let message = format!("extension {} is still there after it was deleted {rounds} times", script.name);
        return Some(Verdict::fail(ErrorClass::Unexpected, message));
    }
    Some(Verdict::act(Action::RemoveExtension(script.name.clone())))
}

pub(super) fn prune(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (pool, versions, instances) = (seen.pool.as_ref()?, seen.versions.as_ref()?, seen.instances.as_ref()?);
    let header = &run.header;
    let used = |number| {
        let exact = ImageSource::ExactVersion(header.line.name.clone(), number);
        pool.recipe.image == exact || instances.iter().any(|instance| instance.runs == exact)
    };
    let usable = versions.iter().filter(|version| version.usable_in(&pool.location)).rev();
    let extra = usable.skip(usize::try_from(header.policy.max_history).unwrap_or(usize::MAX));
    let mut extra = extra.filter(|version| version.number != header.version && !used(version.number.clone()));
    Some(match extra.next() {
        Some(version) => Verdict::act(Action::DeleteVersion(version.number.clone())),
        None => Verdict::done(),
    })
}

pub(super) fn add_nodes(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    let more = run.header.policy.new_nodes;
    let before = match run.step(Step::AddNodes).and_then(|progress| progress.memo.as_ref()) {
        Some(Memo::Capacity(before)) => Some(*before),
        _ => None,
    };
    // A pool that grew since we meant to make it grow grew by us: a second time would be once too often.
    if more == 0 || before.is_some_and(|before| pool.capacity >= before.saturating_add(more)) {
        return Some(Verdict::done());
    }
    let action = Action::AddInstances { pool: Box::new(pool.clone()), more };
    Some(Verdict::Act(action, Some(Memo::Capacity(pool.capacity))))
}

pub(super) fn disclaim(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    if tag(pool, RUN_TAG) != Some(run.id.as_str()) {
        return Some(Verdict::done());
    }
    let mut tags = Tags::from([(RUN_TAG.to_owned(), String::new())]);
    if run.is_done(Step::StripScripts) {
        tags.insert(RECIPE_TAG.to_owned(), RECIPE_OF_IMAGE.to_owned());
    }
    Some(Verdict::act(Action::TagPool { pool: Box::new(pool.clone()), tags }))
}
