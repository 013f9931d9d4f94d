//! Prints the progress of a run at a readable speed, and records the steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};
use kiln_engine::{EventSink, RunEvent, RunEventKind};
use kiln_prototype::journal::Event;
use kiln_prototype::step::{Hold, Step};
use tokio::time::Instant;

use super::outcome::StepTime;
use super::report::duration;

/// Simulated seconds per second while an image is created and replicated, which takes 1 h 45 min.
const PUBLISH_RATE: f64 = 900.0;

/// Simulated seconds per second at all other times.
const RATE: f64 = 45.0;

/// Shorter steps are not printed.
const MIN_SECONDS: f64 = 0.5;

/// Playback speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// A multiple of the normal speed.
    Times(f64),
    /// Without delays.
    Instant,
}

/// Receives the events of a run and prints them.
pub(super) struct Narrator {
    pace: Pace,
    /// Set while an image is created, when nothing happens on any node.
    quiet: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    bar: ProgressBar,
    /// Simulated time up to which the user has seen the run.
    shown: Instant,
    /// The current step and its start.
    step: Option<(Step, Instant)>,
    holds: Vec<Hold>,
    steps: Vec<StepTime>,
}

impl Narrator {
    pub(super) fn new(pace: Pace, quiet: Arc<AtomicBool>) -> Self {
        // indicatif draws on a terminal only.
        let bar = ProgressBar::new(100).with_style(style(false));
        let state = State { bar, shown: Instant::now(), step: None, holds: Vec::new(), steps: Vec::new() };
        Self { pace, quiet, state: Mutex::new(state) }
    }

    /// The steps so far, with their simulated durations.
    pub(super) fn steps(&self) -> Vec<StepTime> {
        self.state().steps.clone()
    }

    /// Waits for the time that has passed in the simulation, outside of a run.
    pub(super) fn pass(&self, activity: &str) {
        let mut state = self.state();
        state.bar.set_message(activity.to_owned());
        self.catch_up(&mut state, RATE);
        state.bar.finish_and_clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sleeps for the simulated time since the last call, divided by the rate. The whole program sleeps, so the simulated clock stops.
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
            Some((Step::Publish, _)) => PUBLISH_RATE,
            _ => RATE,
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
        let step_time = StepTime {
            name: step.to_string(),
            seconds,
            donor_held: self.holds.iter().any(|hold| (Hold::Node..=Hold::Power).contains(hold)),
            holds: self.holds.iter().map(ToString::to_string).collect(),
        };
        if seconds >= MIN_SECONDS {
            let mark = if step_time.donor_held { '*' } else { ' ' };
            let line = format!("{:>9} {mark} {}", duration(seconds), description(step));
            self.print(&line);
        }
        self.steps.push(step_time);
    }

    fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl EventSink for Narrator {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.show(&event.kind);
        Box::pin(std::future::ready(()))
    }
}

/// The result of a step.
fn description(step: Step) -> String {
    let text = match step {
        Step::Gallery => "gallery created",
        Step::Definition => "image definition created",
        Step::Claim => "scale set tagged with the run",
        Step::SaveRecipe => "original recipe saved for rollback",
        Step::HoldNode => "donor cordoned and protected from the cluster autoscaler",
        Step::Protect => "donor protected from scale-in",
        Step::Drain => "donor drained",
        Step::FirstBoot => "first-boot unit installed on the donor",
        Step::PowerOff => "donor stopped",
        Step::Snapshot => "snapshot created",
        Step::LiveSnapshot => "snapshot of the running donor created",
        Step::Thaw => "donor's file systems thawed",
        Step::Start => "donor started",
        Step::AwaitReady => "donor Ready",
        Step::Unprotect => "donor's scale-in protection restored",
        Step::ReleaseNode => "donor uncordoned",
        Step::Publish => "image version created and replicated, not yet used for new nodes",
        Step::DeleteSnapshot => "snapshot deleted",
        Step::CreateCanary => "canary created from the image version",
        Step::AwaitCanary => "canary checked",
        Step::Reject => "image version rejected",
        Step::DeleteCanary => "canary deleted",
        Step::Include => "image version included: `latest` resolves to it",
        Step::Model => "scale set switched to the image",
        Step::StripData => "custom data removed from the scale set",
        Step::StripScripts => "bootstrap script removed from the scale set",
        Step::Prune => "old image versions deleted",
        Step::AddNodes => "new nodes requested",
        Step::ReleaseClaim => "run tag removed from the scale set",
        Step::Preflight | Step::ClearFailed | Step::Survey => return step.to_string(),
    };
    text.to_owned()
}

fn style(with_bar: bool) -> ProgressStyle {
    let template = if with_bar { "{spinner} {bar:30} {pos} %  {msg}" } else { "{spinner} {msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
