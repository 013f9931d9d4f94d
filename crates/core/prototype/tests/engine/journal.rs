//! The journal: its format and its size.

use std::collections::BTreeSet;

use kiln_prototype::Error;
use kiln_prototype::decide::event_after_failure;
use kiln_prototype::journal::{
    Compaction, Entry, Event, Memo, Outcome, Outline, Output, Route, Run, StepFailure, compact,
};
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
    let mut entries = Vec::new();
    let mut write = |run: &mut Run, event: Event| {
        run.apply(at, &event);
        entries.push(Entry { run: id.clone(), at, event });
    };
    write(&mut run, Event::Opened { header: Box::new(scenario.header()) });
    let long = || StepFailure { class: ErrorClass::Transient, message: "InternalServerError ".repeat(500) };
    for step in Step::ALL {
        for attempt in 0.. {
            write(&mut run, Event::Started { step, memo: Some(Memo::Target("k".repeat(40))) });
            write(&mut run, Event::Accepted { step, handle: handle(1) });
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
    let size = size(&compact(entries, usize::MAX));
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

/// A handle as Azure's are: signed URLs of 3,045 to 3,288 characters, one or two of them.
fn handle(seed: usize) -> OperationHandle {
    let url = |number: usize| "u".repeat(3_045 + number * 37 % 244);
    let urls: Vec<String> = (0..=seed % 2).map(|number| url(seed + number)).collect();
    OperationHandle::new(format!("{{\"kind\":\"write\",\"urls\":{urls:?}}}"))
}

/// The events of a completed run with 11 operations.
fn run_of_a_night(night: usize) -> Vec<Entry> {
    let operations = [
        Step::Claim,
        Step::PowerOff,
        Step::Snapshot,
        Step::Start,
        Step::Publish,
        Step::DeleteSnapshot,
        Step::CreateCanary,
        Step::DeleteCanary,
        Step::Include,
        Step::Model,
        Step::ReleaseClaim,
    ];
    let scenario = Scenario::second();
    let at = scenario.header().started;
    let mut events = vec![Event::Opened { header: Box::new(scenario.header()) }];
    for (number, step) in Step::ALL.into_iter().enumerate() {
        events.push(Event::Started { step, memo: None });
        if operations.contains(&step) {
            events.push(Event::Accepted { step, handle: handle(night + number) });
        }
        events.push(Event::Succeeded { step, output: None });
    }
    events.push(Event::Closed { outcome: Outcome::Completed { version: number(TODAY) } });
    events.into_iter().map(|event| Entry { run: format!("r{night}").parse().unwrap(), at, event }).collect()
}

fn size(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| serde_json::to_string(entry).unwrap().len() + 1).sum()
}

/// A journal that is compacted with every write, like that of the engine. Outlines are kept, because 400 runs are written.
#[derive(Default)]
struct Compacted {
    entries: Vec<Entry>,
    outlines: Vec<Outline>,
    largest: usize,
}

impl Compacted {
    fn write(&mut self, more: impl IntoIterator<Item = Entry>) {
        for entry in more {
            self.outlines.push(Outline::new(&entry));
            self.entries.push(entry);
        }
        let compaction = Compaction::new(&self.outlines, LIMIT / 2);
        self.entries = compaction.apply(self.entries.drain(..));
        self.outlines = compaction.apply(self.outlines.drain(..));
        self.largest = self.largest.max(compaction.bytes_after);
    }
}

#[test]
fn journal_of_400_runs_with_handles_of_azures_size_stays_under_half_of_the_limit() {
    let mut journal = Compacted::default();
    for night in 0..400 {
        if night % 40 == 39 {
            for entry in run_of_a_night(night) {
                journal.write([entry]);
            }
        } else {
            journal.write(run_of_a_night(night));
        }
    }
    assert!(journal.largest <= LIMIT / 2, "{} bytes", journal.largest);
    assert!(size(&journal.entries) <= journal.largest && journal.largest > LIMIT / 4, "{} bytes", journal.largest);
    let runs = Run::replay(&journal.entries).unwrap();
    assert!(runs.len() > 20, "only {} runs are left", runs.len());
    assert_eq!(runs.last().unwrap().id.as_str(), "r399");
    assert!(runs.iter().all(|run| run.closed.is_some() && run.is_done(Step::ReleaseClaim)), "a run lost an entry");
}

#[test]
fn handle_is_dropped_when_its_step_ends_and_kept_while_it_runs() {
    let night = run_of_a_night(1);
    let is_handle = |entry: &&Entry| matches!(entry.event, Event::Accepted { .. });
    for end in 1..=night.len() {
        let kept = compact(night[..end].to_vec(), LIMIT);
        let expected = usize::from(matches!(night[end - 1].event, Event::Accepted { .. }));
        assert_eq!(kept.iter().filter(is_handle).count(), expected, "after {:?}", night[end - 1].event);
        let (Ok(before), Ok(after)) = (Run::replay(&night[..end]), Run::replay(&kept)) else { panic!() };
        assert_eq!(before, after, "the run is the same without the handles of ended operations");
    }
    // A failed attempt and a second start end an operation, too.
    let at = night[0].at;
    let entry = |event| Entry { run: "r1".parse().unwrap(), at, event };
    let accepted = || entry(Event::Accepted { step: Step::Publish, handle: handle(1) });
    let failure = StepFailure::new(ErrorClass::Throttled, "429");
    let failed = entry(Event::Failed { step: Step::Publish, failure, permanent: false });
    let started = entry(Event::Started { step: Step::Publish, memo: None });
    for last in [failed, started] {
        let kept = compact(vec![night[0].clone(), accepted(), last], LIMIT);
        assert_eq!(kept.iter().filter(is_handle).count(), 0);
    }
}

/// A `CronJob` resumes a run every night, and its release fails every night.
#[test]
fn run_that_is_resumed_for_a_year_fits_into_the_journal_and_keeps_its_state() {
    let scenario = Scenario::first();
    let at = scenario.header().started;
    let entry = |event| Entry { run: "r1".parse().unwrap(), at, event };
    let protection = Some(Memo::Protection(Protection::NONE));
    let failed = |step, class| {
        let failure = StepFailure::new(class, "AllocationFailed ".repeat(40));
        entry(Event::Failed { step, failure, permanent: false })
    };
    let begin = vec![
        entry(Event::Opened { header: Box::new(scenario.header()) }),
        entry(Event::Started { step: Step::Protect, memo: protection }),
        entry(Event::Succeeded { step: Step::Protect, output: None }),
        entry(Event::Started { step: Step::PowerOff, memo: Some(Memo::Boot(Some("9c5e".to_owned()))) }),
        failed(Step::Publish, ErrorClass::StorageUnsupported),
    ];
    let mut all = begin.clone();
    let mut journal = Compacted::default();
    journal.write(begin);
    for _ in 0..365 {
        let mut night = vec![entry(Event::Resumed { who: "cron".to_owned() })];
        for _ in 0..12 {
            night.push(entry(Event::Started { step: Step::Start, memo: None }));
            night.push(failed(Step::Start, ErrorClass::Capacity));
        }
        all.extend(night.clone());
        journal.write(night);
    }
    assert!(journal.largest <= LIMIT / 2, "{} bytes", journal.largest);
    let entries = journal.entries;
    assert!(size(&all) > LIMIT, "the test fills no journal");
    let (kept, whole) = (Run::replay(&entries).unwrap().remove(0), Run::replay(&all).unwrap().remove(0));
    assert_eq!((kept.holds(), kept.protection_before()), (whole.holds(), whole.protection_before()));
    let since_resumed = |run: &Run| {
        let start = run.step(Step::Start).unwrap();
        (start.began, start.repeats, start.refused, start.failures.len() - start.excused)
    };
    assert_eq!(since_resumed(&kept), since_resumed(&whole));
    assert_eq!(kept.step(Step::PowerOff), whole.step(Step::PowerOff));
    let unsupported = |run: &Run| run.step(Step::Publish).unwrap().failures.clone();
    assert_eq!(unsupported(&kept), unsupported(&whole), "the fallback to local storage is still known");
}

#[test]
fn open_run_and_last_run_are_never_dropped() {
    let dropped = |nights: &[(usize, usize)]| {
        let entries = nights.iter().flat_map(|(night, length)| run_of_a_night(*night).into_iter().take(*length));
        let runs = Run::replay(&compact(entries.collect(), 100)).unwrap();
        runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(dropped(&[(1, 99), (2, 20)]), ["r2"]);
    assert_eq!(dropped(&[(1, 99), (2, 99)]), ["r2"]);
    assert_eq!(dropped(&[(1, 20), (2, 99), (3, 99)]), ["r1", "r3"]);
}

#[test]
fn outline_of_a_stored_line_is_that_of_its_entry_in_both_schemas() {
    for entry in entries().iter().chain(&run_of_a_night(3)) {
        let line = serde_json::to_string(entry).unwrap();
        assert_eq!(Outline::parse(&line), Some(Outline::new(entry)), "{line}");
    }
    let old = r#"{"run":"r1","at":"2026-11-15T22:00:00Z","event":"failed","step":"powerOff","failure":{"class":"Throttled","message":"429"},"forGood":false}"#;
    let opened = include_str!("schema1.jsonl").lines().next().unwrap();
    let accepted = r#"{"run":"r1","at":"2026-11-15T22:00:00Z","event":"accepted","step":"powerOff","handle":"h"}"#;
    let outlines: Vec<Outline> = [opened, accepted, old].iter().map(|line| Outline::parse(line).unwrap()).collect();
    let compaction = Compaction::new(&outlines, LIMIT);
    assert_eq!((compaction.keep, compaction.handles), (vec![true, false, true], 1));
    for bad in ["", "{}", "{broken", r#"{"run":"r1","event":"something"}"#] {
        assert_eq!(Outline::parse(bad), None, "{bad}");
    }
}
