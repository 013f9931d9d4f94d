//! What an operation tells while it runs.

use std::time::Duration;

use futures_util::future::BoxFuture;
use kiln_kubernetes::{NodeName, drain};
use kiln_prototype::journal::Event;
use kiln_prototype::observed::Fact;
use kiln_prototype::run::RunId;
use kiln_prototype::step::{Hold, Step};
use kiln_types::PoolName;

/// Something that happened in an operation on a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    pub pool: PoolName,
    /// The run, once it has a name.
    pub run: Option<RunId>,
    pub what: RunEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEventKind {
    /// The pool is ours alone.
    Leased,
    /// A pod that changes nothing reads what is inside a node.
    Inspecting(NodeName),
    /// These are read.
    Looking(Vec<Fact>),
    /// A step's act comes next: it is written down, and not done.
    Starting {
        step: Step,
        /// What the run holds by then, the last taken first.
        held: Vec<Hold>,
    },
    /// A step's act was done, or taken up, and this is not written down.
    Acted { step: Step },
    /// This is written down.
    Recorded(Event),
    /// Nothing is to be done for a while.
    Waiting {
        /// In this step.
        step: Step,
        /// For what.
        why: String,
        /// How much is done, where the cloud says so.
        percent: Option<f64>,
        /// Until it is looked at again.
        pause: Duration,
    },
    /// The drain goes on.
    Drain(drain::Progress),
    /// What the operation wants to say and does not fail for.
    Note(String),
}

/// Who is told. It is awaited at each point: whoever never returns stops the operation exactly there.
pub trait EventSink: Send + Sync {
    /// Takes the news.
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()>;
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardEvents;

impl EventSink for DiscardEvents {
    fn told(&self, _: RunEvent) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
