//! The events of a run, for terminals, log files and tests.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use kiln_kubernetes::drain;
use kiln_prototype::journal::{Entry, Event};
use kiln_prototype::observed::Fact;
use kiln_prototype::run::RunId;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{NodeName, PoolName};

/// An event of an operation on a pool.
///
/// An event that is also in the journal has the timestamp of its journal entry, so that journal, terminal and log file agree.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    pub at: Timestamp,
    pub pool: PoolName,
    /// Absent before a run has an id, and in operations without a run.
    pub run: Option<RunId>,
    pub kind: RunEventKind,
}

/// The kind of an event, with its details.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEventKind {
    /// The operation has the pool's lease.
    Leased,
    /// A read-only pod inspects a node.
    Inspecting(NodeName),
    Reading(Vec<Fact>),
    /// The step is recorded as started, and its action follows.
    Starting {
        step: Step,
        /// The run's holds, last acquired first.
        holds: Vec<Hold>,
    },
    /// The action was done or accepted. This is not recorded yet.
    Acted {
        step: Step,
    },
    /// This was written to the journal.
    Recorded(Event),
    Waiting {
        step: Step,
        reason: String,
        percent: Option<f64>,
        /// Until the next read.
        pause: Duration,
    },
    Drain(drain::Progress),
    /// A remark, not a failure.
    Note(String),
}

impl RunEvent {
    /// The journal entry, if the event is one.
    pub fn journal_entry(&self) -> Option<Entry> {
        match (&self.run, &self.kind) {
            (Some(run), RunEventKind::Recorded(event)) => {
                Some(Entry { run: run.clone(), at: self.at, event: event.clone() })
            }
            _ => None,
        }
    }
}

/// Receives the events of an operation.
///
/// The operation awaits `record` at each event, so that a test can stop it at exactly that point.
pub trait EventSink: Send + Sync {
    /// Handles an event.
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()>;
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardEvents;

impl EventSink for DiscardEvents {
    fn record(&self, _: RunEvent) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
