//! How much Azure is asked.

use kiln_prototype::journal::Outcome;

use crate::driver::End;
use crate::scenario::Scenario;
use crate::world::Pace;

/// What a person may wait for, and Azure's limits bear, for one pool.
const BUDGET: u32 = 45;

#[test]
fn a_run_against_an_instant_azure_needs_few_requests() {
    for scenario in [Scenario::first(), Scenario::second()] {
        let mut world = scenario.world();
        world.pace = Pace::INSTANT;
        let end = scenario.run(&mut world);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
        assert!(world.requests < BUDGET, "{}: {} requests\n{:#?}", scenario.name, world.requests, world.asked);
    }
}

/// What a run asks must not grow with the time that Azure takes, but for the questions whether it is done.
#[test]
fn a_slow_azure_is_asked_after_its_operations_and_little_else() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    let end = scenario.run(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert!(world.requests < 3 * BUDGET, "{} requests", world.requests);
}
