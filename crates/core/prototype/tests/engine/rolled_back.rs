//! Rollbacks during a run that only the tags of the image definition show, such as those of another cluster.

use kiln_prototype::decide::{current_step, event_to_cancel};
use kiln_prototype::journal::{Event, Outcome, Run};
use kiln_prototype::step::Step;
use kiln_types::ErrorClass;
use kiln_types::tags::{ANCESTORS_TAG, PAUSED_TAG, REJECTED_TAG};

use crate::driver::{Driver, End, replay};
use crate::scenario::{Scenario, TODAY, assert_invariants, assert_nothing_held, number};
use crate::world::World;

/// Runs until a step is next, writes a tag of the image definition, and continues.
fn run_with_tag(scenario: &Scenario, step: Step, tag: &str, value: &str) -> (End, World) {
    let mut world = scenario.world();
    let mut header = scenario.header();
    header.tags.insert(ANCESTORS_TAG.to_owned(), "2026.11.08 2026.11.01".to_owned());
    let mut driver = Driver::open(&mut world, "first", "r1", &header).unwrap();
    while current_step(&driver.run) != Some(step) {
        assert_eq!(driver.turn(&mut world), None, "{step} was not reached");
    }
    world.definition.as_mut().unwrap().tags.insert(tag.to_owned(), value.to_owned());
    let end = driver.drive(&mut world);
    assert_nothing_held(&world, scenario, step.name());
    assert_invariants(&world, step.name());
    (end, world)
}

fn pinned(mut scenario: Scenario) -> Scenario {
    scenario.options.pin = true;
    scenario
}

#[test]
fn rollback_during_a_run_is_read_right_before_the_version_is_used() {
    let rollbacks = [
        (PAUSED_TAG, "because=packet loss", "the pool is paused"),
        (REJECTED_TAG, TODAY, "it was rejected"),
        (REJECTED_TAG, "2026.11.01", "it descends from version 2026.11.01"),
    ];
    for scenario in [Scenario::first(), pinned(Scenario::first()), pinned(Scenario::second())] {
        for step in [Step::Include, Step::Model] {
            for (tag, value, words) in rollbacks {
                let (end, world) = run_with_tag(&scenario, step, tag, value);
                let End::Done(Outcome::Failed { step: failed, failure }) = end else {
                    panic!("{step} {value}: {end:?}")
                };
                assert_eq!((failed, failure.class), (step, ErrorClass::Refused), "{failure}");
                assert!(failure.message.contains(words), "{failure}");
                let excluded = world.versions[&number(TODAY)].read.excluded;
                assert_eq!(excluded, step == Step::Include, "{step} {value}");
                assert_eq!(world.pool.recipe.image, scenario.world().pool.recipe.image, "{step} {value}");
            }
        }
    }
}

#[test]
fn rejections_of_other_versions_do_not_stop_a_run() {
    for value in ["2026.10.18", "2026.12.24"] {
        let (end, _) = run_with_tag(&Scenario::first(), Step::Include, REJECTED_TAG, value);
        assert!(matches!(end, End::Done(Outcome::Completed { .. })), "{value}: {end:?}");
    }
}

#[test]
fn cancelled_run_only_releases_its_holds() {
    for scenario in Scenario::few() {
        for turn in 0.. {
            let mut world = scenario.world();
            let mut driver = Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
            if (0..turn).any(|_| driver.turn(&mut world).is_some()) {
                break;
            }
            let Some(event) = event_to_cancel(&driver.run, "cancelled by a rollback") else { continue };
            let Event::Failed { step, permanent: true, .. } = &event else { panic!("{event:?}") };
            assert!(step.releases().is_none() && !driver.run.is_done(*step), "{step}");
            let step = *step;
            world.record(&driver.run, event);
            let acts = world.acts.len();
            world.lease = None;
            let mut other = Driver::resume(&mut world, "second").unwrap();
            let end = other.drive(&mut world);
            let End::Done(Outcome::Failed { step: failed, .. }) = end else { panic!("turn {turn}: {end:?}") };
            assert_eq!(failed, step, "turn {turn}");
            for act in &world.acts[acts..] {
                let name = act.split(' ').next().unwrap_or_default();
                let step = Step::ALL.into_iter().find(|step| step.name() == name).unwrap();
                assert!(step.releases().is_some(), "turn {turn}: {act}");
            }
            assert_nothing_held(&world, &scenario, &format!("turn {turn}"));
            assert_eq!(event_to_cancel(&replay(&world)[0], "again"), None);
        }
    }
}

impl World {
    fn record(&mut self, run: &Run, event: Event) {
        self.journal.entries.push(kiln_prototype::journal::Entry { run: run.id.clone(), at: self.now, event });
        self.journal.revision += 1;
    }
}
