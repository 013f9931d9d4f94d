//! Stops a run at a point: forever, as a process that died there, or until the test continues it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use kiln_engine::{EventSink, RunEvent, RunEventKind};
use kiln_prototype::journal::Event;
use kiln_prototype::step::Step;
use tokio::sync::Notify;

/// Selects the events to stop at.
type Filter = Box<dyn Fn(&RunEventKind) -> bool + Send + Sync>;

/// Lets a run continue up to a point and stops it there.
pub(crate) struct HoldAt {
    wanted: Filter,
    pub(crate) left: AtomicUsize,
    held: Notify,
    go: Notify,
    at: std::sync::Mutex<Option<RunEventKind>>,
}

impl HoldAt {
    /// Stops at the n-th point. A run passes points before and after each action and after each record.
    pub(crate) fn new(points: usize) -> Arc<Self> {
        Self::when(points, |kind| {
            matches!(kind, RunEventKind::Starting { .. } | RunEventKind::Acted { .. } | RunEventKind::Recorded(_))
        })
    }

    /// Stops before the first action of a step.
    pub(crate) fn at(step: impl Fn(Step) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::when(1, move |kind| matches!(kind, RunEventKind::Starting { step: at, .. } if step(*at)))
    }

    /// Stops after it was recorded that the cloud accepted the action of a step.
    pub(crate) fn accepted(step: Step) -> Arc<Self> {
        Self::when(
            1,
            move |kind| matches!(kind, RunEventKind::Recorded(Event::Accepted { step: at, .. }) if *at == step),
        )
    }

    fn when(points: usize, wanted: impl Fn(&RunEventKind) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: Box::new(wanted),
            left: AtomicUsize::new(points),
            held: Notify::new(),
            go: Notify::new(),
            at: std::sync::Mutex::new(None),
        })
    }

    pub(crate) fn where_held(&self) -> String {
        self.at.lock().unwrap().as_ref().map_or_else(String::new, describe)
    }

    pub(crate) async fn reached(&self) {
        self.held.notified().await;
    }

    pub(crate) fn release(&self) {
        self.go.notify_one();
    }
}

fn describe(kind: &RunEventKind) -> String {
    match kind {
        RunEventKind::Starting { step, .. } => format!("before the action of {step}"),
        RunEventKind::Acted { step } => format!("after the action of {step}, before its record"),
        RunEventKind::Recorded(Event::Opened { .. }) => "after the run was opened".to_owned(),
        RunEventKind::Recorded(event) => format!("after {event:?}").chars().take(80).collect(),
        other => format!("{other:?}"),
    }
}

impl EventSink for HoldAt {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        if !(self.wanted)(&event.kind) || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Box::pin(std::future::ready(()));
        }
        *self.at.lock().unwrap() = Some(event.kind);
        self.held.notify_one();
        Box::pin(self.go.notified())
    }
}
