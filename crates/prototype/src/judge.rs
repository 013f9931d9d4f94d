//! What each step makes of what was read: done, to be done, or impossible. One function per step, and none of them acts.

mod bracket;
mod forward;
mod prepare;

use std::time::Duration;

use kiln_cloud::{ErrorClass, ImageVersion, Pool};

use crate::action::Action;
use crate::journal::{Memo, Output, Run, StepFailure};
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

/// How long a thing that changes by itself is given: longer than any such change was seen to take.
const PATIENCE: Duration = Duration::from_hours(1);

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

    fn fail(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::Fail(StepFailure { class, message: message.into() })
    }

    fn poll(why: impl Into<String>) -> Self {
        Self::Poll { pause: Duration::from_secs(10), why: why.into(), patience: PATIENCE }
    }
}

/// What has to be read before a step is judged.
pub(crate) fn needs(step: Step) -> &'static [Fact] {
    match step {
        Step::Preflight => &[Fact::Refusals],
        Step::Claim | Step::Model | Step::StripData | Step::StripScripts | Step::AddNodes | Step::Disclaim => {
            &[Fact::Pool]
        }
        Step::SaveRecipe => &[Fact::Pool, Fact::Saved],
        Step::Gallery => &[Fact::Gallery],
        Step::Line | Step::Condemn => &[Fact::Line],
        Step::ClearFailed | Step::Include => &[Fact::Versions],
        Step::Survey => &[Fact::Line, Fact::Versions, Fact::Capture],
        Step::HoldNode | Step::ReleaseNode => &[Fact::Node],
        Step::Protect | Step::Start | Step::Unprotect => &[Fact::Instance],
        Step::Drain | Step::FirstBoot => &[],
        Step::PowerOff | Step::AwaitReady => &[Fact::Instance, Fact::Node],
        Step::Capture => &[Fact::Capture, Fact::Instance],
        Step::Publish => &[Fact::Versions, Fact::Capture],
        Step::DropCapture => &[Fact::Capture],
        Step::Try => &[Fact::Versions, Fact::Trial],
        Step::AwaitTrial | Step::DropTrial => &[Fact::Trial],
        Step::Prune => &[Fact::Pool, Fact::Versions, Fact::Instances],
    }
}

/// Judges a step for which everything that it needs was read.
pub(crate) fn judge(step: Step, run: &Run, seen: &Observed) -> Verdict {
    let judged = match step {
        Step::Preflight => prepare::preflight(seen),
        Step::Claim => prepare::claim(run, seen),
        Step::SaveRecipe => prepare::save_recipe(run, seen),
        Step::Gallery => prepare::gallery(run, seen),
        Step::Line => prepare::line(run, seen),
        Step::ClearFailed => prepare::clear_failed(run, seen),
        Step::Survey => prepare::survey(run, seen),
        Step::HoldNode => bracket::hold_node(run, seen),
        Step::Protect => bracket::protect(run, seen),
        Step::Drain => Some(Verdict::act(Action::Drain)),
        Step::FirstBoot => Some(bracket::first_boot(run)),
        Step::PowerOff => bracket::power_off(run, seen),
        Step::Capture => bracket::capture(run, seen),
        Step::Start => bracket::start(run, seen),
        Step::AwaitReady => bracket::await_ready(run, seen),
        Step::Unprotect => bracket::unprotect(run, seen),
        Step::ReleaseNode => bracket::release_node(run, seen),
        Step::Publish => forward::publish(run, seen),
        Step::DropCapture => forward::drop_capture(run, seen),
        Step::Try => forward::try_one(run, seen),
        Step::AwaitTrial => forward::await_trial(seen),
        Step::Condemn => forward::condemn(run, seen),
        Step::DropTrial => forward::drop_trial(seen),
        Step::Include => forward::include(run, seen),
        Step::Model => forward::model(run, seen),
        Step::StripData => forward::strip_data(run, seen),
        Step::StripScripts => forward::strip_scripts(run, seen),
        Step::Prune => forward::prune(run, seen),
        Step::AddNodes => forward::add_nodes(run, seen),
        Step::Disclaim => forward::disclaim(run, seen),
    };
    judged
        .unwrap_or_else(|| Verdict::fail(ErrorClass::Unexpected, format!("step {step} was judged before it was read")))
}

/// The version that the run makes, if it is there.
fn made<'a>(run: &Run, versions: &'a [ImageVersion]) -> Option<&'a ImageVersion> {
    versions.iter().find(|version| version.number == run.header.version)
}

/// A tag of a pool that says something. Tags are emptied, never removed.
fn tag<'a>(pool: &'a Pool, name: &str) -> Option<&'a str> {
    pool.tags.get(name).map(String::as_str).filter(|value| !value.is_empty())
}
