//! Before anything of the donor is touched.

use kiln_types::{ErrorClass, ImageSource, ImageVersion, Provisioning, Tags, VersionState};

use super::{Judged, Verdict, in_stride, is_used, made, tag, versions};
use crate::action::Action;
use crate::back;
use crate::journal::{Output, Route, Run};
use crate::latest::same_definition;
use crate::names::{RUN_TAG, VERSION_TAG};
use crate::observed::Observed;
use crate::step::Step;

pub(super) fn preflight(seen: &Observed) -> Judged {
    let refusals = seen.refusals()?;
    Ok(if refusals.is_empty() { Verdict::done() } else { Verdict::Refuse(refusals.to_vec()) })
}

/// Not even `--force` takes a pool from another run: two runs at once lose a donor.
pub(super) fn claim(run: &Run, seen: &Observed) -> Judged {
    let pool = seen.pool()?;
    Ok(match tag(pool, RUN_TAG) {
        Some(claimed) if claimed == run.id.as_str() => Verdict::done(),
        Some(other) => Verdict::fail(
            ErrorClass::Busy,
            format!(
                "scale set {} bears the tag {RUN_TAG}={other}: another run works on it, perhaps of another cluster; if it is dead, resume it \
                 where its journal is, or empty the tag",
                pool.name
            ),
        ),
        None => {
            let tags = Tags::from([(RUN_TAG.to_owned(), run.id.to_string())]);
            Verdict::act(Action::TagPool { pool: Box::new(pool.clone()), tags })
        }
    })
}

pub(super) fn save_recipe(run: &Run, seen: &Observed) -> Judged {
    if seen.saved()? {
        return Ok(Verdict::done());
    }
    Ok(match &seen.pool()?.recipe.image {
        ImageSource::Definition(line) | ImageSource::ExactVersion(line, _)
            if same_definition(line, &run.header.line.name) =>
        {
            Verdict::found("the pool is made from the line already; there is no earlier recipe to keep")
        }
        _ => Verdict::act(Action::SaveRecipe),
    })
}

pub(super) fn gallery(run: &Run, seen: &Observed) -> Judged {
    Ok(match seen.gallery()? {
        Some(_) => Verdict::done(),
        None => Verdict::act(Action::CreateGallery(run.header.gallery.clone())),
    })
}

pub(super) fn line(run: &Run, seen: &Observed) -> Judged {
    let wanted = &run.header.line;
    let create = || Verdict::act(Action::CreateDefinition(Box::new(wanted.clone())));
    // A gallery that was just made has no lines.
    if in_stride(run, Step::Line) && run.is_begun(Step::Gallery) {
        return Ok(create());
    }
    let Some(line) = seen.line()? else { return Ok(create()) };
    let same = line.generation == wanted.generation
        && line.architecture == wanted.architecture
        && line.security_type == wanted.security_type;
    Ok(if same {
        Verdict::done()
    } else {
        let message = format!("image definition {} was made for another kind of machine", line.name.definition);
        Verdict::fail(ErrorClass::Invalid, message)
    })
}

pub(super) fn clear_failed(run: &Run, seen: &Observed) -> Judged {
    let versions = versions(run, seen, Step::ClearFailed)?;
    if versions.iter().any(|version| version.state == VersionState::Deleting) {
        return Ok(Verdict::poll("a version is being deleted"));
    }
    for failed in versions.iter().filter(|version| version.state == VersionState::Failed) {
        // A write to a good version may fail too, and then the version is still what somebody runs.
        if !is_used(run, seen, &failed.number)? {
            return Ok(Verdict::delete(&failed.number));
        }
    }
    match made(run, versions) {
        Some(today) if run.header.policy.replace_today => replace(run, seen, today),
        None if run.header.policy.replace_today => forgive(run, seen),
        _ => Ok(Verdict::done()),
    }
}

/// What was bad about the version that is gone is not said of the one that takes its name.
fn forgive(run: &Run, seen: &Observed) -> Judged {
    let Some(line) = seen.line()? else { return Ok(Verdict::done()) };
    let tags = back::forget(&line.tags, &run.header.version);
    Ok(if tags.is_empty() {
        Verdict::done()
    } else {
        Verdict::act(Action::TagDefinition { line: Box::new(line.clone()), tags })
    })
}

/// Makes room for a second version of today.
fn replace(run: &Run, seen: &Observed, today: &ImageVersion) -> Judged {
    let number = &today.number;
    if !today.excluded {
        let message = format!("version {number} is what new nodes get: roll it back before it is replaced");
        return Ok(Verdict::fail(ErrorClass::Refused, message));
    }
    if today.state != VersionState::Succeeded {
        let message = format!("version {number} is still being made: wait for it, or resume its run");
        return Ok(Verdict::fail(ErrorClass::Busy, message));
    }
    if is_used(run, seen, number)? {
        let message = format!("version {number} still runs on instances of {}: refresh them first", run.header.pool);
        return Ok(Verdict::fail(ErrorClass::Refused, message));
    }
    Ok(Verdict::delete(number))
}

pub(super) fn survey(run: &Run, seen: &Observed) -> Judged {
    let route = |route| Ok(Verdict::Done(Some(Output::Route(route))));
    let version = &run.header.version;
    let versions = versions(run, seen, Step::Survey)?;
    if let Some(today) = made(run, versions) {
        if seen.line()?.is_some_and(|line| back::numbers(&line.tags).contains(version)) {
            let message = format!(
                "version {version} of today was found bad, and a day has one version: run again tomorrow, or with --replace-today"
            );
            return Ok(Verdict::fail(ErrorClass::Refused, message));
        }
        return match today.state {
            VersionState::Deleting => Ok(Verdict::poll("the version of today is being deleted")),
            _ => route(Route::FromVersion),
        };
    }
    let Some(snapshot) = seen.snapshot()? else { return route(Route::WholeWay) };
    let of_today = snapshot.tags.get(VERSION_TAG).map(String::as_str) == Some(version.as_str());
    match &snapshot.provisioning {
        Provisioning::InProgress(_) => return Ok(Verdict::poll("a copy of the disk is being made")),
        // A version that replaces another one is made of a new copy.
        Provisioning::Succeeded if of_today && !run.header.policy.replace_today => return route(Route::FromCopy),
        Provisioning::Succeeded | Provisioning::Failed | Provisioning::Canceled => {}
    }
    // While a version is made of it, it is not ours to delete.
    match versions.iter().find(|version| version.state == VersionState::Creating) {
        Some(making) => Ok(Verdict::fail(
            ErrorClass::Busy,
            format!(
                "version {} is still being made of {}: wait for it, or resume its run",
                making.number, snapshot.name
            ),
        )),
        None => Ok(Verdict::act(Action::DeleteSnapshot)),
    }
}
