//! The next thing to do, from what was written down and what was read.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_types::{ErrorClass, OperationHandle};

use crate::action::Action;
use crate::journal::{Event, Memo, Outcome, Output, Run, StepFailure};
use crate::judge::{self, Verdict};
use crate::names::RUN_TAG;
use crate::observed::{Fact, Observed};
use crate::step::{Held, Step};

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read these, then ask again.
    Look(Vec<Fact>),
    /// Write `Started`, then act.
    Run {
        step: Step,
        action: Action,
        /// To be written with it.
        memo: Option<Memo>,
    },
    /// Write `Started`, then act: it gives something back.
    Release { held: Held, action: Action },
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
    For {
        /// In this step.
        step: Step,
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

/// Acts that report success and have not happened: kamino goes round five times.
const ROUNDS: u32 = 5;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// The next thing to do.
pub fn next(run: &Run, observed: &Observed, now: Timestamp) -> Decision {
    if let Some((_, outcome)) = &run.closed {
        return Decision::Done(outcome.clone());
    }
    let Some(step) = current(run) else { return Decision::Record(Event::Closed { outcome: outcome(run) }) };
    if let Some(waits) = operation(run, step, now).or_else(|| after_failure(run, step, now)) {
        return waits;
    }
    match judge::judge(step, run, observed) {
        Err(fact) => Decision::Look(vec![fact]),
        Ok(Verdict::Done(output)) => Decision::Record(Event::Succeeded { step, output }),
        Ok(Verdict::Act(action, memo)) => act(run, step, action, memo, now),
        Ok(Verdict::Poll { pause, why, patience }) => {
            if now.duration_since(run.last) < signed(patience) {
                return Decision::Wait(Wait::For { step, pause, why });
            }
            let reason = format!("{why}, for {} min now", patience.as_secs() / 60);
            if step == Step::AwaitCanary {
                return Decision::Record(Event::Succeeded { step, output: Some(Output::Bad(reason)) });
            }
            impossible(run, step, reason)
        }
        Ok(Verdict::Fail(failure)) => Decision::Record(Event::Failed { step, failure, for_good: true }),
        Ok(Verdict::Refuse(reasons)) => Decision::Refuse(reasons),
    }
}

/// A handle is a hint: one that says nothing for too long is let go, and the thing itself is read.
fn operation(run: &Run, step: Step, now: Timestamp) -> Option<Decision> {
    let handle = run.step(step)?.handle.clone()?;
    let waits = now.duration_since(run.last) < signed(judge::patience(step));
    waits.then_some(Decision::Wait(Wait::Operation { step, handle }))
}

/// What is due after a failure.
fn after_failure(run: &Run, step: Step, now: Timestamp) -> Option<Decision> {
    let progress = run.step(step)?;
    let failures = &progress.failures[progress.excused..];
    let (at, failure) = failures.last()?;
    if step.gives_back().is_some() && failures.len() >= TRIES_TO_RELEASE {
        return Some(Decision::Stuck(stuck(run, step, failure.message.clone())));
    }
    wait_until(*at + signed(pause(failure.class, failures.len())), step, format!("try again after: {failure}"), now)
}

/// An act, unless it was done already and did not change anything.
fn act(run: &Run, step: Step, action: Action, memo: Option<Memo>, now: Timestamp) -> Decision {
    let repeats =
        run.step(step).and_then(|progress| progress.repeats.filter(|_| progress.is_repeated_by(memo.as_ref())));
    if let Some((rounds, at)) = repeats {
        if rounds >= ROUNDS {
            return impossible(run, step, format!("step {step} was done {rounds} times without effect"));
        }
        // What was just deleted may still be shown.
        let why = format!("step {step} has had no effect yet");
        let due = at + signed(pause(ErrorClass::Transient, rounds as usize));
        if let Some(wait) = wait_until(due, step, why, now) {
            return wait;
        }
    }
    match step.gives_back() {
        Some(held) => Decision::Release { held, action },
        None => Decision::Run { step, action, memo },
    }
}

fn impossible(run: &Run, step: Step, reason: String) -> Decision {
    if step.gives_back().is_some() {
        return Decision::Stuck(stuck(run, step, reason));
    }
    let failure = StepFailure::new(ErrorClass::Unexpected, reason);
    Decision::Record(Event::Failed { step, failure, for_good: true })
}

fn wait_until(due: Timestamp, step: Step, why: String, now: Timestamp) -> Option<Decision> {
    let pause = Duration::try_from(due.duration_since(now)).ok().filter(|pause| !pause.is_zero())?;
    Some(Decision::Wait(Wait::For { step, pause, why }))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// What to write down after an act that the cloud took. Nothing where the effect is read back.
pub fn acted(step: Step, handle: Option<OperationHandle>) -> Option<Event> {
    match handle {
        Some(handle) => Some(Event::Accepted { step, handle }),
        None if step.is_taken_at_its_word() => Some(Event::Succeeded { step, output: None }),
        None => None,
    }
}

/// What to write down when the operation of a step has ended well. Nothing where the effect is read back: then the run lets go of the handle.
pub fn settled(run: &mut Run, step: Step) -> Option<Event> {
    run.settle(step);
    step.is_taken_at_its_word().then_some(Event::Succeeded { step, output: None })
}

/// What to write down when an act or a reading of a step did not work.
pub fn failed(run: &Run, step: Step, failure: StepFailure) -> Event {
    let before = run.step(step).map_or(0, |progress| progress.failures.len() - progress.excused);
    let tries = if step.comes_before_the_copy() { TRIES_IN_BRACKET } else { TRIES_FORWARD };
    // What gives back is tried until a person has to help, whatever the error says.
    let for_good = step.gives_back().is_none() && (!is_worth_another_try(failure.class) || before + 1 >= tries);
    Event::Failed { step, failure: failure.shortened(), for_good }
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
    if run.condemned().is_some() && !run.is_done(Step::Condemn) && !run.is_given_up(Step::Condemn) {
        return Some(Step::Condemn);
    }
    if run.condemned().is_some() || run.failed.is_some() {
        return run.held().first().map(|held| held.given_back_by());
    }
    Step::ALL.into_iter().find(|step| !run.is_done(*step) && applies(run, *step))
}

/// Whether a step belongs to this run at all, as far as that is known.
fn applies(run: &Run, step: Step) -> bool {
    if let Some(held) = step.gives_back() {
        return run.holds(held);
    }
    match step {
        Step::Condemn => false,
        Step::Try => run.header.policy.canary,
        Step::AwaitCanary => run.is_begun(Step::Try),
        step if step.is_of_the_bracket() => run.route() == crate::journal::Route::WholeWay,
        _ => true,
    }
}

fn outcome(run: &Run) -> Outcome {
    let version = run.header.version.clone();
    if let Some(reason) = run.condemned() {
        return Outcome::Condemned { version, reason: reason.to_owned() };
    }
    match &run.failed {
        None => Outcome::Completed { version },
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
        Step::Disclaim => format!(
            "empty the tag {RUN_TAG} of {pool} by hand, or give back the permission to write it; then `kiln prototype resume`"
        ),
        Step::DeleteCanary => format!("delete scale set {} by hand; then `kiln prototype resume`", run.header.canary),
        _ => "mend what the message names; then `kiln prototype resume`".to_owned(),
    };
    Stuck { held: run.held(), step, reason, advice }
}
