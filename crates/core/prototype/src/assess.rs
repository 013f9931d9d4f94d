//! Assesses a step against what was read: done, to be done, in progress or impossible. One function per step; none of them acts.
//!
//! A function reads only the facts that it needs and returns a missing one as its error. While a run is uninterrupted, that is while the
//! same process did the previous step and nothing failed since, a step may act on what that step left without reading it again, if that
//! can do no harm. After a crash or a failure every step reads first.

mod donor;
mod image;
mod prepare;
mod switch;
mod verdict;

use std::time::Duration;

use kiln_types::tags::CLAIM_TAG;
use kiln_types::{ErrorClass, ImageVersion, Pool, Revision, VersionNumber};

use crate::action::Action;
use crate::history;
use crate::journal::{Memo, Output, Route, Run, StepFailure};
use crate::observed::{Fact, Observed};
use crate::step::Step;

pub use donor::boot_before;
pub(crate) use image::canary_timeout;
pub(crate) use verdict::{Verdict, judge};

/// The state of a step, according to what was read.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one value exists at a time, between two decisions")]
pub(crate) enum Assessment {
    Done(Option<Output>),
    Act(Action, Option<Memo>),
    /// The state is changing on its own.
    Poll {
        /// Until the next read.
        pause: Duration,
        reason: String,
        /// In total.
        timeout: Duration,
    },
    /// The step cannot succeed.
    Fail(StepFailure),
    /// The run must not start.
    Refuse(Vec<String>),
}

/// An assessment, or the fact that has to be read first.
pub(crate) type Assessed = Result<Assessment, Fact>;

/// Longer than any change of a resource was observed to take.
const TIMEOUT: Duration = Duration::from_hours(1);

/// Three and a half times the longest publication in kamino's logs.
const PUBLISH_TIMEOUT: Duration = Duration::from_hours(6);

impl Assessment {
    fn done() -> Self {
        Self::Done(None)
    }

    fn done_because(note: impl Into<String>) -> Self {
        Self::Done(Some(Output::Note(note.into())))
    }

    fn act(action: Action) -> Self {
        Self::Act(action, None)
    }

    /// Deletes a version, with its number as the target: the step may have several to delete.
    fn delete(number: &VersionNumber) -> Self {
        Self::Act(Action::DeleteVersion(number.clone()), Some(Memo::Target(number.to_string())))
    }

    fn fail(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::Fail(StepFailure::new(class, message))
    }

    fn poll(reason: impl Into<String>) -> Self {
        Self::Poll { pause: Duration::from_secs(10), reason: reason.into(), timeout: TIMEOUT }
    }
}

/// How long to wait for an operation by its handle before the resource itself is read.
pub(crate) fn operation_timeout(step: Step) -> Duration {
    if step == Step::Publish { PUBLISH_TIMEOUT } else { TIMEOUT }
}

/// Assesses a step, or returns the fact that has to be read first.
pub(crate) fn assess(step: Step, run: &Run, observed: &Observed) -> Assessed {
    match step {
        Step::Preflight => prepare::preflight(observed),
        Step::Claim => prepare::claim(run, observed),
        Step::SaveRecipe => prepare::save_recipe(run, observed),
        Step::Gallery => prepare::gallery(run, observed),
        Step::Definition => prepare::definition(run, observed),
        Step::ClearFailed => prepare::clear_failed(run, observed),
        Step::Survey => prepare::survey(run, observed),
        Step::HoldNode => donor::hold_node(run, observed),
        Step::Protect => donor::protect(run, observed),
        Step::Drain => Ok(Assessment::act(Action::Drain)),
        Step::FirstBoot => Ok(donor::first_boot(run)),
        Step::PowerOff => donor::power_off(run, observed),
        Step::LiveSnapshot => donor::live_snapshot(run, observed),
        Step::Snapshot => donor::snapshot(run, observed),
        Step::Thaw => donor::thaw(run, observed),
        Step::Start => donor::start(run, observed),
        Step::AwaitReady => donor::await_ready(run, observed),
        Step::Unprotect => donor::unprotect(run, observed),
        Step::ReleaseNode => donor::release_node(run, observed),
        Step::Publish => image::publish(run, observed),
        Step::DeleteSnapshot => image::delete_snapshot(run, observed),
        Step::CreateCanary => image::create_canary(run, observed),
        Step::AwaitCanary => image::await_canary(run, observed),
        Step::Reject => image::reject(run, observed),
        Step::DeleteCanary => image::delete_canary(run, observed),
        Step::Include => switch::include(run, observed),
        Step::Model => switch::model(run, observed),
        Step::StripData => switch::strip_data(run, observed),
        Step::StripScripts => switch::strip_scripts(run, observed),
        Step::Prune => switch::prune(run, observed),
        Step::AddNodes => switch::add_nodes(run, observed),
        Step::ReleaseClaim => switch::release_claim(run, observed),
    }
}

/// The run's own version, if it exists.
fn own_version<'a>(run: &Run, versions: &'a [ImageVersion]) -> Option<&'a ImageVersion> {
    versions.iter().find(|version| version.number == run.header.version)
}

/// The versions as they were read. A definition that this process has just created has none.
fn versions<'a>(run: &Run, observed: &'a Observed, step: Step) -> Result<&'a [ImageVersion], Fact> {
    match observed.versions() {
        Err(_) if is_uninterrupted(run, step) && run.is_begun(Step::Definition) => Ok(&[]),
        // The survey step found no version of today, and nothing else matters to the creation of one.
        Err(_) if is_uninterrupted(run, step) && step == Step::Publish && run.route() == Route::Full => Ok(&[]),
        read => read,
    }
}

/// A tag of a pool. An empty tag counts as missing.
fn tag<'a>(pool: &'a Pool, name: &str) -> Option<&'a str> {
    pool.tags.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// Whether a step may act on what the previous step left, without reading it.
fn is_uninterrupted(run: &Run, step: Step) -> bool {
    run.uninterrupted && !run.is_begun(step)
}

/// Fails if another run has claimed the pool meanwhile. The run whose tag is on the scale set continues.
fn claimed_by_another(run: &Run, pool: &Pool) -> Option<Assessment> {
    tag(pool, CLAIM_TAG).filter(|owner| *owner != run.id.as_str()).map(|owner| {
        let message = format!("another run has claimed scale set `{}` (tag `{CLAIM_TAG}={owner}`)", pool.name);
        Assessment::fail(ErrorClass::Busy, message)
    })
}

/// The revision for a conditional write. Without one a write might undo another program's change.
fn revision(pool: &Pool) -> Result<&Revision, StepFailure> {
    pool.revision.as_ref().ok_or_else(|| {
        let message = format!("cannot write `{}` safely: the cloud returned no revision", pool.name);
        StepFailure::new(ErrorClass::Refused, message)
    })
}

/// Whether the pool's recipe or one of its instances uses a version.
fn is_used(run: &Run, observed: &Observed, number: &VersionNumber) -> Result<bool, Fact> {
    let (pool, instances, versions) = (observed.pool()?, observed.instances()?, observed.versions()?);
    Ok(history::used([pool], instances, &run.header.definition.name, versions).contains(number))
}
