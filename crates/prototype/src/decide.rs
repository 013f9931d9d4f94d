//! The next thing to do, from what was written down and what was read.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_cloud::{ErrorClass, OperationHandle};

use crate::action::Action;
use crate::journal::{Event, Memo, Outcome, Run, StepFailure};
use crate::judge::{self, Verdict};
use crate::observed::{Fact, Observed};
use crate::step::{Held, Step};

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read these, then ask again.
    Look(Vec<Fact>),
    /// Write `Started`, then act.
    Run {
        /// The step.
        step: Step,
        /// The act.
        action: Action,
        /// To be written with it.
        memo: Option<Memo>,
    },
    /// Write `Started`, then act: it gives something back.
    Release {
        /// What.
        held: Held,
        /// The act.
        action: Action,
    },
    /// Nothing to do but to wait, then read anew.
    Wait(Wait),
    /// Write this down, then ask again.
    Record(Event),
    /// The run is over.
    Done(Outcome),
    /// The run must not begin. Nothing was touched.
    Refuse(Vec<String>),
    /// Something cannot be given back. A person has to help, then the run is resumed.
    Stuck(Stuck),
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// A long operation of the cloud.
    Operation {
        /// Of this step.
        step: Step,
        /// By which it is asked after.
        handle: OperationHandle,
    },
    /// A while.
    For {
        /// In this step.
        step: Step,
        /// How long.
        pause: Duration,
        /// For what.
        why: String,
    },
}

/// What cannot be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// What is still held, the last taken first.
    pub held: Vec<Held>,
    /// The step that does not work.
    pub step: Step,
    /// Why.
    pub reason: String,
    /// What a person does.
    pub advice: String,
}

/// Tries before the copy exists: the donor is held meanwhile, so not for long. kamino tries three times.
const TRIES_IN_BRACKET: usize = 4;

/// Tries after it: nothing of the donor is held, and an hour's work would be lost.
const TRIES_FORWARD: usize = 8;

/// Tries to give something back. Some forty minutes: what keeps a machine from starting, such as a lack of capacity, passes in that time or
/// needs a person.
const TRIES_TO_RELEASE: usize = 12;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// The next thing to do.
pub fn next(run: &Run, observed: &Observed, now: Timestamp) -> Decision {
    if let Some((_, outcome)) = &run.closed {
        return Decision::Done(outcome.clone());
    }
    let Some(step) = current(run) else { return Decision::Record(Event::Closed { outcome: outcome(run) }) };
    let progress = run.step(step);
    if let Some(handle) = progress.and_then(|progress| progress.handle.clone()) {
        return Decision::Wait(Wait::Operation { step, handle });
    }
    let failures = progress.map_or(&[][..], |progress| &progress.failures[progress.excused..]);
    if let Some((at, failure)) = failures.last() {
        if step.gives_back().is_some() && failures.len() >= TRIES_TO_RELEASE {
            return Decision::Stuck(stuck(run, step, failure.message.clone()));
        }
        let due = *at + SignedDuration::try_from(pause(failure.class, failures.len())).unwrap_or(SignedDuration::MAX);
        if let Ok(pause) = Duration::try_from(due.duration_since(now))
            && !pause.is_zero()
        {
            let why = format!("try again after: {failure}");
            return Decision::Wait(Wait::For { step, pause, why });
        }
    }
    let missing: Vec<Fact> = judge::needs(step).iter().copied().filter(|fact| !observed.knows(*fact)).collect();
    if !missing.is_empty() {
        return Decision::Look(missing);
    }
    match judge::judge(step, run, observed) {
        Verdict::Done(output) => Decision::Record(Event::Succeeded { step, output }),
        Verdict::Act(action, memo) => match step.gives_back() {
            Some(held) => Decision::Release { held, action },
            None => Decision::Run { step, action, memo },
        },
        Verdict::Poll { pause, why, patience } => {
            if now.duration_since(run.last) < SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX) {
                return Decision::Wait(Wait::For { step, pause, why });
            }
            let reason = format!("{why}, for {} min now", patience.as_secs() / 60);
            if step.gives_back().is_some() {
                return Decision::Stuck(stuck(run, step, reason));
            }
            let failure = StepFailure { class: ErrorClass::Unexpected, message: reason };
            Decision::Record(Event::Failed { step, failure, for_good: true })
        }
        Verdict::Fail(failure) => Decision::Record(Event::Failed { step, failure, for_good: true }),
        Verdict::Refuse(reasons) => Decision::Refuse(reasons),
    }
}

/// What to write down when an act or a reading of a step did not work.
pub fn failed(run: &Run, step: Step, failure: StepFailure) -> Event {
    let before = run.step(step).map_or(0, |progress| progress.failures.len() - progress.excused);
    let tries = if step.comes_before_the_copy() { TRIES_IN_BRACKET } else { TRIES_FORWARD };
    // What gives back is tried until a person has to help, whatever the error says.
    let for_good = step.gives_back().is_none() && (!is_worth_another_try(failure.class) || before + 1 >= tries);
    Event::Failed { step, failure, for_good }
}

/// A precondition that does not hold, or a thing that is gone: the next reading tells what is so now. A storage kind that the region lacks has
/// another to fall back to.
fn is_worth_another_try(class: ErrorClass) -> bool {
    class.is_retryable()
        || matches!(class, ErrorClass::Precondition | ErrorClass::NotFound | ErrorClass::StorageUnsupported)
}

/// 8, 16, 32 … seconds as kamino waits; what another reading cures does not wait so long.
fn pause(class: ErrorClass, failures: usize) -> Duration {
    if matches!(class, ErrorClass::Precondition | ErrorClass::NotFound | ErrorClass::StorageUnsupported) {
        return Duration::from_secs(1);
    }
    let doublings = u32::try_from(failures + 2).unwrap_or(u32::MAX).min(16);
    Duration::from_secs(1 << doublings).min(LONGEST_PAUSE)
}

/// The step that is at hand; none when the run has nothing left to do.
pub fn current(run: &Run) -> Option<Step> {
    if run.failed.is_some() {
        if is_condemned(run) && !run.is_done(Step::Condemn) && !run.is_given_up(Step::Condemn) {
            return Some(Step::Condemn);
        }
        return run.held().first().map(|held| held.given_back_by());
    }
    Step::ALL.into_iter().find(|step| !run.is_done(*step) && applies(run, *step))
}

/// Whether a step belongs to this run at all, as far as that is known.
fn applies(run: &Run, step: Step) -> bool {
    if let Some(held) = step.gives_back() {
        return run.held().contains(&held);
    }
    match step {
        Step::Condemn => false,
        Step::Try => run.header.policy.canary,
        Step::AwaitTrial => run.is_begun(Step::Try),
        step if step.is_of_the_bracket() => run.route() == crate::journal::Route::WholeWay,
        _ => true,
    }
}

/// Whether the canary itself spoke against the version, and not the cloud that should have made the canary.
fn is_condemned(run: &Run) -> bool {
    run.failed
        .as_ref()
        .is_some_and(|(step, failure)| *step == Step::AwaitTrial && failure.class == ErrorClass::Unexpected)
}

fn outcome(run: &Run) -> Outcome {
    let version = run.header.version.clone();
    match &run.failed {
        None => Outcome::Completed { version },
        Some((_, failure)) if is_condemned(run) => Outcome::Condemned { version, reason: failure.message.clone() },
        Some((step, failure)) => Outcome::Failed { step: *step, failure: failure.clone() },
    }
}

fn stuck(run: &Run, step: Step, reason: String) -> Stuck {
    let donor = &run.header.donor;
    let pool = &run.header.pool;
    let advice = match step {
        Step::Start => format!(
            "start instance {} of {pool} by hand (`az vmss start --instance-ids {} --name {pool}`), or delete it; then \
             `kiln prototype resume`",
            donor.instance, donor.instance
        ),
        Step::AwaitReady => format!(
            "see why kubelet on {} does not report (its serial console), repair or delete the node; then \
             `kiln prototype resume`",
            donor.node
        ),
        Step::DropTrial => format!("delete scale set {} by hand; then `kiln prototype resume`", run.header.trial),
        _ => "mend what the message names; then `kiln prototype resume`".to_owned(),
    };
    Stuck { held: run.held(), step, reason, advice }
}
