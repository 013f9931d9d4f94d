//! A driver like the real one, without a runtime: it asks, does, writes down, and asks again.

use std::time::Duration;

use kiln_prototype::action::Action;
use kiln_prototype::decide::{
    Decision, Stuck, Wait, event_after_action, event_after_failure, event_after_operation, next,
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
    /// It was killed.
    Died,
    /// Somebody else has the pool.
    Lost(&'static str),
}

/// How long a lease is good without a renewal.
const LEASE: jiff::SignedDuration = jiff::SignedDuration::from_secs(15);

/// More than any run takes.
const MOST_TURNS: u32 = 20_000;

pub(crate) struct Driver {
    pub(crate) who: String,
    pub(crate) run: Run,
    seen: Observed,
    revision: u64,
    /// Does everything twice.
    pub(crate) stutters: bool,
}

impl Driver {
    /// Begins a run.
    pub(crate) fn open(world: &mut World, who: &str, id: &str, header: &Header) -> Result<Self, End> {
        take_lease(world, who)?;
        let run = Run::open(id.parse().unwrap(), header.clone());
        let revision = world.journal.revision;
        let mut driver = Self { who: who.to_owned(), run, seen: Observed::default(), revision, stutters: false };
        driver.record(world, Event::Opened { header: Box::new(header.clone()) })?;
        Ok(driver)
    }

    /// Takes up the run that is open, from nothing but the journal.
    pub(crate) fn resume(world: &mut World, who: &str) -> Result<Self, End> {
        take_lease(world, who)?;
        let run = replay(world).pop().expect("a journal with a run");
        let revision = world.journal.revision;
        let mut driver = Self { who: who.to_owned(), run, seen: Observed::default(), revision, stutters: false };
        if driver.run.closed.is_none() {
            driver.record(world, Event::Resumed { who: who.to_owned() })?;
        }
        Ok(driver)
    }

    /// To the end.
    pub(crate) fn drive(&mut self, world: &mut World) -> End {
        for _ in 0..MOST_TURNS {
            if let Some(end) = self.turn(world) {
                if !matches!(end, End::Died | End::Lost(_)) {
                    world.lease = None;
                }
                return end;
            }
        }
        panic!("no end after {MOST_TURNS} turns, at {:?}", kiln_prototype::decide::current_step(&self.run));
    }

    /// One decision.
    pub(crate) fn turn(&mut self, world: &mut World) -> Option<End> {
        world.pass();
        world.check();
        let turned = match next(&self.run, &self.seen, world.now) {
            Decision::Read(facts) => self.read(world, &facts),
            Decision::Act { step, action, memo } => self.act(world, step, &action, memo),
            Decision::Release { hold, action } => self.act(world, hold.released_by(), &action, None),
            Decision::Wait(wait) => self.wait(world, wait),
            Decision::Record(event) => self.note(world, event),
            Decision::Done(outcome) => Err(End::Done(outcome)),
            Decision::Stuck(stuck) => Err(End::Stuck(stuck)),
            Decision::Refuse(reasons) => Err(End::Refused(reasons)),
        };
        turned.err()
    }

    fn read(&mut self, world: &mut World, facts: &[kiln_prototype::observed::Fact]) -> Result<(), End> {
        for fact in facts {
            if let Err(failure) = world.read(*fact, &self.run.header, &mut self.seen) {
                return self.fail(world, failure);
            }
        }
        Ok(())
    }

    fn act(&mut self, world: &mut World, step: Step, action: &Action, memo: Option<Memo>) -> Result<(), End> {
        hold_lease(world, &self.who)?;
        self.record(world, Event::Started { step, memo })?;
        die(world, step, Point::BeforeAct)?;
        let done = world.act(step, action, &self.run.header, self.run.id.as_str());
        if self.stutters {
            // What is refused because it is so already is no harm.
            let _ = world.act(step, action, &self.run.header, self.run.id.as_str());
        }
        die(world, step, Point::AfterAct)?;
        self.seen.forget(action);
        let event = match done {
            Ok(handle) => event_after_action(step, handle),
            Err(failure) => {
                self.seen = Observed::default();
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
            Wait::For { pause, .. } => {
                world.sleep(pause);
                self.seen = Observed::default();
                self.renew(world);
                Ok(())
            }
            Wait::Operation { step, handle } => match world.observe(&handle) {
                Ok(OperationState::Running(progress)) => {
                    world.sleep(progress.retry_after.unwrap_or(Duration::from_secs(30)));
                    self.seen = Observed::default();
                    self.renew(world);
                    Ok(())
                }
                Ok(OperationState::Succeeded) => match event_after_operation(&mut self.run, step) {
                    Some(event) => self.record(world, event),
                    None => Ok(()),
                },
                Ok(OperationState::Failed(failure)) => {
                    self.seen = Observed::default();
                    self.fail(world, StepFailure::new(failure.class, failure.to_string()))
                }
                Err(_) => {
                    self.run.clear_handle(step);
                    self.seen = Observed::default();
                    Ok(())
                }
            },
        }
    }

    fn note(&mut self, world: &mut World, event: Event) -> Result<(), End> {
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
        let step = kiln_prototype::decide::current_step(&self.run).expect("a step that failed");
        self.record(world, event_after_failure(&self.run, step, failure))
    }

    /// Writes down, over what was read and nothing else.
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

/// All runs of the journal as it is stored: what does not survive being written is not there.
pub(crate) fn replay(world: &World) -> Vec<Run> {
    let read = |line: String| serde_json::from_str(&line).expect("a line of the journal");
    let entries: Vec<Entry> = world.journal.lines().map(read).collect();
    assert_eq!(entries, world.journal.entries);
    Run::replay(&entries).expect("a journal that can be replayed")
}

fn take_lease(world: &mut World, who: &str) -> Result<(), End> {
    match &world.lease {
        Some((holder, until)) if holder != who && *until > world.now => Err(End::Lost("lease")),
        _ => {
            world.lease = Some((who.to_owned(), world.now + LEASE));
            Ok(())
        }
    }
}

fn hold_lease(world: &mut World, who: &str) -> Result<(), End> {
    match &world.lease {
        Some((holder, _)) if holder == who => Ok(()),
        _ => Err(End::Lost("lease")),
    }
}

fn die(world: &mut World, step: Step, point: Point) -> Result<(), End> {
    if world.faults.dies(step, point) { Err(End::Died) } else { Ok(()) }
}
