//! Holds a run at a point: for good, as a process that died there, or until somebody did something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use kiln_engine::{EventSink, RunEvent, RunEventKind};
use kiln_prototype::journal::Event;
use kiln_prototype::step::Step;
use tokio::sync::Notify;

/// Which point it is that a run is held at.
type Filter = Box<dyn Fn(&RunEventKind) -> bool + Send + Sync>;

/// Lets a run go on until a point, and holds it there until it is let go, or for good.
pub(crate) struct HoldAt {
    wanted: Filter,
    pub(crate) left: AtomicUsize,
    held: Notify,
    go: Notify,
    at: std::sync::Mutex<Option<RunEventKind>>,
}

impl HoldAt {
    /// At the point of this number, of those that a whole run passes: before each act, after it, and after each record.
    pub(crate) fn new(points: usize) -> Arc<Self> {
        Self::when(points, |what| {
            matches!(what, RunEventKind::Starting { .. } | RunEventKind::Acted { .. } | RunEventKind::Recorded(_))
        })
    }

    /// Before the first act of a step.
    pub(crate) fn at(step: impl Fn(Step) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::when(1, move |what| matches!(what, RunEventKind::Starting { step: at, .. } if step(*at)))
    }

    /// After it was written down that the cloud took up the act of a step.
    pub(crate) fn accepted(step: Step) -> Arc<Self> {
        Self::when(
            1,
            move |what| matches!(what, RunEventKind::Recorded(Event::Accepted { step: at, .. }) if *at == step),
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

    pub(crate) fn let_go(&self) {
        self.go.notify_one();
    }
}

fn describe(what: &RunEventKind) -> String {
    match what {
        RunEventKind::Starting { step, .. } => format!("before the act of {step}"),
        RunEventKind::Acted { step } => format!("after the act of {step}, before its record"),
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
