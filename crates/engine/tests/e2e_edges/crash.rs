//! A process that dies at any point, and another that goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kiln_engine::{RunEnd, RunReport, resume, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;

use crate::hold::HoldAt;
use crate::state::State;
use crate::world::{Made, World, pool_name, request};

/// Runs until the point, and dies there. `None` when the run ended before it.
pub(crate) async fn die_at(world: &World, points: usize) -> (Arc<HoldAt>, Option<RunReport>) {
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

async fn finish(world: &World) -> RunReport {
    Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap()
}

async fn uncrashed() -> (State, usize) {
    let world = instant().start().await;
    let (hold, report) = die_at(&world, usize::MAX).await;
    let report = report.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let state = world.state().await;
    state.assert_nothing_held();
    (state, usize::MAX - hold.left.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_first_run_that_dies_anywhere_is_finished_by_another_process() {
    let (whole, points) = uncrashed().await;
    assert!(points > 60, "{points}");
    for point in 1..=points {
        let world = instant().start().await;
        let (hold, report) = die_at(&world, point).await;
        assert!(report.is_none(), "point {point} of {points} was not reached");
        let place = hold.where_held();
        if point < points {
            let report = finish(&world).await;
            assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{place}: {}", report.end);
        } else {
            // The last record closes the run: only the lease is left, and it ends by itself.
            assert!(resume(&world.quiet(), &pool_name()).await.is_err(), "{place}");
            continue;
        }
        let state = world.state().await;
        state.assert_nothing_held();
        assert_eq!(state, whole, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_while_a_version_is_made_is_attached_to_again() {
    let world = Made::quick().start().await;
    let hold = HoldAt::accepted(Step::Publish);
    let context = world.process(hold.clone());
    let asked = request(1);
    tokio::select! {
        report = Box::pin(update(&context, &asked)) => panic!("{:?}", report.map(|report| report.end)),
        () = hold.reached() => {}
    }
    let report = finish(&world).await;
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let made = world.wire.writes().into_iter().filter(|write| write.starts_with("PUT") && write.contains("/versions/"));
    assert_eq!(made.count(), 1, "the version was made once");
    world.state().await.assert_nothing_held();
}
