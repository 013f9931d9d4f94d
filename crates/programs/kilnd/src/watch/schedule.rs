//! The schedule of `kilnd watch`: which tasks are due when. Pure: time goes in, tasks come out. [`super::progress`] decides when a trial has
//! passed or failed.

use std::time::Duration;

use kiln_node_config::NodeConfig;
use kiln_types::hash::splitmix64;

use super::progress::{Checked, Limits, Progress, TrialProgress};

/// Default interval between polls for a document.
const POLL: Duration = Duration::from_mins(5);
/// The metadata service allows five requests per second and machine; no document can make a node poll more often than this.
const SHORTEST_POLL: Duration = Duration::from_secs(5);
/// The first poll comes within this time after the start, so that a machine that was off for a week does not wait a whole interval.
const FIRST_POLL: Duration = Duration::from_secs(20);
/// How often kilnd reads the Node object. 5,000 nodes make 170 requests per second, a third of what their leases cause.
const SYNC: Duration = Duration::from_secs(30);
/// How often gates are checked during a trial.
const PROBE: Duration = Duration::from_secs(2);
/// Default time limit of a trial. A restarted kubelet is ready within half a minute; with a slow disk and many images it takes a few minutes.
const WITHIN: Duration = Duration::from_mins(5);
/// How often gates are checked after a trial failed without a generation to revert to.
const OVERDUE: Duration = Duration::from_secs(15);

/// The intervals that a document sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Interval between polls for a newer document.
    pub(super) poll: Duration,
    /// Window over which nodes spread a disruptive change.
    pub(super) spread: Duration,
    /// Time limit of a trial.
    pub(super) within: Duration,
}

/// A task that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Read and update the Node object.
    SyncNode,
    /// Poll for a document.
    Poll,
    /// Check the gates.
    CheckGates,
    /// Apply the waiting candidate.
    Apply,
}

#[derive(Clone, Debug)]
struct RunningTrial {
    hash: String,
    progress: Progress,
    /// The trial failed and there was no generation to revert to.
    overdue: bool,
}

/// The times of the next tasks.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// Distinguishes this machine from others.
    seed: u64,
    /// Counts jittered intervals.
    turn: u64,
    poll_at: Duration,
    sync_at: Duration,
    check_at: Duration,
    apply_at: Option<Duration>,
    trial: Option<RunningTrial>,
    /// The last value of the annotation that requests a poll.
    check_annotation: Option<String>,
    /// Whether the annotation was read before.
    has_read_annotation: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self { poll: POLL, spread: Duration::ZERO, within: WITHIN }
    }
}

impl Timing {
    /// The timing of a document. Without a spread, nodes differ by the jitter of their polls.
    pub(super) fn from_config(document: &NodeConfig) -> Self {
        let (update, health) = (&document.spec.update, &document.spec.health);
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Self {
            poll: if update.poll_seconds == 0 { POLL } else { seconds(update.poll_seconds).max(SHORTEST_POLL) },
            spread: seconds(update.spread_seconds),
            within: if health.within_seconds == 0 { WITHIN } else { seconds(health.within_seconds) },
        }
    }
}

impl Schedule {
    /// A schedule that starts now.
    pub(super) fn new(now: Duration, seed: u64) -> Self {
        Self {
            seed,
            turn: 0,
            poll_at: now + part(FIRST_POLL, splitmix64(seed)),
            sync_at: now,
            check_at: now,
            apply_at: None,
            trial: None,
            check_annotation: None,
            has_read_annotation: false,
        }
    }

    /// The number that distinguishes this machine from others.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The tasks that are due. Recurring tasks are scheduled again.
    pub(super) fn due(&mut self, now: Duration, timing: Timing) -> Vec<Task> {
        let mut tasks = Vec::new();
        if self.trial.is_some() && now >= self.check_at {
            let overdue = self.trial.as_ref().is_some_and(|trial| trial.overdue);
            self.check_at = now + if overdue { OVERDUE } else { PROBE };
            tasks.push(Task::CheckGates);
        }
        if now >= self.sync_at {
            self.sync_at = now + self.jittered(SYNC);
            tasks.push(Task::SyncNode);
        }
        if now >= self.poll_at {
            self.poll_at = now + self.jittered(timing.poll);
            tasks.push(Task::Poll);
        }
        // One trial at a time, except after one that failed without a revert, and during an outage, which may need another document.
        let busy =
            self.trial.as_ref().is_some_and(|trial| !trial.overdue && !trial.progress.is_stalled(now, timing.within));
        if !busy && self.apply_at.is_some_and(|at| now >= at) {
            self.apply_at = None;
            tasks.push(Task::Apply);
        }
        tasks
    }

    /// When the next task is due.
    pub(super) fn next_wake(&self) -> Duration {
        let next = self.poll_at.min(self.sync_at);
        let Some(trial) = &self.trial else { return self.apply_at.map_or(next, |at| next.min(at)) };
        // A waiting candidate is looked at with each check of the gates.
        let next = next.min(self.check_at);
        if trial.overdue { self.apply_at.map_or(next, |at| next.min(at)) } else { next }
    }

    /// Polls for a document at this time.
    pub(super) fn poll_at(&mut self, now: Duration) {
        self.poll_at = now;
    }

    /// Updates the Node object at once.
    pub(super) fn sync_now(&mut self, now: Duration) {
        self.sync_at = now;
    }

    /// Records the value of the annotation that requests a poll, and polls if it changed. The first value that is read does not count, since
    /// the first poll comes anyway.
    pub(super) fn note_annotation(&mut self, now: Duration, value: Option<&str>) -> bool {
        let changed = self.has_read_annotation && value.is_some() && self.check_annotation.as_deref() != value;
        (self.has_read_annotation, self.check_annotation) = (true, value.map(str::to_owned));
        if changed {
            self.poll_at(now);
        }
        changed
    }

    /// Schedules the waiting candidate and returns the delay. With `spread` each machine has its own delay within the window, derived from the
    /// machine and the document, so that a restart of kilnd does not change it.
    pub(super) fn schedule_apply(&mut self, now: Duration, timing: Timing, hash: &str, spread: bool) -> Duration {
        let delay = if spread { part(timing.spread, number(self.seed, hash)) } else { Duration::ZERO };
        self.apply_at = Some(now + delay);
        delay
    }

    /// Cancels the waiting candidate.
    pub(super) fn cancel_apply(&mut self) {
        self.apply_at = None;
    }

    /// Sets the generation on trial and the start of the trial.
    pub(super) fn set_trial(&mut self, trial: Option<(&str, Duration)>) {
        match trial {
            None => self.trial = None,
            Some((hash, _)) if self.trial.as_ref().is_some_and(|trial| trial.hash == hash) => {}
            Some((hash, since)) => {
                self.trial =
                    Some(RunningTrial { hash: hash.to_owned(), progress: Progress::new(since), overdue: false });
                self.check_at = since;
            }
        }
    }

    /// Marks a trial that failed without a generation to revert to. Its gates are checked less often, and a newer document may be applied.
    pub(super) fn mark_overdue(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.overdue = true;
        }
    }

    /// Evaluates the results of the gates ([`Progress::evaluate`]).
    pub(super) fn evaluate(&mut self, now: Duration, timing: Timing, checked: &Checked) -> TrialProgress {
        let seed = self.seed;
        let Some(trial) = &mut self.trial else { return TrialProgress::Running };
        let limits = Limits::new(timing.within, timing.spread, seed, &trial.hash);
        let progress = trial.progress.evaluate(now, limits, checked, trial.overdue);
        if progress == TrialProgress::Passed {
            self.trial = None;
        }
        progress
    }

    /// Since when the time limit of the trial counts. Later than its start if the API server could not be reached meanwhile.
    pub(super) fn trial_since(&self) -> Option<(&str, Duration)> {
        self.trial.as_ref().map(|trial| (trial.hash.as_str(), trial.progress.since()))
    }

    /// A tenth more or less, so that machines which started together drift apart.
    fn jittered(&mut self, time: Duration) -> Duration {
        self.turn += 1;
        time * 9 / 10 + part(time / 5, splitmix64(self.seed ^ self.turn))
    }
}

/// A number that differs between machines and texts.
pub(super) fn number(seed: u64, text: &str) -> u64 {
    text.bytes().fold(seed, |number, byte| splitmix64(number ^ u64::from(byte)))
}

/// A pseudo-random part of a duration.
pub(super) fn part(time: Duration, number: u64) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { Duration::ZERO } else { Duration::from_millis(number % millis) }
}

#[cfg(test)]
mod tests {
    use super::super::progress::GateResult;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timing() -> Timing {
        Timing { poll: Duration::from_mins(1), spread: Duration::from_mins(10), within: Duration::from_mins(2) }
    }

    fn checked(node: GateResult) -> Checked {
        let gates = vec![("kubelet".to_owned(), GateResult::Passed), ("node".to_owned(), node)];
        Checked { gates, kubelet: None, can_revert: true }
    }

    fn passing() -> Checked {
        checked(GateResult::Passed)
    }

    fn failing(result: GateResult) -> Checked {
        checked(result)
    }

    /// Runs the schedule and calls back for each task.
    fn run(schedule: &mut Schedule, until: Duration, mut on: impl FnMut(&mut Schedule, Duration, Task)) {
        let (mut now, mut still) = (Duration::ZERO, 0);
        while now < until {
            for task in schedule.due(now, timing()) {
                on(schedule, now, task);
            }
            let wake = schedule.next_wake();
            still = if wake > now { 0 } else { still + 1 };
            assert!(still < 3, "the schedule never sleeps: {now:?}");
            now = wake.max(now);
        }
    }

    #[test]
    fn polls_happen_once_per_interval_and_differ_between_machines() {
        let polls = |seed| {
            let mut polls = Vec::new();
            run(&mut Schedule::new(Duration::ZERO, seed), Duration::from_hours(1), |_, now, task| {
                if task == Task::Poll {
                    polls.push(now);
                }
            });
            polls
        };
        let (one, two) = (polls(1), polls(2));
        assert!((54..=68).contains(&one.len()), "{}", one.len());
        assert!(one[0] <= FIRST_POLL && two[0] <= FIRST_POLL);
        let together = one.iter().filter(|a| two.iter().any(|b| a.abs_diff(*b) < SECOND)).count();
        assert!(together < one.len() / 3, "{together} of {}", one.len());
    }

    #[test]
    fn fleet_spreads_a_change_over_the_whole_window() {
        let delays: Vec<u64> = (0..1000)
            .map(|seed| Schedule::new(Duration::ZERO, seed).schedule_apply(SECOND, timing(), "hash", true).as_secs())
            .collect();
        for minute in 0..10 {
            let count = delays.iter().filter(|delay| *delay / 60 == minute).count();
            assert!((60..140).contains(&count), "{count} of 1000 nodes in minute {minute}");
        }
        let again = Schedule::new(Duration::ZERO, 7).schedule_apply(SECOND, timing(), "hash", true);
        assert_eq!(
            Schedule::new(Duration::ZERO, 7).schedule_apply(SECOND, timing(), "hash", true),
            again,
            "a restart keeps the delay"
        );
        assert_ne!(Schedule::new(Duration::ZERO, 7).schedule_apply(SECOND, timing(), "other", true), again);
        assert_eq!(Schedule::new(Duration::ZERO, 7).schedule_apply(SECOND, timing(), "hash", false), Duration::ZERO);
    }

    #[test]
    fn candidate_is_applied_after_its_delay_and_not_during_a_trial() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        let delay = schedule.schedule_apply(Duration::ZERO, timing(), "b", true);
        let mut applied = Vec::new();
        run(&mut schedule.clone(), Duration::from_mins(20), |_, now, task| {
            if task == Task::Apply {
                applied.push(now);
            }
        });
        assert_eq!(applied, [delay]);

        schedule.set_trial(Some(("a", Duration::ZERO)));
        let mut applied = Vec::new();
        run(&mut schedule, Duration::from_mins(40), |schedule, now, task| match task {
            Task::CheckGates if now > Duration::from_mins(30) => drop(schedule.evaluate(now, timing(), &passing())),
            Task::CheckGates => drop(schedule.evaluate(now, timing(), &failing(GateResult::Failed("x".to_owned())))),
            Task::Apply => applied.push(now),
            _ => {}
        });
        assert_eq!(applied.len(), 1);
        assert!(applied[0] > Duration::from_mins(30), "{applied:?}");
    }

    #[test]
    fn overdue_trial_is_still_checked_and_can_pass() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        schedule.set_trial(Some(("a", Duration::ZERO)));
        let late = Duration::from_mins(5);
        assert!(matches!(
            schedule.evaluate(late, timing(), &failing(GateResult::Failed("x".to_owned()))),
            TrialProgress::Failed(_)
        ));
        schedule.mark_overdue();
        assert_eq!(
            schedule.evaluate(late * 2, timing(), &failing(GateResult::Failed("x".to_owned()))),
            TrialProgress::Running,
            "reported once"
        );
        schedule.schedule_apply(late * 2, timing(), "b", false);
        assert!(schedule.due(late * 2, timing()).contains(&Task::Apply), "a newer document may be applied");
        assert_eq!(schedule.evaluate(late * 3, timing(), &passing()), TrialProgress::Running);
        assert_eq!(schedule.evaluate(late * 4, timing(), &passing()), TrialProgress::Passed);
    }

    #[test]
    fn changed_annotation_triggers_a_poll() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        schedule.due(Duration::from_mins(1), timing());
        let now = Duration::from_mins(1) + SECOND;
        assert!(!schedule.note_annotation(now, Some("1")), "the first value does not count");
        assert!(!schedule.note_annotation(now, Some("1")));
        assert!(!schedule.due(now, timing()).contains(&Task::Poll));
        assert!(schedule.note_annotation(now, Some("2")));
        assert!(schedule.due(now, timing()).contains(&Task::Poll));
        assert!(!schedule.note_annotation(now, None), "removing it does not trigger a poll");
        assert!(schedule.note_annotation(now, Some("2")));
    }

    #[test]
    fn poll_interval_has_a_minimum() {
        let mut document = NodeConfig::default();
        assert_eq!(Timing::from_config(&document), Timing::default());
        document.spec.update.poll_seconds = 1;
        document.spec.health.within_seconds = 30;
        assert_eq!(Timing::from_config(&document).poll, SHORTEST_POLL);
        assert_eq!(Timing::from_config(&document).within, SECOND * 30);
    }
}
