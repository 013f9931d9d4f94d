//! The number of requests to Azure.

use kiln_prototype::journal::Outcome;

use crate::driver::End;
use crate::scenario::Scenario;
use crate::world::Pace;

/// The number of requests per pool that users and Azure's limits allow.
const BUDGET: u32 = 45;

#[test]
fn run_against_an_instant_azure_needs_few_requests() {
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut world = scenario.world();
        world.pace = Pace::INSTANT;
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
        assert!(world.requests <= BUDGET, "{}: {} requests\n{:#?}", scenario.name, world.requests, world.request_log);
    }
}

/// The number of requests must not grow with the time that Azure takes, except for polls.
#[test]
fn slow_azure_only_adds_polls() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert!(world.requests < 3 * BUDGET, "{} requests", world.requests);
}
