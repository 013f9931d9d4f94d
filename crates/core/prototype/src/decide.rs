//! The next thing to do, from the journal of a run and what was read.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_types::tags::CLAIM_TAG;
use kiln_types::{ErrorClass, OperationHandle, ThawReport};

use crate::action::Action;
use crate::assess::{self, Assessment, Verdict};
use crate::journal::{Event, Memo, Outcome, Output, Route, Run, StepFailure};
use crate::observed::{Fact, Observed};
use crate::step::{Hold, Step};

pub use crate::assess::boot_before;

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read these facts, then decide again.
    Read(Vec<Fact>),
    /// Record `Started`, then act.
    Act { step: Step, action: Action, memo: Option<Memo> },
    /// Record `Started`, then act to release a hold.
    Release { hold: Hold, action: Action },
    /// Wait, then read everything again.
    Wait(Wait),
    /// Record this event, then decide again.
    Record(Event),
    /// The run is over.
    Done(Outcome),
    /// The run must not start. Nothing was changed.
    Refuse(Vec<String>),
    /// A hold cannot be released until a person acts. The run stays open.
    Stuck(Stuck),
}

/// The reason to wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// A long operation of the cloud.
    Operation {
        step: Step,
        handle: OperationHandle,
    },
    For {
        step: Step,
        pause: Duration,
        reason: String,
    },
}

/// A run that cannot continue until a person acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// The holds of the run, last acquired first.
    pub holds: Vec<Hold>,
    pub step: Step,
    pub reason: String,
    /// Instructions for the person.
    pub advice: String,
}

/// Attempts up to the snapshot. The donor is held meanwhile, so they are few. kamino tries three times.
const ATTEMPTS_UP_TO_SNAPSHOT: usize = 4;

/// Attempts after the snapshot. The donor is free again, and giving up would waste an hour's work.
const ATTEMPTS_AFTER_SNAPSHOT: usize = 8;

/// Attempts to release a hold: about forty minutes. A lack of capacity that keeps a machine from starting is over by then or needs a person.
const ATTEMPTS_TO_RELEASE: usize = 12;

/// How often an action may report success without effect. kamino repeats five times.
const MAX_REPEATS: u32 = 5;

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_mins(5);

/// Decides what to do next.
pub fn next(run: &Run, observed: &Observed, now: Timestamp) -> Decision {
    if let Some((_, outcome)) = &run.closed {
        return Decision::Done(outcome.clone());
    }
    let Some(step) = current_step(run) else { return Decision::Record(Event::Closed { outcome: outcome(run) }) };
    if let Some(wait) = wait_for_operation(run, step, now).or_else(|| after_failure(run, step, now)) {
        return wait;
    }
    match assess::assess(step, run, observed) {
        Err(fact) => Decision::Read(vec![fact]),
        Ok(Assessment::Done(output)) => Decision::Record(Event::Succeeded { step, output }),
        Ok(Assessment::Act(action, memo)) => act(run, step, action, memo, now),
        Ok(Assessment::Poll { pause, reason, timeout }) => {
            if now.duration_since(run.last) < signed(timeout) {
                return Decision::Wait(Wait::For { step, pause, reason });
            }
            if step == Step::AwaitCanary {
                return judge_canary(run, observed, now);
            }
            let reason = format!("{reason}, for {} min now", timeout.as_secs() / 60);
            give_up(run, step, reason)
        }
        Ok(Assessment::Fail(failure)) => Decision::Record(Event::Failed { step, failure, permanent: true }),
        Ok(Assessment::Refuse(blockers)) => Decision::Refuse(blockers),
    }
}

/// Rejects the version of a canary that was seen failing, or ends the run without a verdict.
fn judge_canary(run: &Run, observed: &Observed, now: Timestamp) -> Decision {
    let step = Step::AwaitCanary;
    match observed.canary() {
        Err(fact) => Decision::Read(vec![fact]),
        Ok(canary) => match assess::judge(
            &canary.cloned().unwrap_or_default(),
            &run.header.version,
            assess::canary_timeout(run),
            now,
        ) {
            Verdict::Rejected(reason) => {
                Decision::Record(Event::Succeeded { step, output: Some(Output::Rejected(reason)) })
            }
            Verdict::NotProven(reason) => give_up(run, step, reason),
        },
    }
}

/// Waits for the operation of a step. A handle is only a hint: when it has not changed for too long, the resource itself is read.
fn wait_for_operation(run: &Run, step: Step, now: Timestamp) -> Option<Decision> {
    let handle = run.step(step)?.handle.clone()?;
    let in_time = now.duration_since(run.last) < signed(assess::operation_timeout(step));
    in_time.then_some(Decision::Wait(Wait::Operation { step, handle }))
}

/// After a failure: a pause before the next attempt, or stuck if a hold cannot be released.
fn after_failure(run: &Run, step: Step, now: Timestamp) -> Option<Decision> {
    let progress = run.step(step)?;
    let failures = &progress.failures[progress.excused..];
    let (at, failure) = failures.last()?;
    if step.releases().is_some() && failures.len() >= ATTEMPTS_TO_RELEASE {
        return Some(Decision::Stuck(stuck(run, step, failure.message.clone())));
    }
    wait_until(*at + signed(pause(failure.class, failures.len())), step, format!("retrying after: {failure}"), now)
}

/// Acts, unless the same action has been done several times without effect.
fn act(run: &Run, step: Step, action: Action, memo: Option<Memo>, now: Timestamp) -> Decision {
    let repeats =
        run.step(step).and_then(|progress| progress.repeats.filter(|_| progress.is_repeated_by(memo.as_ref())));
    if let Some((count, at)) = repeats {
        if count >= MAX_REPEATS {
            return give_up(run, step, format!("step {step} was done {count} times without effect"));
        }
        // A deleted resource may still be listed for a moment.
        let reason = format!("step {step} has had no effect yet");
        let due = at + signed(pause(ErrorClass::Transient, count as usize));
        if let Some(wait) = wait_until(due, step, reason, now) {
            return wait;
        }
    }
    match step.releases() {
        Some(hold) => Decision::Release { hold, action },
        None => Decision::Act { step, action, memo },
    }
}

fn give_up(run: &Run, step: Step, reason: String) -> Decision {
    if step.releases().is_some() {
        return Decision::Stuck(stuck(run, step, reason));
    }
    let failure = StepFailure::new(ErrorClass::Unexpected, reason);
    Decision::Record(Event::Failed { step, failure, permanent: true })
}

fn wait_until(due: Timestamp, step: Step, reason: String, now: Timestamp) -> Option<Decision> {
    let pause = Duration::try_from(due.duration_since(now)).ok().filter(|pause| !pause.is_zero())?;
    Some(Decision::Wait(Wait::For { step, pause, reason }))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The event to record after an action succeeded; none if the effect is read back instead.
pub fn event_after_action(step: Step, handle: Option<OperationHandle>) -> Option<Event> {
    match handle {
        Some(handle) => Some(Event::Accepted { step, handle }),
        None if step.trusts_response() => Some(Event::Succeeded { step, output: None }),
        None => None,
    }
}

/// The event to record after a live snapshot was created. It counts only if the file systems stayed frozen until it was complete.
pub fn event_after_live_snapshot(run: &Run, report: &ThawReport) -> Event {
    let step = Step::LiveSnapshot;
    if let Some(frozen) = report.frozen_until_requested() {
        let note = format!("the file systems were frozen for {:.1} s", frozen.as_secs_f64());
        return Event::Succeeded { step, output: Some(Output::Note(note)) };
    }
    let message = format!(
        "the file systems of `{}` were thawed before its snapshot was complete; they are frozen for {} s at most",
        run.header.donor.node,
        kiln_types::FREEZE_WINDOW.as_secs()
    );
    event_after_failure(run, step, StepFailure::new(ErrorClass::Transient, message))
}

/// Drops the handle of a succeeded operation and returns the event to record; none if the effect is read back instead.
pub fn event_after_operation(run: &mut Run, step: Step) -> Option<Event> {
    run.clear_handle(step);
    // A step with a target has removed something that was in its way.
    let is_preparation = run.step(step).is_some_and(|progress| matches!(progress.memo, Some(Memo::Target(_))));
    (step.trusts_response() && !is_preparation).then_some(Event::Succeeded { step, output: None })
}

/// The event to record after an action or a read failed. Only failures since the run was last resumed count.
pub fn event_after_failure(run: &Run, step: Step, failure: StepFailure) -> Event {
    let before = run.step(step).map_or(0, |progress| progress.failures.len() - progress.excused);
    let attempts = if step.is_up_to_snapshot() { ATTEMPTS_UP_TO_SNAPSHOT } else { ATTEMPTS_AFTER_SNAPSHOT };
    // A release is retried whatever the error, until the run is stuck.
    let permanent = step.releases().is_none() && (!is_worth_retrying(failure.class) || before + 1 >= attempts);
    Event::Failed { step, failure: failure.shortened(), permanent }
}

/// The event that cancels a run: it fails permanently at the next step that is not a release, so that all that is left is to release its
/// holds. None if that is the case already.
pub fn event_to_cancel(run: &Run, reason: impl Into<String>) -> Option<Event> {
    if run.closed.is_some() || run.failed.is_some() || run.rejected().is_some() {
        return None;
    }
    let mut ahead = Step::ALL.into_iter().filter(|step| step.releases().is_none() && !run.is_done(*step));
    let step = ahead.find(|step| applies(run, *step))?;
    let failure = StepFailure::new(ErrorClass::Refused, reason);
    Some(Event::Failed { step, failure, permanent: true })
}

/// Errors that the next read resolves, because it shows the new state of the resource, or for which there is a fallback.
fn is_resolved_by_reading(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Precondition | ErrorClass::NotFound | ErrorClass::StorageUnsupported)
}

fn is_worth_retrying(class: ErrorClass) -> bool {
    class.is_retryable() || is_resolved_by_reading(class)
}

/// 8, 16, 32 … seconds, as kamino waits.
fn pause(class: ErrorClass, failures: usize) -> Duration {
    if is_resolved_by_reading(class) {
        return Duration::from_secs(1);
    }
    let doublings = u32::try_from(failures + 2).unwrap_or(u32::MAX).min(16);
    Duration::from_secs(1 << doublings).min(MAX_PAUSE)
}

/// The step that the run is at; none if there is nothing left to do.
///
/// A run that failed or was rejected skips all further steps except those that release its holds.
pub fn current_step(run: &Run) -> Option<Step> {
    if run.rejected().is_some() && !run.is_done(Step::Reject) && !run.is_given_up(Step::Reject) {
        return Some(Step::Reject);
    }
    if run.rejected().is_some() || run.failed.is_some() {
        return run.holds().first().map(|hold| hold.released_by());
    }
    Step::ALL.into_iter().find(|step| !run.is_done(*step) && applies(run, *step))
}

/// Whether a step belongs to this run, as far as is known.
fn applies(run: &Run, step: Step) -> bool {
    if let Some(hold) = step.releases() {
        return run.is_holding(hold);
    }
    match step {
        Step::Reject => false,
        Step::Protect | Step::Drain | Step::PowerOff | Step::Snapshot if run.header.options.live => false,
        Step::LiveSnapshot if !run.header.options.live => false,
        Step::CreateCanary => run.header.options.canary,
        Step::AwaitCanary => run.is_begun(Step::CreateCanary),
        step if step.is_donor_step() => run.route() == Route::Full,
        _ => true,
    }
}

fn outcome(run: &Run) -> Outcome {
    let version = run.header.version.clone();
    if let Some(reason) = run.rejected() {
        return Outcome::Rejected { version, reason: reason.to_owned() };
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
            "start instance {} of `{pool}` (`az vmss start --instance-ids {} --name {pool}`) or delete it; then run \
             `kiln prototype resume`",
            donor.instance, donor.instance
        ),
        Step::Thaw => format!(
            "check that `{}` can write to its disk; systemd thaws its file systems after {} s by itself, and a restart of the \
             instance does too; then run `kiln prototype resume`",
            donor.node,
            kiln_types::THAW_TIMER.as_secs()
        ),
        Step::AwaitReady => format!(
            "find out why the kubelet on `{}` does not report (see its serial console), and repair or delete the node; then run \
             `kiln prototype resume`",
            donor.node
        ),
        Step::ReleaseClaim => format!(
            "set the tag `{CLAIM_TAG}` of `{pool}` to an empty value, or restore the permission to write it; then run \
             `kiln prototype resume`"
        ),
        Step::DeleteCanary => format!("delete scale set `{}`; then run `kiln prototype resume`", run.header.canary),
        _ => "fix the problem above; then run `kiln prototype resume`".to_owned(),
    };
    Stuck { holds: run.holds(), step, reason, advice }
}
