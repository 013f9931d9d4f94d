//! A process that dies at any point, and another one that resumes the run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kiln_engine::{RunEnd, RunReport, resume, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;

use crate::breakpoint::Breakpoint;
use crate::state::State;
use crate::world::{World, WorldBuilder, pool_name, request};

/// Runs up to the point and dies there. Returns the report if the run ended before.
pub(crate) async fn die_at(world: &World, points: usize) -> (Arc<Breakpoint>, Option<RunReport>) {
    let breakpoint = Breakpoint::nth(points);
    let context = world.process(breakpoint.clone());
    let request = request(1);
    let report = tokio::select! {
        report = Box::pin(update(&context, &request)) => Some(report.unwrap()),
        () = breakpoint.reached() => None,
    };
    (breakpoint, report)
}

fn instant() -> WorldBuilder {
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }
}

async fn finish(world: &World) -> RunReport {
    Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap()
}

async fn without_crash() -> (State, usize) {
    let world = instant().start().await;
    let (breakpoint, report) = die_at(&world, usize::MAX).await;
    let report = report.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let state = world.state().await;
    state.assert_nothing_held();
    (state, usize::MAX - breakpoint.left.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn run_that_dies_at_any_point_is_finished_by_another_process() {
    let (expected, points) = without_crash().await;
    assert!(points > 60, "{points}");
    for point in 1..=points {
        let world = instant().start().await;
        let (breakpoint, report) = die_at(&world, point).await;
        assert!(report.is_none(), "point {point} of {points} was not reached");
        let place = breakpoint.describe();
        if point < points {
            let report = finish(&world).await;
            assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{place}: {}", report.end);
        } else {
            // The last record closes the run. Only the lease is left, which expires.
            assert!(resume(&world.quiet(), &pool_name()).await.is_err(), "{place}");
            continue;
        }
        let state = world.state().await;
        state.assert_nothing_held();
        assert_eq!(state, expected, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_run_continues_the_creation_of_its_version() {
    let world = WorldBuilder::quick().start().await;
    let breakpoint = Breakpoint::after_accepted(Step::Publish);
    let context = world.process(breakpoint.clone());
    let request = request(1);
    tokio::select! {
        report = Box::pin(update(&context, &request)) => panic!("{:?}", report.map(|report| report.end)),
        () = breakpoint.reached() => {}
    }
    let report = finish(&world).await;
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let creations =
        world.wire.writes().into_iter().filter(|write| write.starts_with("PUT") && write.contains("/versions/"));
    assert_eq!(creations.count(), 1, "the version was created once");
    world.state().await.assert_nothing_held();
}
