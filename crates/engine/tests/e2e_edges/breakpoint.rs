//! Stops a run at a point: forever, like a process that died there, or until the test lets it pass.

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
pub(crate) struct Breakpoint {
    wanted: Filter,
    pub(crate) left: AtomicUsize,
    stopped: Notify,
    passed: Notify,
    at: std::sync::Mutex<Option<RunEventKind>>,
}

impl Breakpoint {
    /// Stops at the n-th point. A run passes points before and after each action and after each record.
    pub(crate) fn nth(points: usize) -> Arc<Self> {
        Self::when(points, |kind| {
            matches!(kind, RunEventKind::Starting { .. } | RunEventKind::Acted { .. } | RunEventKind::Recorded(_))
        })
    }

    /// Stops before the first action of a step.
    pub(crate) fn before(step: impl Fn(Step) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::when(1, move |kind| matches!(kind, RunEventKind::Starting { step: at, .. } if step(*at)))
    }

    /// Stops after it was recorded that the cloud accepted the action of a step.
    pub(crate) fn after_accepted(step: Step) -> Arc<Self> {
        Self::when(
            1,
            move |kind| matches!(kind, RunEventKind::Recorded(Event::Accepted { step: at, .. }) if *at == step),
        )
    }

    /// Stops at the n-th of the selected events.
    pub(crate) fn when(points: usize, wanted: impl Fn(&RunEventKind) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: Box::new(wanted),
            left: AtomicUsize::new(points),
            stopped: Notify::new(),
            passed: Notify::new(),
            at: std::sync::Mutex::new(None),
        })
    }

    /// Where the run stopped.
    pub(crate) fn describe(&self) -> String {
        self.at.lock().unwrap().as_ref().map_or_else(String::new, describe)
    }

    pub(crate) async fn reached(&self) {
        self.stopped.notified().await;
    }

    /// Lets the run continue.
    pub(crate) fn pass(&self) {
        self.passed.notify_one();
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

impl EventSink for Breakpoint {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        if !(self.wanted)(&event.kind) || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Box::pin(std::future::ready(()));
        }
        *self.at.lock().unwrap() = Some(event.kind);
        self.stopped.notify_one();
        Box::pin(self.passed.notified())
    }
}
