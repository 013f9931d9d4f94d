//! Before anything of the donor is touched.

use kiln_cloud::{ErrorClass, ImageSource, Provisioning, Tags, VersionState};

use super::{Verdict, made, tag};
use crate::action::Action;
use crate::journal::{Output, Route, Run};
use crate::names::{BAD_TAG, RUN_TAG, VERSION_TAG};
use crate::observed::Observed;

pub(super) fn preflight(seen: &Observed) -> Option<Verdict> {
    let refusals = seen.refusals.as_ref()?;
    Some(if refusals.is_empty() { Verdict::done() } else { Verdict::Refuse(refusals.clone()) })
}

pub(super) fn claim(run: &Run, seen: &Observed) -> Option<Verdict> {
    let pool = seen.pool.as_ref()?;
    Some(match tag(pool, RUN_TAG) {
        Some(claimed) if claimed == run.id.as_str() => Verdict::done(),
        Some(other) if !run.header.policy.force => Verdict::fail(
            ErrorClass::Busy,
            format!(
                "scale set {} bears the tag {RUN_TAG}={other}: another run works on it, perhaps of another cluster; if it is dead, resume it \
                 where its journal is, or empty the tag",
                pool.name
            ),
        ),
        _ => {
            let tags = Tags::from([(RUN_TAG.to_owned(), run.id.to_string())]);
            Verdict::act(Action::TagPool { pool: Box::new(pool.clone()), tags })
        }
    })
}

pub(super) fn save_recipe(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (pool, saved) = (seen.pool.as_ref()?, seen.saved?);
    if saved {
        return Some(Verdict::done());
    }
    Some(match &pool.recipe.image {
        ImageSource::Definition(line) | ImageSource::ExactVersion(line, _) if *line == run.header.line.name => {
            Verdict::found("the pool is made from the line already; there is no earlier recipe to keep")
        }
        _ => Verdict::act(Action::SaveRecipe),
    })
}

pub(super) fn gallery(run: &Run, seen: &Observed) -> Option<Verdict> {
    Some(match seen.gallery.as_ref()? {
        Some(_) => Verdict::done(),
        None => Verdict::act(Action::CreateGallery(run.header.gallery.clone())),
    })
}

pub(super) fn line(run: &Run, seen: &Observed) -> Option<Verdict> {
    let wanted = &run.header.line;
    Some(match seen.line.as_ref()? {
        None => Verdict::act(Action::CreateLine(Box::new(wanted.clone()))),
        Some(line) => {
            let same = line.generation == wanted.generation
                && line.architecture == wanted.architecture
                && line.security_type == wanted.security_type;
            if same {
                Verdict::done()
            } else {
                Verdict::fail(
                    ErrorClass::Invalid,
                    format!("image definition {} was made for another kind of machine", line.name.definition),
                )
            }
        }
    })
}

pub(super) fn clear_failed(run: &Run, seen: &Observed) -> Option<Verdict> {
    let versions = seen.versions.as_ref()?;
    if versions.iter().any(|version| version.state == VersionState::Deleting) {
        return Some(Verdict::poll("a version is being deleted"));
    }
    if let Some(failed) = versions.iter().find(|version| version.state == VersionState::Failed) {
        return Some(Verdict::act(Action::DeleteVersion(failed.number.clone())));
    }
    match made(run, versions) {
        Some(today) if run.header.policy.replace_today && !today.excluded => Some(Verdict::fail(
            ErrorClass::Refused,
            format!("version {} is what new nodes get: roll it back before it is replaced", today.number),
        )),
        Some(today) if run.header.policy.replace_today && today.state == VersionState::Succeeded => {
            Some(Verdict::act(Action::DeleteVersion(today.number.clone())))
        }
        _ => Some(Verdict::done()),
    }
}

pub(super) fn survey(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (line, versions, capture) = (seen.line.as_ref()?, seen.versions.as_ref()?, seen.capture.as_ref()?);
    let route = |route| Some(Verdict::Done(Some(Output::Route(route))));
    let version = &run.header.version;
    if let Some(today) = made(run, versions) {
        let bad = line.as_ref().and_then(|line| line.tags.get(BAD_TAG));
        if bad.is_some_and(|bad| bad.split_whitespace().any(|bad| bad == version.as_str())) {
            let message = format!(
                "version {version} of today was found bad, and a day has one version: run again tomorrow, or with --replace-today"
            );
            return Some(Verdict::fail(ErrorClass::Refused, message));
        }
        return match today.state {
            VersionState::Deleting => Some(Verdict::poll("the version of today is being deleted")),
            _ => route(Route::FromVersion),
        };
    }
    let Some(capture) = capture else { return route(Route::WholeWay) };
    if capture.tags.get(VERSION_TAG).map(String::as_str) == Some(version.as_str()) {
        return match &capture.provisioning {
            Provisioning::Succeeded => route(Route::FromCopy),
            Provisioning::InProgress(_) => Some(Verdict::poll("the copy of the disk is being made")),
            Provisioning::Failed | Provisioning::Canceled => Some(Verdict::act(Action::DeleteCapture)),
        };
    }
    // Of another day. While a version is made of it, it is not ours to delete.
    match versions.iter().find(|version| matches!(version.state, VersionState::Creating)) {
        Some(making) => Some(Verdict::fail(
            ErrorClass::Busy,
            format!(
                "version {} is still being made of {}: wait for it, or resume its run",
                making.number, capture.name
            ),
        )),
        None => Some(Verdict::act(Action::DeleteCapture)),
    }
}
