//! Prints the steps of a run at a speed that people can follow, and collects them for the report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};
use kiln_engine::{EventSink, RunEvent, RunEventKind};
use kiln_prototype::journal::Event;
use kiln_prototype::step::{Hold, Step};
use tokio::time::Instant;

use super::outcome::StepRow;
use super::report::duration;

/// Simulated seconds per second while the image is created, an hour and three quarters in which nothing else happens.
const HOURS: f64 = 900.0;

/// Simulated seconds per second otherwise.
const MINUTES: f64 = 45.0;

/// Shorter steps are not printed.
const MIN_PRINTED: f64 = 0.5;

/// How fast the demo runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// A multiple of the normal speed.
    Times(f64),
    Instant,
}

/// Prints a run.
pub(super) struct Teller {
    pace: Pace,
    /// Set while an image is created, when nothing happens on any node.
    quiet: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    bar: ProgressBar,
    /// The simulated time up to which the output has caught up.
    shown: Instant,
    /// The current step and its start.
    step: Option<(Step, Instant)>,
    holds: Vec<Hold>,
    steps: Vec<StepRow>,
}

impl Teller {
    pub(super) fn new(pace: Pace, quiet: Arc<AtomicBool>) -> Self {
        // indicatif draws only on a terminal.
        let bar = ProgressBar::new(100).with_style(style(false));
        let state = State { bar, shown: Instant::now(), step: None, holds: Vec::new(), steps: Vec::new() };
        Self { pace, quiet, state: Mutex::new(state) }
    }

    /// The steps so far, with their simulated durations.
    pub(super) fn steps(&self) -> Vec<StepRow> {
        self.state().steps.clone()
    }

    /// Shows the simulated time that passed without a run.
    pub(super) fn pass(&self, what: &str) {
        let mut state = self.state();
        state.bar.set_message(what.to_owned());
        self.catch_up(&mut state, MINUTES);
        state.bar.finish_and_clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sleeps in proportion to the simulated time that has passed. The whole program sleeps, so that simulated time does not advance meanwhile.
    fn catch_up(&self, state: &mut State, rate: f64) {
        let passed = state.shown.elapsed();
        state.shown = Instant::now();
        let Pace::Times(times) = self.pace else { return };
        let mut left = passed.div_f64(rate * times);
        while !left.is_zero() {
            state.bar.tick();
            let nap = left.min(Duration::from_millis(80));
            std::thread::sleep(nap);
            left -= nap;
        }
    }

    fn show(&self, event: &RunEventKind) {
        let mut state = self.state();
        let rate = match state.step {
            Some((Step::Publish, _)) => HOURS,
            _ => MINUTES,
        };
        self.catch_up(&mut state, rate);
        match event {
            RunEventKind::Starting { step, holds } => state.begin(*step, holds),
            RunEventKind::Waiting { step, percent, reason, .. } => {
                self.quiet.store(*step == Step::Publish, Ordering::Relaxed);
                state.begin_if_new(*step);
                state.show(*step, reason, *percent);
            }
            RunEventKind::Recorded(Event::Succeeded { step, .. } | Event::Failed { step, .. }) => {
                self.quiet.store(false, Ordering::Relaxed);
                state.end(*step);
            }
            RunEventKind::Note(note) => {
                let line = format!("           note: {note}");
                state.print(&line);
            }
            _ => {}
        }
    }
}

impl State {
    fn begin(&mut self, step: Step, holds: &[Hold]) {
        self.holds = holds.to_vec();
        self.begin_if_new(step);
        self.show(step, "", None);
    }

    fn begin_if_new(&mut self, step: Step) {
        if self.step.is_none_or(|(current, _)| current != step) {
            self.step = Some((step, Instant::now()));
        }
    }

    fn show(&self, step: Step, reason: &str, percent: Option<f64>) {
        self.bar.set_style(style(percent.is_some()));
        if let Some(percent) = percent {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage")]
            self.bar.set_position(percent.clamp(0.0, 100.0) as u64);
        }
        let holds: Vec<String> = self.holds.iter().map(ToString::to_string).collect();
        let holds = if holds.is_empty() { String::new() } else { format!("  [holds: {}]", holds.join(", ")) };
        self.bar.set_message(if reason.is_empty() {
            format!("{step}{holds}")
        } else {
            format!("{step}: {reason}{holds}")
        });
    }

    fn end(&mut self, step: Step) {
        let Some((_, began)) = self.step.take().filter(|(current, _)| *current == step) else { return };
        let seconds = began.elapsed().as_secs_f64();
        let row = StepRow {
            name: step.to_string(),
            seconds,
            donor_held: self.holds.iter().any(|hold| (Hold::Node..=Hold::Power).contains(hold)),
            holds: self.holds.iter().map(ToString::to_string).collect(),
        };
        if seconds >= MIN_PRINTED {
            let mark = if row.donor_held { '*' } else { ' ' };
            let line = format!("{:>9} {mark} {}", duration(seconds), describe(step));
            self.print(&line);
        }
        self.steps.push(row);
    }

    fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl EventSink for Teller {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.show(&event.kind);
        Box::pin(std::future::ready(()))
    }
}

/// Describes what a step has done, in a sentence.
fn describe(step: Step) -> String {
    let what = match step {
        Step::Gallery => "the gallery exists",
        Step::Definition => "the image definition exists",
        Step::Claim => "the scale set is tagged with the run",
        Step::SaveRecipe => "the original recipe is saved",
        Step::HoldNode => "the donor is cordoned and its scale-down disabled",
        Step::Protect => "the donor is protected from the scale set",
        Step::Drain => "the donor is drained",
        Step::FirstBoot => "the donor has the unit that resets a clone's identity",
        Step::PowerOff => "the donor is off",
        Step::Snapshot => "the snapshot of its disk exists",
        Step::Start => "the donor is running again",
        Step::AwaitReady => "the donor is Ready",
        Step::Unprotect => "its protection is restored",
        Step::ReleaseNode => "its cordon is released",
        Step::Publish => "the image version is created and replicated, still excluded",
        Step::DeleteSnapshot => "the snapshot is deleted",
        Step::CreateCanary => "a canary is created from exactly this version",
        Step::AwaitCanary => "the canary has been tested",
        Step::Reject => "the version is rejected",
        Step::DeleteCanary => "the canary is deleted",
        Step::Include => "the version is included: new nodes get it",
        Step::Model => "the scale set creates nodes from the image",
        Step::StripData => "new nodes get no custom data",
        Step::StripScripts => "new nodes run no bootstrap script",
        Step::Prune => "old versions are deleted",
        Step::AddNodes => "new nodes are requested",
        Step::ReleaseClaim => "the run's tag is removed",
        Step::Preflight | Step::ClearFailed | Step::Survey => return step.to_string(),
    };
    what.to_owned()
}

fn style(with_bar: bool) -> ProgressStyle {
    let template = if with_bar { "{spinner} {bar:30} {pos} %  {msg}" } else { "{spinner} {msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
