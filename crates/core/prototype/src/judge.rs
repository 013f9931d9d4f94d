//! What each step makes of what was read: done, to be done, or impossible. One function per step, and none of them acts.
//!
//! A function reads what it needs and no more: a fact that is missing is asked for. While the run is in its stride, that is when the same
//! process did the step before and nothing went wrong since, a step that cannot hurt acts without reading what it can know; after a crash or
//! a failure every step looks first.

mod bracket;
mod forward;
mod prepare;
mod switch;

use std::time::Duration;

use kiln_types::{ErrorClass, ImageVersion, Pool, Revision, VersionNumber};

use crate::action::Action;
use crate::history;
use crate::journal::{Memo, Output, Run, StepFailure};
use crate::names::RUN_TAG;
use crate::observed::{Fact, Observed};
use crate::step::Step;

/// What a step makes of what was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// It is so.
    Done(Option<Output>),
    /// This makes it so.
    Act(Action, Option<Memo>),
    /// It is becoming so.
    Poll {
        /// How long until it is worth reading again.
        pause: Duration,
        /// What is waited for.
        why: String,
        /// How long in all.
        patience: Duration,
    },
    /// It cannot become so.
    Fail(StepFailure),
    /// The run must not begin.
    Refuse(Vec<String>),
}

/// A verdict, or what has to be read for one.
pub(crate) type Judged = Result<Verdict, Fact>;

/// How long a thing that changes by itself is given: longer than any such change was seen to take.
const PATIENCE: Duration = Duration::from_hours(1);

/// Three and a half times the longest that kamino's log shows for one version.
const PUBLISH_PATIENCE: Duration = Duration::from_hours(6);

impl Verdict {
    fn done() -> Self {
        Self::Done(None)
    }

    fn found(said: impl Into<String>) -> Self {
        Self::Done(Some(Output::Said(said.into())))
    }

    fn act(action: Action) -> Self {
        Self::Act(action, None)
    }

    /// Removes a version, with its number written down: the step may have several to remove.
    fn delete(number: &VersionNumber) -> Self {
        Self::Act(Action::DeleteVersion(number.clone()), Some(Memo::Target(number.to_string())))
    }

    fn fail(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::Fail(StepFailure::new(class, message))
    }

    fn poll(why: impl Into<String>) -> Self {
        Self::Poll { pause: Duration::from_secs(10), why: why.into(), patience: PATIENCE }
    }
}

/// How long an operation of a step is waited for by its handle. Afterwards the thing itself is read.
pub(crate) fn patience(step: Step) -> Duration {
    if step == Step::Publish { PUBLISH_PATIENCE } else { PATIENCE }
}

/// Judges a step, or says what has to be read first.
pub(crate) fn judge(step: Step, run: &Run, seen: &Observed) -> Judged {
    match step {
        Step::Preflight => prepare::preflight(seen),
        Step::Claim => prepare::claim(run, seen),
        Step::SaveRecipe => prepare::save_recipe(run, seen),
        Step::Gallery => prepare::gallery(run, seen),
        Step::Line => prepare::line(run, seen),
        Step::ClearFailed => prepare::clear_failed(run, seen),
        Step::Survey => prepare::survey(run, seen),
        Step::HoldNode => bracket::hold_node(run, seen),
        Step::Protect => bracket::protect(run, seen),
        Step::Drain => Ok(Verdict::act(Action::Drain)),
        Step::FirstBoot => Ok(bracket::first_boot(run)),
        Step::PowerOff => bracket::power_off(run, seen),
        Step::Snapshot => bracket::snapshot(run, seen),
        Step::Start => bracket::start(run, seen),
        Step::AwaitReady => bracket::await_ready(run, seen),
        Step::Unprotect => bracket::unprotect(run, seen),
        Step::ReleaseNode => bracket::release_node(run, seen),
        Step::Publish => forward::publish(run, seen),
        Step::DeleteSnapshot => forward::delete_snapshot(run, seen),
        Step::Try => forward::create_canary(run, seen),
        Step::AwaitCanary => forward::await_canary(seen),
        Step::Condemn => forward::condemn(run, seen),
        Step::DeleteCanary => forward::delete_canary_pool(seen),
        Step::Include => switch::include(run, seen),
        Step::Model => switch::model(run, seen),
        Step::StripData => switch::strip_data(run, seen),
        Step::StripScripts => switch::strip_scripts(run, seen),
        Step::Prune => switch::prune(run, seen),
        Step::AddNodes => switch::add_nodes(run, seen),
        Step::Disclaim => switch::disclaim(run, seen),
    }
}

/// The version that the run makes, if it is there.
fn made<'a>(run: &Run, versions: &'a [ImageVersion]) -> Option<&'a ImageVersion> {
    versions.iter().find(|version| version.number == run.header.version)
}

/// The versions as they were read; none of a line that this run made and has put nothing into.
fn versions<'a>(run: &Run, seen: &'a Observed, step: Step) -> Result<&'a [ImageVersion], Fact> {
    match seen.versions() {
        Err(_) if in_stride(run, step) && run.is_begun(Step::Line) => Ok(&[]),
        read => read,
    }
}

/// A tag of a pool that says something. Tags are emptied, never removed.
fn tag<'a>(pool: &'a Pool, name: &str) -> Option<&'a str> {
    pool.tags.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// Whether a step may act on what the step before it left, without reading it.
fn in_stride(run: &Run, step: Step) -> bool {
    run.in_stride && !run.is_begun(step)
}

/// Another run took the pool over, against all rules. Whoever wrote last works on; the other one stops.
fn taken_over(run: &Run, pool: &Pool) -> Option<Verdict> {
    tag(pool, RUN_TAG).filter(|owner| *owner != run.id.as_str()).map(|owner| {
        Verdict::fail(ErrorClass::Busy, format!("scale set {} bears the tag {RUN_TAG}={owner} by now", pool.name))
    })
}

/// By what a write to the pool says what it saw. Without it a write might undo somebody else's.
fn revision(pool: &Pool) -> Result<&Revision, StepFailure> {
    pool.revision.as_ref().ok_or_else(|| {
        StepFailure::new(
            ErrorClass::Refused,
            format!("the cloud gives no mark of {}: it is not safe to write", pool.name),
        )
    })
}

/// Whether a recipe or an instance of the pool uses a version.
fn is_used(run: &Run, seen: &Observed, number: &VersionNumber) -> Result<bool, Fact> {
    let (pool, instances, versions) = (seen.pool()?, seen.instances()?, seen.versions()?);
    Ok(history::used([pool], instances, &run.header.line.name, versions).contains(number))
}
