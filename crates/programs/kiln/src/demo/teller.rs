//! Tells a run while it happens, at a pace that people can follow, and keeps what it told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};
use kiln_engine::{RunEventKind, RunEvent, EventSink};
use kiln_prototype::journal::Event;
use kiln_prototype::step::{Hold, Step};
use tokio::time::Instant;

use super::outcome::StepTold;
use super::report::duration;

/// World seconds per second while an image is made and copied: nothing else happens in that hour and three quarters.
const HOURS: f64 = 900.0;

/// World seconds per second otherwise.
const MINUTES: f64 = 45.0;

/// A step that took less is not worth a line.
const WORTH_A_LINE: f64 = 0.5;

/// How fast the story is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// So many times as fast as it was thought.
    Times(f64),
    /// Without waiting.
    Instant,
}

/// Tells a run.
pub(super) struct Teller {
    pace: Pace,
    /// Set while an image is made: nothing happens on any node then.
    quiet: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    bar: ProgressBar,
    /// Until when the world's time has been told.
    told: Instant,
    /// The step at hand, and when it began.
    step: Option<(Step, Instant)>,
    held: Vec<Hold>,
    steps: Vec<StepTold>,
}

impl Teller {
    pub(super) fn new(pace: Pace, quiet: Arc<AtomicBool>) -> Self {
        // Drawn on a terminal only; indicatif keeps still otherwise.
        let bar = ProgressBar::new(100).with_style(style(false));
        let state = State { bar, told: Instant::now(), step: None, held: Vec::new(), steps: Vec::new() };
        Self { pace, quiet, state: Mutex::new(state) }
    }

    /// The steps so far, each with the time that it took in the world.
    pub(super) fn steps(&self) -> Vec<StepTold> {
        self.state().steps.clone()
    }

    /// Lets the world's time pass before somebody's eyes, without a run.
    pub(super) fn pass(&self, what: &str) {
        let mut state = self.state();
        state.bar.set_message(what.to_owned());
        self.catch_up(&mut state, MINUTES);
        state.bar.finish_and_clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sleeps for the share of the time that the world has passed since. The whole program sleeps: its time stands still meanwhile.
    fn catch_up(&self, state: &mut State, rate: f64) {
        let passed = state.told.elapsed();
        state.told = Instant::now();
        let Pace::Times(times) = self.pace else { return };
        let mut left = passed.div_f64(rate * times);
        while !left.is_zero() {
            state.bar.tick();
            let nap = left.min(Duration::from_millis(80));
            std::thread::sleep(nap);
            left -= nap;
        }
    }

    fn take(&self, news: &RunEventKind) {
        let mut state = self.state();
        let rate = match state.step {
            Some((Step::Publish, _)) => HOURS,
            _ => MINUTES,
        };
        self.catch_up(&mut state, rate);
        match news {
            RunEventKind::Starting { step, held } => state.begin(*step, held),
            RunEventKind::Waiting { step, percent, why, .. } => {
                self.quiet.store(*step == Step::Publish, Ordering::Relaxed);
                state.begin_if_new(*step);
                state.show(*step, why, *percent);
            }
            RunEventKind::Recorded(Event::Succeeded { step, .. } | Event::Failed { step, .. }) => {
                self.quiet.store(false, Ordering::Relaxed);
                state.end(*step);
            }
            RunEventKind::Note(note) => {
                let line = format!("           note: {note}");
                state.say(&line);
            }
            _ => {}
        }
    }
}

impl State {
    fn begin(&mut self, step: Step, held: &[Hold]) {
        self.held = held.to_vec();
        self.begin_if_new(step);
        self.show(step, "", None);
    }

    fn begin_if_new(&mut self, step: Step) {
        if self.step.is_none_or(|(current, _)| current != step) {
            self.step = Some((step, Instant::now()));
        }
    }

    fn show(&self, step: Step, why: &str, percent: Option<f64>) {
        self.bar.set_style(style(percent.is_some()));
        if let Some(percent) = percent {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage")]
            self.bar.set_position(percent.clamp(0.0, 100.0) as u64);
        }
        let held: Vec<String> = self.held.iter().map(ToString::to_string).collect();
        let held = if held.is_empty() { String::new() } else { format!("  [held: {}]", held.join(", ")) };
        self.bar.set_message(if why.is_empty() { format!("{step}{held}") } else { format!("{step}: {why}{held}") });
    }

    fn end(&mut self, step: Step) {
        let Some((_, began)) = self.step.take().filter(|(current, _)| *current == step) else { return };
        let seconds = began.elapsed().as_secs_f64();
        let told = StepTold {
            name: step.to_string(),
            seconds,
            donor_held: self.held.iter().any(|held| (Hold::Node..=Hold::Power).contains(held)),
            held: self.held.iter().map(ToString::to_string).collect(),
        };
        if seconds >= WORTH_A_LINE {
            let mark = if told.donor_held { '*' } else { ' ' };
            let line = format!("{:>9} {mark} {}", duration(seconds), says(step));
            self.say(&line);
        }
        self.steps.push(told);
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl EventSink for Teller {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.take(&news.what);
        Box::pin(std::future::ready(()))
    }
}

/// A step, as one tells it.
fn says(step: Step) -> String {
    let what = match step {
        Step::Gallery => "there is a gallery",
        Step::Definition => "there is an image definition for the pool",
        Step::Claim => "the scale set bears the run's tag",
        Step::SaveRecipe => "the old recipe is kept, for the way back",
        Step::HoldNode => "the donor is cordoned and kept from the autoscaler",
        Step::Protect => "the donor is protected from the scale set",
        Step::Drain => "its pods have left",
        Step::FirstBoot => "it has the unit that makes a clone a node of its own",
        Step::PowerOff => "the donor is off",
        Step::Snapshot => "its disk is copied",
        Step::Start => "the donor is on again",
        Step::AwaitReady => "the donor is Ready",
        Step::Unprotect => "its protection is as it was",
        Step::ReleaseNode => "it takes pods again",
        Step::Publish => "the image version is made and replicated, and nobody gets it yet",
        Step::DeleteSnapshot => "the copy is gone",
        Step::CreateCanary => "a canary is made of exactly this version",
        Step::AwaitCanary => "the canary has been judged",
        Step::Reject => "the version is marked as bad",
        Step::DeleteCanary => "the canary is gone",
        Step::Include => "the version is what new nodes get",
        Step::Model => "the scale set makes nodes from the image",
        Step::StripData => "new nodes get no custom data",
        Step::StripScripts => "new nodes run no bootstrap script",
        Step::Prune => "old versions are gone",
        Step::AddNodes => "new nodes are asked for",
        Step::ReleaseClaim => "the tag is gone",
        Step::Preflight | Step::ClearFailed | Step::Survey => return step.to_string(),
    };
    what.to_owned()
}

fn style(with_bar: bool) -> ProgressStyle {
    let template = if with_bar { "{spinner} {bar:30} {pos} %  {msg}" } else { "{spinner} {msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
