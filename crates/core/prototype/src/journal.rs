//! The journal of a run: what it records around each action, and the state of the run that follows from it.
//!
//! The journal is written ahead. `Started` is stored *before* the request is sent, with everything that is needed to undo the action or to
//! find out whether it happened ([`Memo`]). `Accepted` stores the handle of a long operation, and `Succeeded` or `Failed` end the attempt.
//! A process that dies at any point therefore leaves a journal from which another process can continue: an action that is started but not
//! finished may or may not have happened, so the step reads the resource before it acts again.

mod compact;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kiln_types::{ErrorClass, OperationHandle, Protection, Revision, VersionNumber};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::run::{Header, RunId};
use crate::step::{Hold, Step};

pub use compact::{Compaction, Outline, compact};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub run: RunId,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

/// A journalled event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    Opened {
        header: Box<Header>,
    },
    /// Another process continues the run. Earlier failures are excused, see [`Progress::excused`].
    Resumed {
        who: String,
    },
    /// The step is about to act.
    Started {
        step: Step,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memo: Option<Memo>,
    },
    /// The cloud accepted the request and continues on its own.
    Accepted {
        step: Step,
        handle: OperationHandle,
    },
    /// The step is done, or was found done.
    Succeeded {
        step: Step,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Output>,
    },
    Failed {
        step: Step,
        failure: StepFailure,
        /// The step is not retried: the run releases its holds and ends.
        permanent: bool,
    },
    Closed {
        outcome: Outcome,
    },
}

/// State from before an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Memo {
    /// The protection of the donor's instance.
    Protection(Protection),
    /// The boot id of the donor's node.
    Boot(Option<String>),
    /// The capacity of the pool and its revision.
    Capacity { instances: u32, revision: Option<Revision> },
    /// The resource that is removed, for steps that may have to remove several one by one.
    Target(String),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Output {
    Route(Route),
    /// The canary failed, for this reason.
    Rejected(String),
    /// A sentence for the history.
    Note(String),
}

/// Where a run begins, depending on what an earlier run has done today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Route {
    Full,
    /// Today's snapshot exists.
    FromSnapshot,
    /// Today's version exists or is being created.
    FromVersion,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepFailure {
    pub class: ErrorClass,
    pub message: String,
}

/// Clouds return long error messages. The journal must have room for every failure of a run, and a reader needs the first sentences.
const MAX_MESSAGE: usize = 600;

impl StepFailure {
    /// A failure with its message cut to [`MAX_MESSAGE`] characters.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }.shortened()
    }

    pub(crate) fn shortened(mut self) -> Self {
        if let Some((end, _)) = self.message.char_indices().nth(MAX_MESSAGE) {
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
    /// New nodes are created from this version.
    Completed { version: VersionNumber },
    /// All holds are released. New nodes are created as before, or from the new version if the step comes after `include`.
    Failed { step: Step, failure: StepFailure },
    /// The canary did not become Ready. The version stays excluded.
    Rejected { version: VersionNumber, reason: String },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { version } => write!(f, "completed: new nodes are created from version {version}"),
            Self::Failed { step, failure } => write!(f, "failed at {step}, all holds released: {failure}"),
            Self::Rejected { version, reason } => {
                write!(f, "version {version} was rejected and stays excluded: {reason}")
            }
        }
    }
}

/// The progress of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// When it was first started.
    pub began: Option<Timestamp>,
    pub attempts: u32,
    /// How often in a row it was started for the same target without a failure, and when last. More than one means that the action
    /// reports success without effect.
    pub repeats: Option<(u32, Timestamp)>,
    /// From before the last action.
    pub memo: Option<Memo>,
    /// The running operation.
    pub handle: Option<OperationHandle>,
    /// The last request failed its precondition, so it certainly had no effect.
    pub refused: bool,
    /// Oldest first.
    pub failures: Vec<(Timestamp, StepFailure)>,
    pub given_up: bool,
    /// How many of `failures` are from before the run was last resumed. They do not count against the number of attempts: their cause has
    /// usually been removed by then, and a run that was stuck would otherwise be stuck again after one attempt.
    pub excused: usize,
    pub done: Option<(Timestamp, Option<Output>)>,
}

impl Progress {
    /// Whether an action with this memo repeats the last one. A different target is a different action.
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
        self.handle = None;
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

/// The state of a run, replayed from its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub header: Header,
    steps: BTreeMap<Step, Progress>,
    /// When the last event was recorded. Timeouts count from here.
    pub last: Timestamp,
    /// The current process has done the previous step itself and nothing failed since, so that its result need not be read again.
    pub(crate) uninterrupted: bool,
    /// The step that failed permanently.
    pub failed: Option<(Step, StepFailure)>,
    pub closed: Option<(Timestamp, Outcome)>,
}

impl Run {
    /// Replays all runs of a journal, in the order in which they were opened.
    pub fn replay(entries: &[Entry]) -> Result<Vec<Self>, Error> {
        let mut runs: Vec<Self> = Vec::new();
        for entry in entries {
            if let Event::Opened { header } = &entry.event {
                runs.push(Self::open(entry.run.clone(), Header::clone(header)));
                continue;
            }
            let run = runs.iter_mut().find(|run| run.id == entry.run);
            run.ok_or_else(|| Error::RunNotOpened(entry.run.clone()))?.apply(entry.at, &entry.event);
        }
        for run in &mut runs {
            run.uninterrupted = false;
        }
        Ok(runs)
    }

    /// A run without any progress.
    pub fn open(id: RunId, header: Header) -> Self {
        let last = header.started;
        Self { id, header, steps: BTreeMap::new(), last, uninterrupted: false, failed: None, closed: None }
    }

    /// Applies a recorded event.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.last = at;
        match event {
            Event::Opened { .. } => {}
            Event::Resumed { .. } => {
                self.uninterrupted = false;
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
                self.uninterrupted = true;
                let progress = self.steps.entry(*step).or_default();
                progress.handle = None;
                progress.done = Some((at, output.clone()));
            }
            Event::Failed { step, failure, permanent } => {
                self.uninterrupted = false;
                let progress = self.steps.entry(*step).or_default();
                progress.handle = None;
                progress.repeats = None;
                progress.refused |= failure.class == ErrorClass::Precondition;
                progress.failures.push((at, failure.clone()));
                progress.given_up |= *permanent;
                if *permanent && self.failed.is_none() {
                    self.failed = Some((*step, failure.clone()));
                }
            }
            Event::Closed { outcome } => self.closed = Some((at, outcome.clone())),
        }
    }

    /// Drops the handle of a step whose operation has ended. The step then reads the resource. This is not recorded.
    pub fn clear_handle(&mut self, step: Step) {
        if let Some(progress) = self.steps.get_mut(&step) {
            progress.handle = None;
        }
    }

    /// The progress of a step, if there is any.
    pub fn step(&self, step: Step) -> Option<&Progress> {
        self.steps.get(&step)
    }

    /// Whether a step is done.
    pub fn is_done(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.done.is_some())
    }

    /// Whether a step failed permanently.
    pub fn is_given_up(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.given_up)
    }

    /// Whether a step was started.
    pub fn is_begun(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|progress| progress.attempts > 0)
    }

    /// Whether the run may have a hold: its step was started, and the step that releases it is not done.
    pub fn is_holding(&self, hold: Hold) -> bool {
        self.is_begun(hold.acquired_by()) && !self.is_done(hold.released_by())
    }

    /// The holds that the run may have, last acquired first: the order in which they are released.
    pub fn holds(&self) -> Vec<Hold> {
        let mut holds: Vec<_> = Hold::ALL.into_iter().filter(|hold| self.is_holding(*hold)).collect();
        holds.reverse();
        holds
    }

    /// Where the run begins.
    pub fn route(&self) -> Route {
        match self.steps.get(&Step::Survey).and_then(|progress| progress.done.as_ref()) {
            Some((_, Some(Output::Route(route)))) => *route,
            _ => Route::Full,
        }
    }

    /// Why the canary failed.
    pub fn rejected(&self) -> Option<&str> {
        match self.steps.get(&Step::AwaitCanary)?.done.as_ref()? {
            (_, Some(Output::Rejected(reason))) => Some(reason),
            _ => None,
        }
    }

    /// The protection that the donor's instance had before the run.
    pub fn protection_before(&self) -> Option<Protection> {
        match self.steps.get(&Step::Protect)?.memo.as_ref()? {
            Memo::Protection(before) => Some(*before),
            _ => None,
        }
    }
}
