//! A process that dies at any point, and another that goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use kiln_operate::{Ending, Happening, News, Report, Watcher, resume, update};
use kiln_prototype::journal::Event;
use kiln_prototype::step::Step;
use kiln_sim::Speed;
use tokio::sync::Notify;

use crate::state::State;
use crate::world::{Made, World, request};

/// Which point it is that a run is held at.
type Wanted = Box<dyn Fn(&Happening) -> bool + Send + Sync>;

/// Lets a run go on until a point, and holds it there until it is let go, or for good.
pub(crate) struct HoldAt {
    wanted: Wanted,
    left: AtomicUsize,
    held: Notify,
    go: Notify,
    at: std::sync::Mutex<Option<Happening>>,
}

impl HoldAt {
    /// At the point of this number, of those that a whole run passes: before each act, after it, and after each record.
    pub(crate) fn new(points: usize) -> Arc<Self> {
        Self::when(points, |what| {
            matches!(what, Happening::Starting { .. } | Happening::Acted { .. } | Happening::Recorded(_))
        })
    }

    /// Before the first act of a step.
    pub(crate) fn at(step: impl Fn(Step) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::when(1, move |what| matches!(what, Happening::Starting { step: at, .. } if step(*at)))
    }

    fn when(points: usize, wanted: impl Fn(&Happening) -> bool + Send + Sync + 'static) -> Arc<Self> {
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

fn describe(what: &Happening) -> String {
    match what {
        Happening::Starting { step, .. } => format!("before the act of {step}"),
        Happening::Acted { step } => format!("after the act of {step}, before its record"),
        Happening::Recorded(Event::Opened { .. }) => "after the run was opened".to_owned(),
        Happening::Recorded(event) => format!("after {event:?}").chars().take(80).collect(),
        other => format!("{other:?}"),
    }
}

impl Watcher for HoldAt {
    fn told(&self, news: News) -> BoxFuture<'_, ()> {
        if !(self.wanted)(&news.what) || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Box::pin(std::future::ready(()));
        }
        *self.at.lock().unwrap() = Some(news.what);
        self.held.notify_one();
        Box::pin(self.go.notified())
    }
}

/// Runs until the point, and dies there. `None` when the run ended before it.
pub(crate) async fn die_at(world: &World, points: usize) -> (Arc<HoldAt>, Option<Report>) {
    let hold = HoldAt::new(points);
    let context = world.process(hold.clone());
    let asked = request(1);
    let report = tokio::select! {
        report = Box::pin(update(&context, &asked)) => Some(report.unwrap()),
        () = hold.reached() => None,
    };
    (hold, report)
}

fn instant() -> Made {
    Made { speed: Speed::Instant, ..Made::new() }
}

async fn finish(world: &World) -> Report {
    Box::pin(resume(&world.quiet(), &world.pool_name())).await.unwrap()
}

async fn uncrashed(second: bool) -> (State, usize) {
    let world = begun(second).await;
    let (hold, report) = die_at(&world, usize::MAX).await;
    let report = report.unwrap();
    assert!(matches!(report.ending, Ending::Completed { .. }), "{}", report.ending);
    let state = world.state().await;
    state.assert_nothing_held();
    (state, usize::MAX - hold.left.load(Ordering::Relaxed))
}

/// A world in which nothing happened, or one with a first run of the day before.
async fn begun(second: bool) -> World {
    let world = instant().start().await;
    if second {
        let report = Box::pin(update(&world.quiet(), &request(2))).await.unwrap();
        assert!(matches!(report.ending, Ending::Completed { .. }), "{}", report.ending);
        world.days_later(1).await;
    }
    world
}

async fn matrix(second: bool) {
    let (whole, points) = uncrashed(second).await;
    assert!(points > 60, "{points}");
    for point in 1..=points {
        let world = begun(second).await;
        let (hold, report) = die_at(&world, point).await;
        assert!(report.is_none(), "point {point} of {points} was not reached");
        let place = hold.where_held();
        if point < points {
            let report = finish(&world).await;
            assert!(matches!(report.ending, Ending::Completed { .. }), "{place}: {}", report.ending);
        } else {
            // The last record closes the run: only the lease is left, and it ends by itself.
            assert!(resume(&world.quiet(), &world.pool_name()).await.is_err(), "{place}");
            continue;
        }
        let state = world.state().await;
        state.assert_nothing_held();
        assert_eq!(state, whole, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_run_that_dies_anywhere_is_finished_by_another_process() {
    matrix(false).await;
}
