//! What a run writes down before and after each act, and what can be told from it afterwards.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kiln_types::{ErrorClass, OperationHandle, Protection, Revision, VersionNumber};
use serde::{Deserialize, Serialize};

use crate::run::{Header, RunId};
use crate::step::{Held, Step};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub run: RunId,
    /// When it was written.
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The run began.
    Opened {
        /// What was settled then.
        header: Box<Header>,
    },
    /// Somebody goes on with a run that nobody carries any more. What failed before is excused.
    Resumed { who: String },
    /// The step's act comes next. Written before it.
    Started {
        step: Step,
        /// What has to be known to give back what it takes, or to tell whether it took place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memo: Option<Memo>,
    },
    /// The cloud took the act up and goes on with it by itself.
    Accepted {
        step: Step,
        /// By which it is asked after.
        handle: OperationHandle,
    },
    /// The step is done, or was found done.
    Succeeded {
        step: Step,
        /// What later steps need of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Output>,
    },
    /// An act did not work.
    Failed {
        step: Step,
        failure: StepFailure,
        /// No further try: the run gives back what it holds and ends.
        for_good: bool,
    },
    /// The run is over.
    Closed {
        /// How it ended.
        outcome: Outcome,
    },
}

/// What has to be known of the time before an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Memo {
    /// The protection of the donor.
    Protection(Protection),
    /// The boot that the node was in.
    Boot(Option<String>),
    /// How many instances the pool wanted, and what it was when it was read.
    Capacity {
        /// So many.
        instances: u32,
        /// The mark of that reading.
        revision: Option<Revision>,
    },
    /// What goes away, where a step may have to remove several things one after the other.
    Target(String),
}

/// What later steps need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Output {
    /// How much there is to do.
    Route(Route),
    /// The canary spoke against the version, for this reason.
    Bad(String),
    /// A sentence for the history.
    Said(String),
}

/// How much of the work an earlier run has done today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Route {
    /// Nothing.
    WholeWay,
    /// The disk is copied.
    FromCopy,
    /// The version exists or is being made.
    FromVersion,
}

/// Why a step did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepFailure {
    /// What it means.
    pub class: ErrorClass,
    pub message: String,
}

/// Clouds say a lot when they fail. A journal has to hold every failure of a run, and whoever reads it the first sentences.
const LONGEST_MESSAGE: usize = 600;

impl StepFailure {
    /// A failure, with as much of its sentence as a journal keeps.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }.shortened()
    }

    pub(crate) fn shortened(mut self) -> Self {
        if let Some((end, _)) = self.message.char_indices().nth(LONGEST_MESSAGE) {
            self.message.truncate(end);
            self.message.push('…');
        }
        self
    }
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// New nodes are made from this version.
    Completed { version: VersionNumber },
    /// Everything is given back. New nodes are made as before, or from the new version where the step comes after `include`.
    Failed { step: Step, failure: StepFailure },
    /// The canary did not join. The version stays excluded, and the line names it as bad.
    Condemned { version: VersionNumber, reason: String },
}

/// How far a step is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// When it was begun first.
    pub began: Option<Timestamp>,
    /// How often it was begun.
    pub attempts: u32,
    /// How often it was begun for the same thing with nothing going wrong, and when last: an act that reports success and has not happened.
    pub repeats: Option<(u32, Timestamp)>,
    /// What was so before the last act. A step that finds its work done does not act, so that no act of ours is in it.
    pub memo: Option<Memo>,
    /// The operation that goes on.
    pub handle: Option<OperationHandle>,
    /// The last act was refused because the thing was not what was read: it certainly did not happen.
    pub refused: bool,
    /// What went wrong, oldest first.
    pub failures: Vec<(Timestamp, StepFailure)>,
    /// There is no further try.
    pub given_up: bool,
    /// How many of these somebody knew of when the run was resumed.
    pub excused: usize,
    /// When it was done, and what it gave.
    pub done: Option<(Timestamp, Option<Output>)>,
}

impl Progress {
    /// Whether an act with this memo is the last one again. Another target, or none, is another thing to do.
    pub(crate) fn is_repeated_by(&self, memo: Option<&Memo>) -> bool {
        match (&self.memo, memo) {
            (Some(Memo::Target(before)), Some(Memo::Target(now))) => before == now,
            (Some(Memo::Target(_)), _) | (_, Some(Memo::Target(_))) => false,
            _ => true,
        }
    }

    fn start(&mut self, at: Timestamp, memo: Option<&Memo>) {
        self.began.get_or_insert(at);
        self.attempts += 1;
        self.refused = false;
        let same = self.is_repeated_by(memo);
        let before = self.repeats.filter(|_| same).map_or(0, |(count, _)| count);
        self.repeats = Some((before + 1, at));
        match (&self.memo, memo) {
            (Some(Memo::Target(_)), None) => self.memo = None,
            (_, None) => {}
            (_, Some(memo)) => self.memo = Some(memo.clone()),
        }
    }
}

/// A run as its journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    /// What was settled.
    pub header: Header,
    steps: BTreeMap<Step, Progress>,
    /// When something happened last: patience counts from here.
    pub last: Timestamp,
    /// Who carries the run has just done the step before this one, so that its outcome need not be read again.
    pub(crate) in_stride: bool,
    /// The step that failed for good, and why.
    pub failed: Option<(Step, StepFailure)>,
    /// How it ended.
    pub closed: Option<(Timestamp, Outcome)>,
}

/// Entries that no run can have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadJournal {
    /// A later kiln wrote it.
    #[error("run {run} was written in form {schema}; this kiln reads form {known}: use the kiln that started it")]
    Schema {
        run: RunId,
        schema: u32,
        /// Ours.
        known: u32,
    },
    /// An entry of a run that was never opened.
    #[error("the journal has an entry of run {0} that was never opened")]
    NotOpened(RunId),
}

impl Run {
    /// All runs of a journal, in the order in which they were opened.
    pub fn replay(entries: &[Entry]) -> Result<Vec<Self>, BadJournal> {
        let mut runs: Vec<Self> = Vec::new();
        for entry in entries {
            if let Event::Opened { header } = &entry.event {
                runs.push(Self::open(entry.run.clone(), Header::clone(header))?);
                continue;
            }
            let run = runs.iter_mut().find(|run| run.id == entry.run);
            run.ok_or_else(|| BadJournal::NotOpened(entry.run.clone()))?.note(entry.at, &entry.event);
        }
        // Whoever replays has not seen what happened.
        for run in &mut runs {
            run.in_stride = false;
        }
        Ok(runs)
    }

    /// A run that has done nothing yet.
    pub fn open(id: RunId, header: Header) -> Result<Self, BadJournal> {
        if header.schema > crate::run::SCHEMA {
            return Err(BadJournal::Schema { run: id, schema: header.schema, known: crate::run::SCHEMA });
        }
        let last = header.started;
        Ok(Self { id, header, steps: BTreeMap::new(), last, in_stride: false, failed: None, closed: None })
    }

    /// Takes in what happened.
    pub fn note(&mut self, at: Timestamp, event: &Event) {
        self.last = at;
        match event {
            Event::Opened { .. } => {}
            Event::Resumed { .. } => {
                self.in_stride = false;
                for progress in self.steps.values_mut() {
                    progress.excused = progress.failures.len();
                    progress.repeats = None;
                }
            }
            Event::Started { step, memo } => self.steps.entry(*step).or_default().start(at, memo.as_ref()),
            Event::Accepted { step, handle } => {
                self.steps.entry(*step).or_default().handle = Some(handle.clone());
            }
            Event::Succeeded { step, output } => {
                self.in_stride = true;
                let progress = self.steps.entry(*step).or_default();
                progress.handle = None;
                progress.done = Some((at, output.clone()));
            }
            Event::Failed { step, failure, for_good } => {
                self.in_stride = false;
                let progress = self.steps.entry(*step).or_default();
                progress.handle = None;
                progress.repeats = None;
                progress.refused |= failure.class == ErrorClass::Precondition;
                progress.failures.push((at, failure.clone()));
                progress.given_up |= *for_good;
                if *for_good && self.failed.is_none() {
                    self.failed = Some((*step, failure.clone()));
                }
            }
            Event::Closed { outcome } => self.closed = Some((at, outcome.clone())),
        }
    }

    /// The operation of a step came to its end. What it left behind is read, not believed, so this is written nowhere.
    pub fn settle(&mut self, step: Step) {
        if let Some(progress) = self.steps.get_mut(&step) {
            progress.handle = None;
        }
    }

    /// How far a step is.
    pub fn step(&self, step: Step) -> Option<&Progress> {
        self.steps.get(&step)
    }

    /// Whether a step is done.
    pub fn is_done(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.done.is_some())
    }

    /// Whether a step was given up.
    pub fn is_given_up(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.given_up)
    }

    /// Whether a step was begun.
    pub fn is_begun(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.attempts > 0)
    }

    /// Whether the run may hold something. What was begun counts as held: giving back what was never taken does nothing.
    pub fn holds(&self, held: Held) -> bool {
        self.is_begun(held.taken_by()) && !self.is_done(held.given_back_by())
    }

    /// What the run may hold, the last taken first.
    pub fn held(&self) -> Vec<Held> {
        let mut all: Vec<_> = Held::ALL.into_iter().filter(|held| self.holds(*held)).collect();
        all.reverse();
        all
    }

    /// How much there is to do.
    pub fn route(&self) -> Route {
        match self.steps.get(&Step::Survey).and_then(|progress| progress.done.as_ref()) {
            Some((_, Some(Output::Route(route)))) => *route,
            _ => Route::WholeWay,
        }
    }

    /// What the canary said against the version.
    pub fn condemned(&self) -> Option<&str> {
        match self.steps.get(&Step::AwaitCanary)?.done.as_ref()? {
            (_, Some(Output::Bad(reason))) => Some(reason),
            _ => None,
        }
    }

    /// The protection that the donor had before.
    pub fn protection_before(&self) -> Option<Protection> {
        match self.steps.get(&Step::Protect)?.memo.as_ref()? {
            Memo::Protection(before) => Some(*before),
            _ => None,
        }
    }
}
