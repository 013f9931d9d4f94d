//! The journal: its format and its size.

use std::collections::BTreeSet;

use kiln_prototype::Error;
use kiln_prototype::decide::event_after_failure;
use kiln_prototype::journal::{Entry, Event, Memo, Outcome, Output, Route, Run, StepFailure};
use kiln_prototype::run::Schema;
use kiln_prototype::step::Step;
use kiln_types::{ErrorClass, OperationHandle, Protection, Revision};

use crate::driver::replay;
use crate::fault::{Fault, Point};
use crate::scenario::{Scenario, TODAY, number};

/// One line for each kind of entry. A run that is open during an upgrade is read by the next kiln, so a change here requires a new
/// [`Schema`].
const GOLDEN: &str = include_str!("golden.jsonl");

/// The size limit of a journal in a `ConfigMap`.
const LIMIT: usize = 960 * 1024;

fn every_event() -> Vec<Event> {
    let failure = || StepFailure::new(ErrorClass::Throttled, "429 TooManyRequests");
    let started = |step, memo| Event::Started { step, memo };
    let succeeded = |step, output| Event::Succeeded { step, output };
    let capacity = Memo::Capacity { instances: 10, revision: Some(Revision::new("W/\"7\"")) };
    vec![
        Event::Opened { header: Box::new(Scenario::first().header()) },
        Event::Resumed { who: "op@example".to_owned() },
        started(Step::HoldNode, None),
        started(Step::Protect, Some(Memo::Protection(Protection::NONE))),
        started(Step::PowerOff, Some(Memo::Boot(Some("9c5e".to_owned())))),
        started(Step::PowerOff, Some(Memo::Boot(None))),
        started(Step::AddNodes, Some(capacity)),
        started(Step::Prune, Some(Memo::Target("2026.10.18".to_owned()))),
        Event::Accepted { step: Step::Publish, handle: OperationHandle::new("{\"kind\":\"write\"}") },
        succeeded(Step::Gallery, None),
        succeeded(Step::Survey, Some(Output::Route(Route::Full))),
        succeeded(Step::Survey, Some(Output::Route(Route::FromSnapshot))),
        succeeded(Step::Survey, Some(Output::Route(Route::FromVersion))),
        succeeded(Step::AwaitCanary, Some(Output::Rejected("the canary has not joined".to_owned()))),
        succeeded(Step::Start, Some(Output::Note("the donor is gone".to_owned()))),
        Event::Failed { step: Step::Start, failure: failure(), permanent: false },
        Event::Failed { step: Step::Drain, failure: failure(), permanent: true },
        Event::Closed { outcome: Outcome::Completed { version: number(TODAY) } },
        Event::Closed { outcome: Outcome::Failed { step: Step::Drain, failure: failure() } },
        Event::Closed { outcome: Outcome::Rejected { version: number(TODAY), reason: "it did not join".to_owned() } },
    ]
}

fn entries() -> Vec<Entry> {
    let at = "2026-11-15T22:00:00Z".parse().unwrap();
    every_event().into_iter().map(|event| Entry { run: "r1".parse().unwrap(), at, event }).collect()
}

#[test]
fn every_event_round_trips_in_the_committed_format() {
    let written: String = entries().iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/golden.jsonl"), &written).unwrap();
    }
    assert_eq!(written, GOLDEN);
    let read: Vec<Entry> = GOLDEN.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, entries());
}

#[test]
fn steps_have_the_same_names_in_journals_and_commands() {
    for step in Step::ALL {
        assert_eq!(serde_json::to_string(&step).unwrap(), format!("\"{step}\""));
    }
    let names: BTreeSet<&str> = Step::ALL.iter().map(|step| step.name()).collect();
    assert_eq!(names.len(), Step::ALL.len());
}

#[test]
fn journal_of_another_schema_is_rejected_with_its_number() {
    let line = GOLDEN.lines().next().unwrap();
    let with = |schema: u32| line.replace("\"schema\":2", &format!("\"schema\":{schema}"));
    assert!(serde_json::from_str::<Entry>(&with(Schema::NUMBER)).is_ok());
    for (schema, age) in [(1, "an older"), (3, "a newer")] {
        let error = serde_json::from_str::<Entry>(&with(schema)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("written by {age} kiln (schema {schema}; this kiln reads schema 2)")),
            "{error}"
        );
    }
    // A journal of schema 1 lacks fields that schema 2 has. The schema is reported, not the missing field.
    let old = include_str!("schema1.jsonl").lines().next().unwrap();
    let error = serde_json::from_str::<Entry>(old).unwrap_err().to_string();
    assert!(error.contains("written by an older kiln (schema 1;"), "{error}");
}

#[test]
fn entry_of_a_run_that_was_not_opened_is_rejected() {
    let error = Run::replay(&entries()[1..]).unwrap_err();
    assert!(matches!(error, Error::RunNotOpened(_)), "{error}");
}

#[test]
fn journal_can_have_several_runs() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    scenario.run(&mut world);
    let mut entries = world.journal.entries.clone();
    let second = world.journal.entries.iter().take(9).cloned();
    entries.extend(second.map(|entry| Entry { run: "r2".parse().unwrap(), ..entry }));
    let runs = Run::replay(&entries).unwrap();
    assert_eq!(runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["r1", "r2"]);
    assert!(runs[0].closed.is_some() && runs[1].closed.is_none());
}

#[test]
fn replayed_run_equals_the_original() {
    for scenario in Scenario::all() {
        let mut world = scenario.world();
        world.faults.plan("act publish ".to_owned(), Fault::LostResponse, 2);
        world.faults.crash = Some((Step::Include, Point::AfterRecord));
        let mut driver = crate::driver::Driver::open(&mut world, "first", "r1", &scenario.header()).unwrap();
        driver.drive(&mut world);
        let replayed = replay(&world).pop().unwrap();
        for step in Step::ALL {
            assert_eq!(replayed.step(step), driver.run.step(step), "{}: {step}", scenario.name);
        }
        assert_eq!((replayed.last, replayed.holds()), (driver.run.last, driver.run.holds()));
    }
}

/// Every step fails as often as possible with a long message before it succeeds.
#[test]
fn longest_run_fits_into_the_journal() {
    let scenario = Scenario::first();
    let id: kiln_prototype::run::RunId = "r1".parse().unwrap();
    let at = scenario.header().started;
    let mut run = Run::open(id.clone(), scenario.header());
    let mut size = 0;
    let mut write = |run: &mut Run, event: Event| {
        run.apply(at, &event);
        size += serde_json::to_string(&Entry { run: id.clone(), at, event }).unwrap().len() + 1;
    };
    write(&mut run, Event::Opened { header: Box::new(scenario.header()) });
    let long = || StepFailure { class: ErrorClass::Transient, message: "InternalServerError ".repeat(500) };
    for step in Step::ALL {
        for attempt in 0.. {
            write(&mut run, Event::Started { step, memo: Some(Memo::Target("k".repeat(40))) });
            write(&mut run, Event::Accepted { step, handle: OperationHandle::new("h".repeat(900)) });
            let event = event_after_failure(&run, step, long());
            let Event::Failed { permanent, failure, .. } = &event else { panic!() };
            assert!(failure.message.len() < 1_000);
            // A release is attempted twelve times before the run is stuck.
            if *permanent || attempt == 12 {
                break;
            }
            write(&mut run, event);
        }
        write(&mut run, Event::Succeeded { step, output: None });
    }
    assert!(size * 2 < LIMIT, "{size} bytes");
}

#[test]
fn ordinary_run_writes_a_few_kilobytes() {
    let scenario = Scenario::first();
    let mut world = scenario.world();
    scenario.run(&mut world);
    let size: usize = world.journal.lines().map(|line| line.len() + 1).sum();
    assert!(size < 20 * 1024, "{size} bytes");
}
