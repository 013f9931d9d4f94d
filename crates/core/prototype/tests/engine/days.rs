//! Snapshots and versions that earlier runs left, of today and of other days.

use kiln_prototype::journal::{Outcome, Route};
use kiln_prototype::step::Step;
use kiln_types::tags::{REJECTED_TAG, VERSION_TAG};
use kiln_types::{ErrorClass, Provisioning, Snapshot, Tags, VersionState};

use crate::driver::{Driver, End, replay};
use crate::fault::{Fault, Point};
use crate::scenario::{
    BEGIN, Scenario, TODAY, add_version, assert_invariants, assert_nothing_held, finish, header, number,
};
use crate::world::{DONOR, World, node_name};

fn leave_snapshot(world: &mut World, day: &str, provisioning: Provisioning) {
    leave_snapshot_of(world, day, provisioning, &node_name(DONOR));
}

fn leave_snapshot_of(world: &mut World, day: &str, provisioning: Provisioning, donor: &str) {
    world.snapshot = Some(Snapshot {
        name: "snapshot_k8s-agentpool1-26100436-vmss".parse().unwrap(),
        id: "/snapshots/left".to_owned(),
        source: None,
        provisioning,
        created: None,
        tags: Tags::from([
            (VERSION_TAG.to_owned(), day.to_owned()),
            ("BuiltFrom".to_owned(), donor.to_owned()),
            ("of".to_owned(), "an earlier run".to_owned()),
        ]),
    });
    world.snapshot_is_good = true;
}

fn expect_completed(scenario: &Scenario, world: &mut World) -> Route {
    let end = scenario.run(world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert_nothing_held(world, scenario, "the end");
    assert_invariants(world, "the end");
    replay(world).pop().unwrap().route()
}

fn expect_failed(scenario: &Scenario, world: &mut World) -> (Step, ErrorClass, String) {
    let End::Done(Outcome::Failed { step, failure }) = scenario.run(world) else { panic!("did not fail") };
    assert_nothing_held(world, scenario, "the end");
    assert_invariants(world, "the end");
    (step, failure.class, failure.message)
}

fn donor_was_never_stopped(world: &World) -> bool {
    !world.acts.iter().any(|act| act.starts_with("power-off"))
}

#[test]
fn todays_snapshot_is_used_without_touching_the_donor() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    leave_snapshot(&mut world, TODAY, Provisioning::Succeeded);
    assert_eq!(expect_completed(&scenario, &mut world), Route::FromSnapshot);
    assert!(donor_was_never_stopped(&world));
    assert_eq!(world.versions[&number(TODAY)].read.tags["of"], "an earlier run", "its tags are those of the snapshot");
}

#[test]
fn snapshot_of_another_donor_is_replaced() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    leave_snapshot_of(&mut world, TODAY, Provisioning::Succeeded, "another-donor");
    assert_eq!(expect_completed(&scenario, &mut world), Route::Full);
    assert!(!donor_was_never_stopped(&world));
    assert_eq!(world.versions[&number(TODAY)].read.tags["BuiltFrom"], node_name(DONOR));
}

#[test]
fn todays_version_of_another_donor_does_not_count_as_done() {
    for (excluded, state) in
        [(false, VersionState::Succeeded), (true, VersionState::Succeeded), (true, VersionState::Creating)]
    {
        for (source, name) in [(Some("another-donor"), "node `another-donor`"), (None, "an unknown node")] {
            let scenario = Scenario::second();
            let mut world = scenario.world();
            add_version(&mut world, TODAY, excluded, state.clone());
            let tags = source.map(|source| ("BuiltFrom".to_owned(), source.to_owned()));
            world.versions.get_mut(&number(TODAY)).unwrap().read.tags = tags.into_iter().collect();
            let (step, class, message) = expect_failed(&scenario, &mut world);
            assert_eq!((step, class), (Step::Survey, ErrorClass::Refused), "{message}");
            assert!(message.contains(name) && message.contains("--replace-today"), "{message}");
            assert!(donor_was_never_stopped(&world));
            assert_eq!(world.versions[&number(TODAY)].read.excluded, excluded, "{message}");
        }
    }
}

#[test]
fn snapshot_of_another_day_or_a_failed_one_is_replaced() {
    for (day, provisioning) in [("2026.11.08", Provisioning::Succeeded), (TODAY, Provisioning::Failed)] {
        let scenario = Scenario::first();
        let mut world = scenario.world();
        leave_snapshot(&mut world, day, provisioning);
        assert_eq!(expect_completed(&scenario, &mut world), Route::Full);
        assert!(!donor_was_never_stopped(&world));
    }
}

#[test]
fn snapshot_of_a_version_that_is_being_created_is_kept() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    leave_snapshot(&mut world, "2026.11.14", Provisioning::Succeeded);
    add_version(&mut world, "2026.11.14", true, VersionState::Creating);
    let (step, class, message) = expect_failed(&scenario, &mut world);
    assert_eq!((step, class), (Step::Survey, ErrorClass::Busy));
    assert!(message.contains("2026.11.14"), "{message}");
    assert!(world.snapshot.is_some() && donor_was_never_stopped(&world));
}

#[test]
fn run_past_midnight_keeps_its_day() {
    let mut scenario = Scenario::first();
    scenario.options.new_nodes = 1;
    let mut world = scenario.world();
    // It dies while the version is created, at half past eleven, and is resumed the next afternoon.
    world.faults.crash = Some((Step::Publish, Point::AfterRecord));
    let mut driver = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
    let end = driver.drive(&mut world);
    assert_eq!(end, End::Died);
    world.sleep(std::time::Duration::from_hours(15));
    let end = finish(&mut world, end);
    assert_eq!(end, End::Done(Outcome::Completed { version: number(TODAY) }));
    assert_eq!(world.versions.keys().cloned().collect::<Vec<_>>(), [number(TODAY)]);
    assert_invariants(&world, "midnight");
}

#[test]
fn todays_version_that_is_being_created_is_awaited_and_tested() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    leave_snapshot(&mut world, TODAY, Provisioning::Succeeded);
    add_version(&mut world, TODAY, true, VersionState::Creating);
    let ends = std::time::Duration::from_mins(50);
    world.begin(ends, crate::world::Effect::VersionMade(number(TODAY)), None);
    assert_eq!(expect_completed(&scenario, &mut world), Route::FromVersion);
    assert!(donor_was_never_stopped(&world) && world.versions[&number(TODAY)].tested && world.snapshot.is_none());
}

#[test]
fn todays_version_that_is_in_use_is_not_created_again() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    add_version(&mut world, TODAY, false, VersionState::Succeeded);
    assert_eq!(expect_completed(&scenario, &mut world), Route::FromVersion);
    assert!(donor_was_never_stopped(&world));
    assert!(!world.acts.iter().any(|act| act.starts_with("create-canary ")), "it was tested before");
}

#[test]
fn todays_rejected_version_is_replaced_only_on_request() {
    let mut scenario = Scenario::second();
    let reject = |world: &mut World| {
        add_version(world, TODAY, true, VersionState::Succeeded);
        world.versions.get_mut(&number(TODAY)).unwrap().joins = false;
        world.definition.as_mut().unwrap().tags.insert(REJECTED_TAG.to_owned(), format!("2026.11.01 {TODAY}"));
    };
    let mut world = scenario.world();
    reject(&mut world);
    let (step, class, message) = expect_failed(&scenario, &mut world);
    assert_eq!((step, class), (Step::Survey, ErrorClass::Refused));
    assert!(message.contains("--replace-today") && donor_was_never_stopped(&world), "{message}");

    scenario.options.replace_today = true;
    let mut world = scenario.world();
    reject(&mut world);
    // The snapshot of the rejected version would give the same version again.
    leave_snapshot(&mut world, TODAY, Provisioning::Succeeded);
    assert_eq!(expect_completed(&scenario, &mut world), Route::Full);
    assert!(world.versions[&number(TODAY)].joins && !donor_was_never_stopped(&world));
    assert_eq!(
        world.definition.unwrap().tags[REJECTED_TAG],
        "2026.11.01",
        "the rejection of the old version does not apply to the new one"
    );
}

#[test]
fn version_in_use_is_not_replaced() {
    let mut scenario = Scenario::second();
    scenario.options.replace_today = true;
    let mut world = scenario.world();
    add_version(&mut world, TODAY, false, VersionState::Succeeded);
    let (_, class, message) = expect_failed(&scenario, &mut world);
    assert_eq!(class, ErrorClass::Refused);
    assert!(message.contains("roll it back"), "{message}");

    let mut world = scenario.world();
    add_version(&mut world, TODAY, true, VersionState::Succeeded);
    let runs = kiln_types::ImageSource::ExactVersion(world.definition_name.clone(), number(TODAY));
    world.machines.get_mut(&1).unwrap().runs = runs;
    let (_, class, message) = expect_failed(&scenario, &mut world);
    assert_eq!(class, ErrorClass::Refused);
    assert!(message.contains("refresh"), "{message}");
}

#[test]
fn failed_versions_are_deleted_unless_an_instance_uses_them() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    add_version(&mut world, "2026.11.12", true, VersionState::Failed);
    // A write to a good version failed; instance 1 runs it.
    world.versions.get_mut(&number("2026.10.18")).unwrap().read.state = VersionState::Failed;
    expect_completed(&scenario, &mut world);
    assert!(!world.versions.contains_key(&number("2026.11.12")));
    assert!(world.versions.contains_key(&number("2026.10.18")));
}

#[test]
fn history_keeps_used_versions_and_the_requested_number_of_usable_ones() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    expect_completed(&scenario, &mut world);
    let left: Vec<String> = world.versions.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["2026.10.18", "2026.11.01", "2026.11.08", TODAY], "instance 1 runs the oldest");
}

#[test]
fn externally_reset_model_is_switched_and_stripped_again() {
    let scenario = Scenario::second();
    let mut world = scenario.world();
    let original = Scenario::first().world();
    world.pool.recipe = original.pool.recipe;
    world.bootstraps = true;
    // It fails between the switch and the strip; the next run continues there.
    world.faults.plan("act strip-scripts ".to_owned(), Fault::Permission, u32::MAX);
    let (step, ..) = expect_failed(&scenario, &mut world);
    assert_eq!(step, Step::StripScripts);
    world.faults.rules.clear();
    let mut driver = Driver::open(&mut world, "again", "r2", &scenario.header()).unwrap();
    let end = driver.drive(&mut world);
    assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{end:?}");
    assert!(!world.bootstraps && !world.pool.recipe.extensions.iter().any(kiln_types::Extension::is_custom_script));
}

#[test]
fn different_machine_with_the_donors_id_is_not_touched() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    world.machines.get_mut(&DONOR).unwrap().vm_id = "vm-of-another-machine".to_owned();
    let End::Done(Outcome::Failed { step, .. }) = scenario.run(&mut world) else { panic!() };
    assert_eq!(step, Step::Protect);
    assert!(donor_was_never_stopped(&world));
}

#[test]
fn version_is_the_day_of_the_start() {
    let options = kiln_prototype::run::RunOptions::default();
    assert_eq!(header(BEGIN, &options, true).version, number(TODAY));
}
