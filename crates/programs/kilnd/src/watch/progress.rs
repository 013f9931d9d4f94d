//! When a trial has passed or failed. Pure: results and time go in, the decision comes out.
//!
//! A revert restarts the kubelet, and a fleet follows the same document. So a trial only fails for a reason that the document can have
//! caused. Time in which the API server cannot be reached does not count, up to a limit that no outage should reach: a node that its own
//! document has cut off still returns by itself. Each machine adds its own delay to the time limits, so that reverts are spread.

use std::time::Duration;

use super::schedule::{number, part};

/// How long all gates have to pass without interruption. A kubelet that fails on its configuration does so within seconds of its start, and
/// one that crashes while it works usually within half a minute.
const STEADY: Duration = Duration::from_secs(30);
/// How long they have to pass after systemd had to restart the kubelet. Doubled by each further restart.
const STEADY_AFTER_RESTART: Duration = Duration::from_mins(1);
/// How long a trial may be undecided because the API server cannot be reached. Longer than outages that people leave alone.
const LONGEST_OUTAGE: Duration = Duration::from_hours(4);

/// The result of a health gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GateResult {
    Passed,
    Failed(String),
    /// The document cannot be judged by it: the API server or systemd cannot be reached, or the gate did not pass before the change either.
    Unknown(String),
}

/// The kubelet's process, as systemd knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KubeletRun {
    /// How often systemd restarted it by itself (`NRestarts`). A start by a person or by kilnd resets the number.
    pub(super) restarts: u32,
    /// When the process started, in microseconds since boot.
    pub(super) started: u64,
}

/// The observations of one check of the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// Results by the names of the gates.
    pub(super) gates: Vec<(String, GateResult)>,
    /// None if systemd or the unit is missing.
    pub(super) kubelet: Option<KubeletRun>,
    /// Whether there is a generation to revert to. If not, a node that cannot reach its API server is reported as unhealthy.
    pub(super) can_revert: bool,
}

/// The progress of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialProgress {
    Running,
    Passed,
    Failed(String),
}

/// The time limits of a trial on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// For gates that fail.
    within: Duration,
    /// For gates that are unknown.
    outage: Duration,
}

impl Limits {
    /// The limits of a document, plus this machine's own delay.
    pub(super) fn new(within: Duration, spread: Duration, seed: u64, hash: &str) -> Self {
        let delay = part(spread.max(within / 4), number(seed, hash));
        let outage = LONGEST_OUTAGE.max(within);
        Self { within: within + delay, outage: outage + delay + part(outage / 2, number(seed, hash)) }
    }
}

/// The progress of a running trial.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Since when the time limit counts.
    since: Duration,
    /// Since when the result is unknown.
    unknown: Option<Duration>,
    /// Since when all gates pass.
    steady: Option<Duration>,
    /// The kubelet's process at the last check.
    kubelet: Option<KubeletRun>,
    /// How often systemd restarted the kubelet during the trial.
    restarts: u32,
}

impl Progress {
    /// A trial that started at this time.
    pub(super) fn new(since: Duration) -> Self {
        Self { since, unknown: None, steady: None, kubelet: None, restarts: 0 }
    }

    /// Since when the time limit counts.
    pub(super) fn since(&self) -> Duration {
        self.since
    }

    /// Whether the trial has been undecided for longer than its time limit.
    pub(super) fn is_stalled(&self, now: Duration, within: Duration) -> bool {
        self.unknown.is_some_and(|since| now.saturating_sub(since) >= within)
    }

    /// Evaluates one check. An overdue trial does not fail again.
    pub(super) fn evaluate(
        &mut self,
        now: Duration,
        limits: Limits,
        checked: &Checked,
        overdue: bool,
    ) -> TrialProgress {
        self.note_kubelet(checked.kubelet);
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for (name, result) in &checked.gates {
            match result {
                GateResult::Passed => {}
                GateResult::Unknown(why) if checked.can_revert => unknown.push(format!("{name}: {why}")),
                GateResult::Failed(why) | GateResult::Unknown(why) => failed.push(format!("{name}: {why}")),
            }
        }
        if failed.is_empty() && unknown.is_empty() {
            return self.pass(now, limits, overdue);
        }
        self.steady = None;
        if failed.is_empty() {
            let since = *self.unknown.get_or_insert(now);
            return fail_after(now, since, limits.outage, overdue, &unknown);
        }
        self.end_outage(now);
        failed.extend(self.restart_count());
        fail_after(now, self.since, limits.within, overdue, &failed)
    }

    fn pass(&mut self, now: Duration, limits: Limits, overdue: bool) -> TrialProgress {
        self.end_outage(now);
        let since = *self.steady.get_or_insert(now);
        if now.saturating_sub(since) >= self.required() {
            return TrialProgress::Passed;
        }
        match self.restart_count() {
            Some(count) => fail_after(now, self.since, limits.within, overdue, &[count]),
            None => TrialProgress::Running,
        }
    }

    /// Restarts the time limit after an outage: the cluster needs time to notice that the node is Ready.
    fn end_outage(&mut self, now: Duration) {
        if self.unknown.take().is_some() {
            self.since = now;
        }
    }

    /// Compares the kubelet's process with that of the last check. A new process interrupts the steady time.
    fn note_kubelet(&mut self, kubelet: Option<KubeletRun>) {
        if let (Some(before), Some(now)) = (self.kubelet, kubelet)
            && before != now
        {
            self.steady = None;
            self.restarts = self.restarts.saturating_add(now.restarts.saturating_sub(before.restarts));
        }
        self.kubelet = kubelet.or(self.kubelet);
    }

    /// How long the gates have to pass.
    fn required(&self) -> Duration {
        match self.restarts.checked_sub(1) {
            None => STEADY,
            Some(more) => STEADY_AFTER_RESTART.saturating_mul(1 << more.min(10)),
        }
    }

    fn restart_count(&self) -> Option<String> {
        (self.restarts > 0).then(|| format!("systemd restarted the kubelet {} times during the trial", self.restarts))
    }
}

fn fail_after(now: Duration, since: Duration, limit: Duration, overdue: bool, reasons: &[String]) -> TrialProgress {
    let waited = now.saturating_sub(since);
    if waited >= limit && !overdue {
        return TrialProgress::Failed(format!("after {} s: {}", waited.as_secs(), reasons.join("; ")));
    }
    TrialProgress::Running
}

#[cfg(test)]
mod tests;
