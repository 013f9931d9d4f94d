//! A driver like the real one, without a runtime: it decides, acts, records, and decides again.

use std::time::Duration;

use kiln_prototype::action::Action;
use kiln_prototype::decide::{
    Decision, Stuck, Wait, event_after_action, event_after_failure, event_after_live_snapshot, event_after_operation,
    next,
};
use kiln_prototype::journal::{Entry, Event, Memo, Outcome, Run, StepFailure};
use kiln_prototype::observed::Observed;
use kiln_prototype::run::Header;
use kiln_prototype::step::Step;
use kiln_types::OperationState;

use crate::fault::Point;
use crate::world::World;

/// How a driver ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Done(Outcome),
    Refused(Vec<String>),
    Stuck(Stuck),
    Died,
    /// Another process has the pool.
    Lost(&'static str),
}

/// How long a lease is valid without renewal.
const LEASE: jiff::SignedDuration = jiff::SignedDuration::from_secs(15);

/// More turns than any run needs.
const MAX_TURNS: u32 = 20_000;

pub(crate) struct Driver {
    pub(crate) who: String,
    pub(crate) run: Run,
    observed: Observed,
    revision: u64,
    /// Sends every action twice.
    pub(crate) repeats: bool,
}

impl Driver {
    /// Opens a run.
    pub(crate) fn open(world: &mut World, who: &str, id: &str, header: &Header) -> Result<Self, End> {
        acquire_lease(world, who)?;
        let run = Run::open(id.parse().unwrap(), header.clone());
        let revision = world.journal.revision;
        let mut driver = Self { who: who.to_owned(), run, observed: Observed::default(), revision, repeats: false };
        driver.record(world, Event::Opened { header: Box::new(header.clone()) })?;
        Ok(driver)
    }

    /// Resumes the open run from its journal alone.
    pub(crate) fn resume(world: &mut World, who: &str) -> Result<Self, End> {
        acquire_lease(world, who)?;
        let run = replay(world).pop().expect("a journal with a run");
        let revision = world.journal.revision;
        let mut driver = Self { who: who.to_owned(), run, observed: Observed::default(), revision, repeats: false };
        if driver.run.closed.is_none() {
            driver.record(world, Event::Resumed { who: who.to_owned() })?;
        }
        Ok(driver)
    }

    /// Drives the run to its end.
    pub(crate) fn drive(&mut self, world: &mut World) -> End {
        for _ in 0..MAX_TURNS {
            if let Some(end) = self.turn(world) {
                if !matches!(end, End::Died | End::Lost(_)) {
                    world.lease = None;
                }
                return end;
            }
        }
        panic!("no end after {MAX_TURNS} turns, at {:?}", kiln_prototype::decide::current_step(&self.run));
    }

    /// Makes one decision.
    pub(crate) fn turn(&mut self, world: &mut World) -> Option<End> {
        world.pass();
        world.check_invariants();
        let turned = match next(&self.run, &self.observed, world.now) {
            Decision::Read(facts) => self.read(world, &facts),
            Decision::Act { step, action, memo } => self.act(world, step, &action, memo),
            Decision::Release { hold, action } => self.act(world, hold.released_by(), &action, None),
            Decision::Wait(wait) => self.wait(world, wait),
            Decision::Record(event) => self.record_decision(world, event),
            Decision::Done(outcome) => Err(End::Done(outcome)),
            Decision::Stuck(stuck) => Err(End::Stuck(stuck)),
            Decision::Refuse(reasons) => Err(End::Refused(reasons)),
        };
        turned.err()
    }

    fn read(&mut self, world: &mut World, facts: &[kiln_prototype::observed::Fact]) -> Result<(), End> {
        for fact in facts {
            if let Err(failure) = world.read(*fact, &self.run.header, &mut self.observed) {
                return self.fail(world, failure);
            }
        }
        Ok(())
    }

    fn act(&mut self, world: &mut World, step: Step, action: &Action, memo: Option<Memo>) -> Result<(), End> {
        check_lease(world, &self.who)?;
        self.record(world, Event::Started { step, memo })?;
        die(world, step, Point::BeforeAct)?;
        let done = world.act(step, action, &self.run.header, self.run.id.as_str());
        if self.repeats {
            // A second action may fail because the first one succeeded.
            let _ = world.act(step, action, &self.run.header, self.run.id.as_str());
        }
        if let Err(end) = die(world, step, Point::AfterAct) {
            // It may have died while the file systems were frozen.
            world.maybe_frozen |= matches!(action, Action::LiveSnapshot(_));
            return Err(end);
        }
        self.observed.forget(action);
        let event = match done {
            Ok(None) if matches!(action, Action::LiveSnapshot(_)) => {
                Some(event_after_live_snapshot(&self.run, &world.freeze))
            }
            Ok(handle) => event_after_action(step, handle),
            Err(failure) => {
                self.observed = Observed::default();
                Some(event_after_failure(&self.run, step, failure))
            }
        };
        if let Some(event) = event {
            self.record(world, event)?;
        }
        die(world, step, Point::AfterRecord)
    }

    fn wait(&mut self, world: &mut World, wait: Wait) -> Result<(), End> {
        match wait {
            Wait::For { step, pause, .. } => {
                world.sleep(pause);
                self.observed.forget_after_wait(step);
                self.renew(world);
                Ok(())
            }
            Wait::Operation { step, handle } => match world.observe(&handle) {
                Ok(OperationState::Running(progress)) => {
                    world.sleep(progress.retry_after.unwrap_or(Duration::from_secs(30)));
                    self.observed.forget_after_wait(step);
                    self.renew(world);
                    Ok(())
                }
                Ok(OperationState::Succeeded) => match event_after_operation(&mut self.run, step) {
                    Some(event) => self.record(world, event),
                    None => Ok(()),
                },
                Ok(OperationState::Failed(failure)) => {
                    self.observed = Observed::default();
                    self.fail(world, StepFailure::new(failure.class, failure.to_string()))
                }
                Err(_) => {
                    self.run.clear_handle(step);
                    self.observed = Observed::default();
                    Ok(())
                }
            },
        }
    }

    fn record_decision(&mut self, world: &mut World, event: Event) -> Result<(), End> {
        let step = match &event {
            Event::Succeeded { step, .. } | Event::Failed { step, .. } => Some(*step),
            _ => None,
        };
        let untouched = step.filter(|step| !self.run.is_begun(*step));
        if let Some(step) = untouched {
            die(world, step, Point::BeforeAct)?;
            die(world, step, Point::AfterAct)?;
        }
        self.record(world, event)?;
        step.map_or(Ok(()), |step| die(world, step, Point::AfterRecord))
    }

    fn fail(&mut self, world: &mut World, failure: StepFailure) -> Result<(), End> {
        let step = kiln_prototype::decide::current_step(&self.run).expect("the failed step");
        self.record(world, event_after_failure(&self.run, step, failure))
    }

    /// Appends to the journal, if no other process has written meanwhile.
    fn record(&mut self, world: &mut World, event: Event) -> Result<(), End> {
        if world.journal.revision != self.revision {
            return Err(End::Lost("journal"));
        }
        let entry = Entry { run: self.run.id.clone(), at: world.now, event };
        self.run.apply(entry.at, &entry.event);
        world.journal.entries.push(entry);
        world.journal.revision += 1;
        self.revision = world.journal.revision;
        Ok(())
    }

    fn renew(&self, world: &mut World) {
        if world.lease.as_ref().is_some_and(|(holder, _)| *holder == self.who) {
            world.lease = Some((self.who.clone(), world.now + LEASE));
        }
    }
}

/// Replays the journal from its stored form, so that nothing is used that is not serialised.
pub(crate) fn replay(world: &World) -> Vec<Run> {
    let read = |line: String| serde_json::from_str(&line).expect("a line of the journal");
    let entries: Vec<Entry> = world.journal.lines().map(read).collect();
    assert_eq!(entries, world.journal.entries);
    Run::replay(&entries).expect("a journal that can be replayed")
}

fn acquire_lease(world: &mut World, who: &str) -> Result<(), End> {
    match &world.lease {
        Some((holder, until)) if holder != who && *until > world.now => Err(End::Lost("lease")),
        _ => {
            world.lease = Some((who.to_owned(), world.now + LEASE));
            Ok(())
        }
    }
}

fn check_lease(world: &mut World, who: &str) -> Result<(), End> {
    match &world.lease {
        Some((holder, _)) if holder == who => Ok(()),
        _ => Err(End::Lost("lease")),
    }
}

fn die(world: &mut World, step: Step, point: Point) -> Result<(), End> {
    if world.faults.dies(step, point) { Err(End::Died) } else { Ok(()) }
}
